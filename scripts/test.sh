#!/bin/sh
# Installs what a fresh Debian 12 machine needs, then builds and runs every test; CI runs only this.
#
#   scripts/test.sh                     all tests: unit, end to end, frameworks; then the sanitizer builds' unit tests
#   scripts/test.sh --fast              no sanitizer builds, no tests labelled slow or frameworks
#   scripts/test.sh [--fast] -- ARGS…   ARGS go to ctest, e.g. `-- -R preload_e2e`
# At most ten tests that failed run once more at the end, alone; those that pass then are reported as FLAKY.
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
# Tests that load both cores would disturb each other: these are marked run_serial, the rest run in parallel. One more
# than there are processors, because many wait.
jobs=$(($(nproc) + 1))
failed=
again=
results=
stages=$(mktemp)

# stage NAME COMMAND…: records the time for the report at the end.
stage() {
  stage_name=$1
  shift
  stage_start=$(date +%s)
  if "$@"; then stage_status=0; else stage_status=$?; fi
  echo "$(($(date +%s) - stage_start)) $stage_name" >>"$stages"
  return "$stage_status"
}

# Printed last, so that the tail of a log is enough.
report() {
  end_beside
  # shellcheck disable=SC2086  # a list of words
  python3 -B scripts/test_report.py "$stages" $results
  rm -f "$stages"
}
trap report EXIT

# ctest_preset PRESET ARGS…: runs the tests, then lists every skipped one with its reason.
ctest_preset() {
  preset=$1
  shift
  junit=build/$preset/Testing/tests.xml
  units=build/$preset/Testing/units
  rm -rf "$junit" "$units"
  results="$results $preset=$junit"
  say "test ($preset)"
  rm -f "$junit.again"
  GTEST_OUTPUT="xml:$root/$units/" ctest --preset "$preset" -j "$jobs" --output-junit "$root/$junit" --test-output-truncation middle "$@" ||
    again="$again $preset"
  # Every test program reports what it skips in a line of this form.
  skips=$(sed -n 's/^.*SKIPPED: /  /p' "$root/build/$preset/Testing/Temporary/LastTest.log" | sort | uniq -c)
  echo "skipped ($preset): $(printf '%s' "$skips" | grep -c .)"
  [ -z "$skips" ] || printf '%s\n' "$skips"
}

# ctest_again PRESET: what failed once more, alone. If it passes then, the report calls it FLAKY, and the run is green.
ctest_again() {
  say "test again ($1)"
  failures=build/$1/Testing/Temporary/LastTestsFailed.log
  [ -s "$failures" ] && [ "$(wc -l <"$failures")" -le 10 ] &&
    ctest --preset "$1" --rerun-failed -j 1 --output-junit "$root/build/$1/Testing/tests.xml.again" --test-output-truncation middle
}

if $fast; then
  stage "set-up" scripts/setup.sh --test
  stage "lint" scripts/lint.sh || failed="$failed lint"
  stage "build (release)" scripts/build.sh release
  stage "test (release)" ctest_preset release -LE 'slow|frameworks' "$@"
else
  stage "set-up (without frameworks)" scripts/setup.sh --test
  # Installing the frameworks uses the network, building the processors, so both run at once. Only the release build
  # needs them.
  beside scripts/setup.sh --frameworks --docs
  trap report EXIT
  stage "lint" scripts/lint.sh || failed="$failed lint"
  for preset in tsan asan release; do
    [ "$preset" != release ] || stage "set-up (frameworks), what was left" await || die "set-up of the frameworks failed"
    # Most of the analyzer's unit tests run once, with AddressSanitizer: tables and commands are tested in both builds.
    stage "build ($preset)" scripts/build.sh "$preset" -DDLHOOK_TESTS_THAT_ASAN_RUNS=OFF
    stage "test ($preset)" ctest_preset "$preset" "$@"
  done
fi
for preset in $again; do
  stage "test again ($preset)" ctest_again "$preset" || failed="$failed $preset"
done
[ -z "$failed" ] || die "failed:$failed"
