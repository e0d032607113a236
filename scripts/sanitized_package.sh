#!/usr/bin/env bash
# sanitized_package.sh asan|tsan [SECONDS]: the Python package, built with a sanitizer, while recordings come and go
# around running models (tests/python/chaos.py), and under every attack of tests/attacks. PyTorch and Python are not
# built with it; scripts/tsan.supp lists what is theirs.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/logged.sh

kind=$1
seconds=${2:-60}
directory=build/package-$kind
package=$PWD/$directory/package

scripts/build.sh "package-$kind"
rm -rf "$package"
mkdir -p "$package/tensortap"
tar cf - -C python/tensortap --exclude='*.so*' --exclude=__pycache__ --exclude=./lib --exclude=./observers . |
  tar xf - -C "$package/tensortap"
logged "install-$kind" cmake --install "$directory" --component python --prefix "$package/tensortap"

export PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1 TTAP_BIN=$PWD/.venv/bin/ttap
export ASAN_OPTIONS=detect_leaks=0:detect_container_overflow=0:verify_asan_link_order=0:halt_on_error=1:exitcode=66
export TSAN_OPTIONS=suppressions=$PWD/scripts/tsan.supp:halt_on_error=0:exitcode=66:report_signal_unsafe=0:ignore_noninstrumented_modules=1
export CUDA_VISIBLE_DEVICES=  # the driver is not built with it either: it has too little memory, and threads that never end
# The C++ library too: the sanitizer looks for its functions before Python has loaded it.
runtime="$(g++ -print-file-name="lib$kind.so") $(g++ -print-file-name=libstdc++.so.6)"
sanitized() { LD_PRELOAD=$runtime .venv/bin/python "$@"; }

failed=0
check() {
  local name=$1
  shift
  if stage "$name" logged "$kind-$name" sanitized "$@"; then
    if grep -q 'ERROR: AddressSanitizer\|WARNING: ThreadSanitizer' "build/logs/$kind-$name.log"; then
      say "$name: see build/logs/$kind-$name.log"
      failed=1
    fi
  else
    failed=1
  fi
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
check chaos tests/python/chaos.py "$scratch/chaos" "$seconds"
for attack in tests/attacks/*.py; do
  name=$(basename "$attack" .py)
  mkdir "$scratch/$name"
  check "$name" "$attack" "$scratch/$name"
done
((failed)) || say "$kind: nothing found"
exit $failed
