#!/usr/bin/env bash
# The C++ example from end to end: record a run, then look at it with the command. The example plants a NaN, so
# `ttap check` is meant to find something.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/logged.sh

programs=build/examples
run=build/demo/run

# shown [EXPECTED] COMMAND…: prints the command, runs it, and insists on its exit code (0 unless another is named).
shown() {
  local expected=0 code=0
  if [[ $1 =~ ^[0-9]+$ ]]; then
    expected=$1
    shift
  fi
  printf '\n$ %s\n' "$*"
  "$@" || code=$?
  if ((code != expected)); then
    say "that exited with $code, not $expected" >&2
    exit 1
  fi
}

if [[ ! -e $programs/build.ninja ]]; then
  logged examples-configure cmake -G Ninja -S examples/cpp -B $programs -DCMAKE_PREFIX_PATH="$PWD/.venv"
fi
logged examples cmake --build $programs
rm -rf build/demo
mkdir -p build/demo

shown $programs/record_demo $run
shown .venv/bin/ttap ls $run
shown .venv/bin/ttap ls $run --pass 1
shown .venv/bin/ttap show $run layers.1.mlp.up
shown 1 .venv/bin/ttap check $run
shown .venv/bin/ttap export $run --format safetensors -o build/demo/exported
printf '\nThe run is in %s, its export in build/demo/exported.\n' $run
