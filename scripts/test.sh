#!/usr/bin/env bash
# Runs the C++ tests, then the Python tests; both, even when the first fails. A file of Python tests runs in one process,
# as many files at a time as there are cores, in their order: conftest.py puts the longest first.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/logged.sh

failed=0
say "the C++ tests"
ctest --preset dev --no-tests=error --progress -j "$((2 * $(nproc)))" || failed=1  # the longest wait more than they compute
say "the Python tests"
.venv/bin/python -m pytest tests/python -q -n "$(nproc)" --dist loadfile --no-loadscope-reorder --durations 20 || failed=1
exit $failed
