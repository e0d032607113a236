#!/usr/bin/env bash
# Checks formatting and lints; changes nothing. All checks run, even when one fails.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/logged.sh

failed=0
check() {
  say "$1"
  shift
  "$@" || failed=1
}

mapfile -t sources < <(git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' '*.js')
check clang-format clang-format-14 --dry-run -Werror "${sources[@]}"
check clang-tidy logged clang-tidy run-clang-tidy-14 -quiet -p build/dev "$PWD/(src|cli)/"
check "ruff check" .venv/bin/python -m ruff check --quiet .
check "ruff format" .venv/bin/python -m ruff format --check --quiet .
((failed)) || say "clean"
exit $failed
