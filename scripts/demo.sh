#!/usr/bin/env bash
# From end to end: records a sentence encoder with its real weights, in a program that does not know of TensorTap, then
# looks at what was recorded.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/logged.sh

run=build/demo/run
layer=encoder.layer.0.attention.output.dense
export PATH="$PWD/.venv/bin:$PATH" HF_HUB_DISABLE_PROGRESS_BARS=1 TRANSFORMERS_VERBOSITY=error

# shown COMMAND…: prints the command and runs it.
shown() {
  local code=0 words=()
  for word in "$@"; do
    [[ $word == *[!A-Za-z0-9_./=-]* ]] && word="'${word//\'/\'\\\'\'}'"
    words+=("$word")
  done
  printf '\n$ %s\n' "${words[*]}"
  "$@" || code=$?
  if ((code != 0)); then
    say "that exited with $code" >&2
    exit 1
  fi
}

rm -rf build/demo
mkdir -p build/demo

shown ttap run -o $run -- python examples/python/embed_sentences.py
shown ttap ls $run --filter 'layer\.0\.attention'
shown ttap show $run $layer --bins 6 --worst 2
shown ttap check $run
shown python -c "import tensortap as tap; print(tap.open(\"$run\").ranks[0].passes[0][\"$layer\"][0, :2, :4])"
printf '\nThe run is in %s. In your own program: docs/recording.md. From C++: examples/cpp.\n' $run
