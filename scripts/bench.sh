#!/usr/bin/env bash
# Runs every benchmark of the dev build.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/logged.sh

shopt -s nullglob
programs=(build/dev/bench/*_bench)
((${#programs[@]})) || { say "no benchmark in build/dev/bench"; exit 1; }
for program in "${programs[@]}"; do
  say "$program"
  "$program"
done
