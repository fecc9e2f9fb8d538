# shellcheck shell=sh
# Shared by setup.sh, build.sh, test.sh and demo.sh: to be sourced. Plain POSIX sh.
# The caller sets `root` (the repository's top folder) first.

# Scripts that call each other count seconds from the start of the outermost one.
: "${DLHOOK_SCRIPT_START:=$(date +%s)}"
export DLHOOK_SCRIPT_START

die() {
  echo "${0##*/}: $*" >&2
  exit 1
}

# say TEXT: prints progress on stderr, with the seconds since the start.
say() {
  printf '==> %4d s  %s\n' "$(($(date +%s) - DLHOOK_SCRIPT_START))" "$*" >&2
}

# quietly TEXT COMMAND…: runs it with its output in a log, which is shown only on failure. Every minute it prints the
# log's last line.
quietly() {
  quietly_text=$1
  shift
  say "$quietly_text"
  quietly_log=$(mktemp)
  # Ends when this shell is gone; its sleep keeps no pipe of the caller open.
  while sleep 60 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
    say "$quietly_text: $(tail -n 1 "$quietly_log" | cut -c 1-100)"
  done &
  quietly_clock=$!
  if "$@" >"$quietly_log" 2>&1 </dev/null; then quietly_status=0; else quietly_status=$?; fi
  kill "$quietly_clock"
  if [ "$quietly_status" != 0 ]; then
    echo "${0##*/}: failed: $quietly_text" >&2
    tail -n 60 "$quietly_log" >&2
  fi
  rm -f "$quietly_log"
  return "$quietly_status"
}

# retry COMMAND…: for network operations; four attempts with increasing delays.
retry() {
  for retry_pause in 3 10 30 0; do
    if "$@"; then return 0; fi
    [ "$retry_pause" = 0 ] || sleep "$retry_pause"
  done
  return 1
}

# beside COMMAND…: runs it in the background; `await` waits for it. It ends with this script, however that ends.
beside() {
  setsid "$@" </dev/null &
  beside_pid=$!
  trap end_beside EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

await() {
  wait "$beside_pid"
}

# Ends everything that `beside` started.
end_beside() {
  if [ -n "${beside_pid:-}" ]; then kill -s TERM -- "-$beside_pid" 2>/dev/null || true; fi
}
