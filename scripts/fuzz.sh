#!/usr/bin/env bash
# fuzz.sh N: runs every fuzzer for N seconds. It starts from files that our own writers make, keeps what it learns in
# build/fuzz/NAME, and leaves an input that broke something beside it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/logged.sh

seconds=$1
shopt -s nullglob
failed=0
rm -rf build/fuzz/seeds
mkdir -p build/fuzz/seeds
logged fuzz-seeds build/asan/fuzz/make_seeds build/fuzz/seeds
fuzzers=()
for file in build/asan/fuzz/fuzz_*; do
  if [[ -f $file && -x $file ]]; then fuzzers+=("$file"); fi
done
((${#fuzzers[@]})) || { say "no fuzzer in build/asan/fuzz"; exit 1; }
for fuzzer in "${fuzzers[@]}"; do
  name=$(basename "$fuzzer")
  name=${name#fuzz_}
  mkdir -p "build/fuzz/$name/corpus"
  say "$name for $seconds s"
  if logged "fuzz-$name" "$fuzzer" -max_total_time="$seconds" -timeout=25 -artifact_prefix="build/fuzz/$name/" \
    "build/fuzz/$name/corpus" "build/fuzz/seeds/$name"; then
    say "$name: $(grep -E '^Done ' "build/logs/fuzz-$name.log" || echo done), nothing found"
  else
    failed=1
  fi
done
exit $failed
