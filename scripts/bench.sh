#!/usr/bin/env bash
# One table of ratios against peers measured in the same run, also as build/bench/ratios.json.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/logged.sh

say "measuring; a few minutes, best on a machine that does nothing else"
.venv/bin/python bench/ratios.py "$@"
say "the same as JSON: build/bench/ratios.json; per dtype and vector path: build/dev/bench/fingerprint_bench"
