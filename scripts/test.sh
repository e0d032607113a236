#!/usr/bin/env bash
# Runs the C++ tests, then the Python tests; both, even when the first fails.
set -uo pipefail
cd "$(dirname "$0")/.."

failed=0
ctest --preset dev --no-tests=error -j "$(nproc)" || failed=1
.venv/bin/python -m pytest tests/python || failed=1
exit $failed
