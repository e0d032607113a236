#!/usr/bin/env bash
# From end to end: records a sentence encoder with its real weights, once right and once with a mistake deep inside, in a
# program that does not know of TensorTap; asks which operator went wrong first, and writes the page.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/logged.sh

right=build/demo/right
wrong=build/demo/wrong
report=build/demo/report.html
layer=encoder.layer.3.output.LayerNorm
# Nothing but ours is printed.
export PATH="$PWD/.venv/bin:$PATH" HF_HUB_DISABLE_PROGRESS_BARS=1 TRANSFORMERS_VERBOSITY=error TORCH_LOGS=-all

# shown CODE COMMAND…: prints the command and runs it; it must exit with CODE.
shown() {
  local expected=$1 code=0 words=()
  shift
  for word in "$@"; do
    [[ $word == *[!A-Za-z0-9_./=-]* ]] && word="'${word//\'/\'\\\'\'}'"
    words+=("$word")
  done
  printf '\n$ %s\n' "${words[*]}"
  "$@" || code=$?
  if ((code != expected)); then
    say "that exited with $code, not with $expected" >&2
    exit 1
  fi
}

rm -rf build/demo
mkdir -p build/demo

shown 0 ttap run -o $right --roles in,out --modules all -- python examples/python/wrong_epsilon.py
shown 0 ttap run -o $wrong --roles in,out --modules all -- python examples/python/wrong_epsilon.py --wrong
shown 1 ttap diff $right $wrong --html $report --rows 8
shown 0 ttap show $wrong $layer --bins 6 --worst 2
shown 0 ttap check $wrong
shown 0 python -c "import tensortap as tap; print(tap.diff(\"$right\", \"$wrong\").first.key)"
printf '\nThe mistake was planted in %s (examples/python/wrong_epsilon.py): that is what the diff names.\n' $layer
printf 'The page: %s. Your own model: docs/diffing.md, docs/recording.md. From C++: examples/cpp.\n' $report
