# Shared by setup.sh, build.sh, test.sh and demo.sh: sourced, not run. Plain POSIX sh.
# The caller sets `root` (the repository's top folder) first.

die() {
  echo "${0##*/}: $*" >&2
  exit 1
}

# say TEXT: progress for people; silent in a pipe, where only results and failures are wanted.
say() {
  if [ -t 2 ]; then echo "==> $*" >&2; fi
}

# quietly TEXT COMMAND…: runs it with its output in a log that is shown only when it fails.
quietly() {
  quietly_text=$1
  shift
  say "$quietly_text"
  quietly_log=$(mktemp)
  if "$@" >"$quietly_log" 2>&1 </dev/null; then
    rm -f "$quietly_log"
    return 0
  else
    quietly_status=$?
  fi
  echo "${0##*/}: failed: $quietly_text" >&2
  tail -n 60 "$quietly_log" >&2
  rm -f "$quietly_log"
  return "$quietly_status"
}

# retry COMMAND…: networks flake; four attempts, a little longer apart each time.
retry() {
  for retry_pause in 3 10 30 0; do
    if "$@"; then return 0; fi
    [ "$retry_pause" = 0 ] || sleep "$retry_pause"
  done
  return 1
}
