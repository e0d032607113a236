# Sourced by the other scripts: one line per stage with the time it took, the rest in a log.

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*"; }

# logged NAME COMMAND…: output to build/logs/NAME.log; on failure its path and last lines. On a terminal a line shows the
# seconds that have passed.
logged() {
  local log=build/logs/$1.log code=0
  shift
  mkdir -p build/logs
  if [[ -t 1 ]]; then
    "$@" >"$log" 2>&1 &
    local child=$! begin=$SECONDS
    while kill -0 $child 2>/dev/null; do
      printf '\r  %d s ' $((SECONDS - begin))
      sleep 0.2
    done
    printf '\r\033[K'
    wait $child || code=$?
  else
    "$@" >"$log" 2>&1 || code=$?
  fi
  ((code)) || return 0
  say "failed: $*"
  say "$log ends in:"
  tail -n 15 "$log" | sed 's/^/    /'
  return $code
}

# stage WHAT COMMAND…: says what is being done, and how long it took.
stage() {
  local what=$1 begin=$SECONDS
  shift
  say "$what"
  "$@" || return
  say "done in $((SECONDS - begin)) s"
}
