#!/bin/sh
# Builds the benchmarks, runs them and prints tables: figure, limit, median [95 % interval], verdict.
#
#   scripts/bench.sh [--scale F] [FIGURE…]   FIGURE: calls cuda gpu drain memory reader report torch scopes torch_cuda;
#                                            all if none is named (about 15 minutes)
#   scripts/bench.sh --peers [--scale F]     dlhook compared with LTTng-UST, uftrace, ltrace, ONEDNN_VERBOSE, torch.profiler and cProfile:
#                                            peer_calls peer_onednn peer_reading peer_torch (about 10 minutes).
#                                            `scripts/setup.sh --peers` installs them; missing ones are named and left out.
#
# The PyTorch figures need a Python with torch: PYTHON_WITH_TORCH, else the virtual environment of scripts/setup.sh
# --frameworks, else python3; those with its CUDA wheel DLHOOK_CUDA_VENV, else build/venv-cuda. Without these they are
# skipped. Method and results: tests/bench/README.md.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/lib.sh"

case ${1:-} in
  -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac

# A separate folder: tests build other targets meanwhile. DLHOOK_BENCH_BUILD changes it.
build=${DLHOOK_BENCH_BUILD:-$root/build/bench}
cuda_venv=${DLHOOK_CUDA_VENV:-$root/build/venv-cuda}
quietly "configure ($build)" cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DDLHOOK_BUILD_BENCHMARKS=ON \
  -DDLHOOK_CUDA_VENV="$cuda_venv"
quietly "build ($build)" cmake --build "$build" --target dlhook dlhook_shim dlhook_benchmarks dlhook_fakes_cuda13

has_torch() { "$1" -c 'import torch' >/dev/null 2>&1; }
torch_python=
for candidate in "${PYTHON_WITH_TORCH:-}" "${DLHOOK_VENV:-$root/build/venv}/bin/python" python3; do
  if [ -n "$candidate" ] && has_torch "$candidate"; then
    torch_python=$candidate
    break
  fi
done

# The CUDA wheel runs on the fake vendor libraries from this build.
cuda_python=
if [ -x "$cuda_venv/bin/python" ]; then
  cuda_python=$cuda_venv/bin/python
  quietly "lay fakes into $cuda_venv" \
    python3 -B "$root/tests/frameworks/torch_cuda/fake_site.py" "$cuda_venv" "$build/tests/fakes/cuda13"
fi

DLHOOK_BENCH_SHIM=$build/lib/libdlhook.so DLHOOK_BENCH_DLHOOK=$build/analyzer/dlhook \
  DLHOOK_BENCH_PROGRAMS=$build/tests/bench/programs DLHOOK_BENCH_PYTHON=$torch_python \
  DLHOOK_BENCH_CUDA_PYTHON=$cuda_python \
  exec python3 -B "$root/tests/bench/bench.py" "$@"
