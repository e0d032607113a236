#!/usr/bin/env bash
# setup.sh [demo] [test] [lint] [clang] [browser]: brings this machine to where TensorTap builds. Always the apt packages of
# the build;
#   demo, lint   .venv/ with the packages of python/requirements-{demo,lint}.txt
#   test         those of demo and test, and the apt packages of the tests
#   clang        the apt packages of the sanitizers, the fuzzers and the linters
#   browser      those of the tests that open the report page
# Quiet about what is there already. Nothing outside the checkout is touched but by apt. When something is missing
# that it cannot install, it prints one list of all that is missing and exits with 2.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/logged.sh

apt_lists=(scripts/apt-packages.txt)
pip_lists=()
for word in "$@"; do
  case $word in
    clang | browser) apt_lists+=("scripts/apt-packages-$word.txt") ;;
    demo | lint) pip_lists+=("python/requirements-$word.txt") ;;
    test)
      apt_lists+=(scripts/apt-packages-test.txt)
      pip_lists+=(python/requirements-{demo,test}.txt) ;;
    *) say "unknown word '$word'"; exit 2 ;;
  esac
done

can_make_venv() { "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }

# Whether it has a PyTorch that TensorTap works with.
has_torch() {
  "$1" - 2>/dev/null <<'PY'
import sys
from importlib import metadata

sys.exit(not (2, 11) <= tuple(map(int, metadata.version("torch").split("+")[0].split(".")[:2])) < (2, 14))
PY
}

# The interpreter to make .venv with: what PYTHON says, else the first python3 that can.
find_python() {
  local candidate candidates=(python3 /usr/bin/python3)
  [[ -z ${PYTHON:-} ]] || candidates=("$PYTHON")
  for candidate in "${candidates[@]}"; do
    if can_make_venv "$candidate"; then
      "$candidate" -c 'import sys; print(sys.executable)'
      return
    fi
  done
  return 1
}

# Whether something that is not a package of this machine does the job of one.
is_provided() {
  local what=${1#*:} directory
  case $1 in
    tool:*) command -v "$what" >/dev/null ;;
    file:*) compgen -G "$what" >/dev/null ;;
    header:*)
      for directory in /usr/include /usr/local/include /usr/include/*-linux-gnu; do
        [[ -e $directory/$what ]] && return
      done
      return 1 ;;
    python:venv) find_python >/dev/null ;;
    python:headers)
      local python
      python=$(find_python) && [[ -e $("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h ]] ;;
  esac
}

missing_apt() {
  local installed package proof
  installed=" $(dpkg-query -W -f '${Package}:${db:Status-Status} ' 2>/dev/null || true)"
  while read -r package proof; do
    [[ $package == '#'* || -z $package ]] && continue
    [[ $installed == *" $package:installed "* ]] || is_provided "$proof" || echo "$package"
  done < <(cat "${apt_lists[@]}")
}

missing_pip() {
  ((${#pip_lists[@]})) || return 0
  local python
  python=$(venv_python || { [[ -n ${PYTHON:-} ]] && find_python; }) || python=
  if [[ -n $python ]]; then
    "$python" scripts/missing_requirements.py "${pip_lists[@]}"
  else
    sed 's/ *#.*//; /^$/d' "${pip_lists[@]}"
  fi
}

# give_up REASON: the one list.
give_up() {
  local apt pip
  mapfile -t apt < <(missing_apt)
  mapfile -t pip < <(missing_pip)
  {
    echo
    say "this machine lacks, and setup could not install ($1):"
    ((!${#apt[@]})) || echo "  apt packages  ${apt[*]}"
    ((!${#pip[@]})) || echo "  pip packages  ${pip[*]}"
    echo "What to do, then run make again:"
    ((!${#apt[@]})) || echo "  as root: apt-get install ${apt[*]}"
    ((!${#pip[@]})) || echo "  let pip reach an index, or name an interpreter that has them: make PYTHON=/path/to/python …"
  } >&2
  exit 2
}

install_apt() {
  local as_root=()
  command -v apt-get >/dev/null || give_up "there is no apt-get"
  if (($(id -u) != 0)); then
    sudo -n true 2>/dev/null || give_up "not root, and sudo is not there or asks for a password"
    as_root=(sudo -n)
  fi
  local apt_get=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=1)
  # A stale index may do, so only the installation decides.
  update_and_install() {
    "${apt_get[@]}" update || true
    "${apt_get[@]}" install -y --no-install-recommends "$@"
  }
  stage "installing with apt: $*" logged apt update_and_install "$@" || give_up "apt-get failed; is there a network?"
}

# The interpreter of .venv, when that works.
venv_python() { [[ -x .venv/bin/python ]] && .venv/bin/python -c '' 2>/dev/null && echo .venv/bin/python; }

# A .venv that works is kept. One that does not, or not with the PYTHON asked for, is made anew if setup made it.
make_venv() {
  local wanted=${PYTHON:+$(find_python || true)} marker=.venv/made-with
  if [[ -n ${PYTHON:-} && -z $wanted ]]; then
    say "PYTHON=$PYTHON is not Python 3.10 or newer with the modules venv and ensurepip" >&2
    exit 2
  fi
  if venv_python >/dev/null; then
    [[ -z $wanted || $wanted == "$PWD/.venv/"* ]] && return
    [[ -e $marker && $(<"$marker") == "PYTHON=$wanted" ]] && return
  fi
  if [[ -e .venv && ! -e $marker ]]; then
    say ".venv was not made by setup and does not work, or not with PYTHON=$wanted: please move it away" >&2
    exit 2
  fi
  local python
  python=$(find_python) || give_up "no python3 that is 3.10 or newer and can make a virtual environment"
  say "making .venv with $python"
  rm -rf .venv
  local flags=()
  [[ -z $wanted ]] || flags=(--system-site-packages)
  logged venv "$python" -m venv "${flags[@]}" .venv || { rm -rf .venv; exit 2; }
  # An interpreter that is itself in a virtual environment lends only what lies beneath that; a path file, read after
  # .venv's own, lends the rest.
  [[ -z $wanted ]] || "$python" - >"$(site_packages)/zz-borrowed.pth" <<'PY'
import site
import sys

if sys.prefix != sys.base_prefix:
    for folder in site.getsitepackages():
        print(f"import site; site.addsitedir({folder!r})")
PY
  echo "PYTHON=$wanted" >$marker
}

site_packages() { echo .venv/lib/python3.*/site-packages; }

# A list that was met once is not looked at again until it changes.
install_pip() {
  local list missing stamps=.venv/requirements-met
  for list in "${pip_lists[@]}"; do
    grep -qsxF "$(sha256sum "$list")" $stamps && continue
    mapfile -t missing < <(missing_pip)
    if ((${#missing[@]})); then
      export PIP_ROOT_USER_ACTION=ignore
      stage "installing with pip into .venv: ${missing[*]}" logged pip .venv/bin/python -m pip install \
        --disable-pip-version-check --no-input --retries 2 "${missing[@]}" ||
        give_up "pip failed; is there a network?"
    fi
    sha256sum "$list" >>$stamps
  done
}

# A PyTorch that is there already is used: it need not be downloaded, and is the one that the user's programs run with.
if [[ -z ${PYTHON:-} && ! -e .venv ]]; then
  for candidate in "${VIRTUAL_ENV:+$VIRTUAL_ENV/bin/python}" python3; do
    [[ -n $candidate ]] && can_make_venv "$candidate" && has_torch "$candidate" || continue
    PYTHON=$("$candidate" -c 'import sys; print(sys.executable)')
    say "using the PyTorch of $PYTHON"
    break
  done
fi

mapfile -t missing < <(missing_apt)
((${#missing[@]} == 0)) || install_apt "${missing[@]}"

if ((${#pip_lists[@]})); then
  make_venv
  install_pip
  # The package is imported from the checkout.
  link=$(site_packages)/tensortap.pth
  [[ -e $link && $(<"$link") == "$PWD/python" ]] || echo "$PWD/python" >"$link"
fi
