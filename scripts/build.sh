#!/usr/bin/env bash
# build.sh PRESET: configures and builds build/PRESET; the dev build is installed into .venv/.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/logged.sh

preset=$1
directory=build/$preset

# Ninja configures again by itself when a CMake file changes, but does not know about the presets.
if [[ ! -e $directory/build.ninja || CMakePresets.json -nt $directory/configured ]]; then
  say "configuring $directory"
  logged "configure-$preset" cmake --preset "$preset"
  touch "$directory/configured"
fi

quiet=--quiet
[[ -t 1 ]] && quiet=
if [[ $(ninja -C "$directory" -n) != *"no work to do"* ]]; then
  say "building $directory"
  cmake --build --preset "$preset" -- $quiet
fi

if [[ $preset == dev && -d .venv ]]; then
  logged install cmake --install "$directory" --prefix .venv
fi
