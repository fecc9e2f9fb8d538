#!/bin/sh
# Everything a fresh Debian 12 machine needs, then build and run every test; CI runs this and nothing else.
#
#   scripts/test.sh                     all tests: unit, end to end, frameworks; then the sanitizer builds' unit tests
#   scripts/test.sh --fast              no sanitizer builds, no tests labelled slow or frameworks
#   scripts/test.sh [--fast] -- ARGS…   ARGS go to ctest, e.g. `-- -R preload_e2e`
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/lib.sh"

fast=false
while [ "$#" -gt 0 ]; do
  case $1 in
    --fast) fast=true ;;
    -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --) shift; break ;;
    *) die "unknown argument: $1 (see --help)" ;;
  esac
  shift
done

cd "$root"
# Tests that load both cores would disturb each other: run_serial marks those, the rest share the machine.
jobs=$(nproc)
failed=

# ctest_preset PRESET ARGS…: runs the tests, then names every skipped one with its reason.
ctest_preset() {
  preset=$1
  shift
  say "test ($preset)"
  ctest --preset "$preset" -j "$jobs" "$@" || failed="$failed $preset"
  # Every test program says why it leaves something out with a line of this form.
  skips=$(sed -n 's/^.*SKIPPED: /  /p' "$root/build/$preset/Testing/Temporary/LastTest.log" | sort | uniq -c)
  echo "skipped ($preset): $(printf '%s' "$skips" | grep -c .)"
  [ -z "$skips" ] || printf '%s\n' "$skips"
}

if $fast; then
  scripts/setup.sh
  scripts/build.sh release
  ctest_preset release -LE 'slow|frameworks' "$@"
else
  scripts/setup.sh --python
  scripts/build.sh release
  ctest_preset release "$@"
  for preset in asan tsan; do
    scripts/build.sh "$preset"
    ctest_preset "$preset" "$@"
  done
fi
[ -z "$failed" ] || die "tests failed:$failed"
