#!/bin/sh
# Searches for inputs that break dlhook: builds tests/fuzz with clang and libFuzzer under AddressSanitizer and UBSan and
# runs the targets one after another.
#
#   scripts/fuzz.sh [--runs N] [--seconds N] [TARGET…]   TARGET: reader tables onednn_line names host_bytes drain ring_file elf;
#                                                        all if none is named. Each ends after N inputs (default 100000) or N
#                                                        seconds, whichever comes first
#
# Inputs that reach new code are kept in build/fuzz/corpus/TARGET (used by the next run), inputs that break something in
# build/fuzz/findings. Figures and what to do with a finding: tests/fuzz/README.md. DLHOOK_FUZZ_BUILD replaces
# build/fuzz.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/lib.sh"

runs=100000
seconds=0
targets=
while [ "$#" -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --runs) runs=${2:?--runs expects a number}; shift ;;
    --seconds) seconds=${2:?--seconds expects a number}; shift ;;
    -*) die "unknown argument: $1 (see --help)" ;;
    *) targets="$targets $1" ;;
  esac
  shift
done

# On Debian the name may include the version.
clang=
for candidate in clang++ clang++-19 clang++-16 clang++-15 clang++-14; do
  if command -v "$candidate" >/dev/null; then
    clang=$candidate
    break
  fi
done
[ -n "$clang" ] || die "no clang here (Debian: apt-get install --no-install-recommends clang libclang-rt-14-dev)"

build=${DLHOOK_FUZZ_BUILD:-$root/build/fuzz}
quietly "configure ($build)" cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" -DCMAKE_CXX_FLAGS=-fno-sanitize-recover=all \
  -DCMAKE_C_COMPILER="$(echo "$clang" | sed 's/++//')" -DCMAKE_CXX_COMPILER="$clang" \
  -DDLHOOK_SANITIZE=fuzzer-no-link,address,undefined
programs=
for target in $targets; do programs="$programs ${target}_fuzz"; done
# shellcheck disable=SC2086  # a list of targets
quietly "build ($build)" cmake --build "$build" --target ${programs:-dlhook_fuzz_targets}

mkdir -p "$build/findings"
failed=
while read -r target max_bytes corpora; do
  case " ${targets:-$target} " in *" $target "*) ;; *) continue ;; esac
  mkdir -p "$build/corpus/$target"
  log=$build/$target.log
  say "$target"
  # shellcheck disable=SC2086  # a list of folders
  nice "$build/tests/fuzz/${target}_fuzz" -runs="$runs" -max_total_time="$seconds" -max_len="$max_bytes" -timeout=5 \
    -rss_limit_mb=1024 -malloc_limit_mb=256 -print_final_stats=1 -artifact_prefix="$build/findings/$target-" \
    "$build/corpus/$target" $corpora >"$log" 2>&1 || failed="$failed $target"
  coverage=$(sed -n 's/^#.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
  echo "$target: ${executed:-?} inputs, ${rate:-?}/s, ${coverage:-?} places in the code reached"
done <"$build/tests/fuzz/targets.txt"
[ -z "$failed" ] || die "broken by an input (see $build/findings and $build/TARGET.log):$failed"
