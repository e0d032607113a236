#!/usr/bin/env bash
# build.sh PRESET: configures and builds build/PRESET. The builds dev and release are installed: the command into .venv/,
# the extension into the Python package, which .venv imports from the checkout.
#   CUDA=1   the device code too, whether or not there is a GPU; CUDA=0: without it
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/logged.sh

preset=$1
directory=build/$preset

settings=()
[[ ! -x .venv/bin/python ]] || settings+=(-DPython_EXECUTABLE="$PWD/.venv/bin/python")
[[ -z ${CUDA:-} ]] || settings+=(-DTTAP_CUDA="$([[ $CUDA == 0 ]] && echo OFF || echo ON)")

# Ninja configures again by itself when a CMake file changes, but does not know about the presets and settings.
asked="$(sha256sum CMakePresets.json) ${settings[*]}"
if [[ ! -e $directory/build.ninja || ! -e $directory/configured || $(<"$directory/configured") != "$asked" ]]; then
  stage "configuring $directory" logged "configure-$preset" cmake --preset "$preset" "${settings[@]}"
  echo "$asked" >"$directory/configured"
fi

# Ninja shows its own progress on a terminal.
quiet=--quiet
[[ -t 1 ]] && quiet=
work=$(ninja -C "$directory" -n)
if [[ $work != *"no work to do"* ]]; then
  stage "building $directory: $(tail -n 1 <<<"$work" | sed 's/.*\/\([0-9]*\)\].*/\1/') steps on $(nproc) cores" \
    cmake --build --preset "$preset" -- $quiet
fi

if [[ ($preset == dev || $preset == release) && -d .venv ]]; then
  strip=()
  [[ $preset == dev ]] || strip=(--strip)
  logged install cmake --install "$directory" --component runtime --prefix .venv "${strip[@]}"
  logged install-development cmake --install "$directory" --component development --prefix .venv
  logged install-python cmake --install "$directory" --component python --prefix python/tensortap "${strip[@]}"
fi
