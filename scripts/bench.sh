#!/usr/bin/env bash
# One table of ratios against peers measured in the same run, also as build/bench/ratios.json.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/logged.sh

say "measuring; a few minutes, best on a machine that does nothing else"
.venv/bin/python bench/ratios.py "$@"
if .venv/bin/python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
  say "on the GPU:"
  .venv/bin/python bench/gpu_ratios.py
  build/dev/bench/cuda_fingerprint_bench
fi
say "the same as JSON: build/bench/ratios.json; per dtype and vector path: build/dev/bench/fingerprint_bench"
