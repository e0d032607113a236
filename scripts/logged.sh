# Sourced by the other scripts: one line per thing done, the rest in a log.

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*"; }

# logged NAME COMMAND…: output to build/logs/NAME.log; on failure its path and last lines.
logged() {
  local log=build/logs/$1.log
  shift
  mkdir -p build/logs
  "$@" >"$log" 2>&1 && return 0
  local code=$?
  say "failed: $*"
  say "$log ends in:"
  tail -n 15 "$log" | sed 's/^/    /'
  return $code
}
