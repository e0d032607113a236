#!/usr/bin/env bash
# build.sh PRESET: configures and builds build/PRESET. The dev build is installed: the command into .venv/, the
# extension into the Python package, which .venv imports from the checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/logged.sh

preset=$1
directory=build/$preset

# Ninja configures again by itself when a CMake file changes, but does not know about the presets.
if [[ ! -e $directory/build.ninja || CMakePresets.json -nt $directory/configured ]]; then
  say "configuring $directory"
  python=()
  [[ ! -x .venv/bin/python ]] || python=(-DPython_EXECUTABLE="$PWD/.venv/bin/python")
  logged "configure-$preset" cmake --preset "$preset" "${python[@]}"
  touch "$directory/configured"
fi

quiet=--quiet
[[ -t 1 ]] && quiet=
if [[ $(ninja -C "$directory" -n) != *"no work to do"* ]]; then
  say "building $directory"
  cmake --build --preset "$preset" -- $quiet
fi

if [[ $preset == dev && -d .venv ]]; then
  logged install cmake --install "$directory" --component runtime --prefix .venv
  logged install-development cmake --install "$directory" --component development --prefix .venv
  logged install-python cmake --install "$directory" --component python --prefix python/tensortap
fi
