#!/bin/sh
# On a machine with an NVIDIA GPU and PyTorch for CUDA: trains AlexNet and ResNet-18 for a few steps under dlhook and
# compares the record with cuDNN's own log and with torch.profiler, and the cost of recording with a bare tracer of
# CUPTI's activities. README.md has the details, and what has been tested.
#
#   tests/gpu/run.sh [--build FOLDER] [--python FILE] [--steps N] [--repeat N] [--rounds N] [--collect FOLDER] [--record]
#                    [NAME…]
#
# --build: an existing build folder with dlhook; without it, build/release is built. --python: default python3.
# --repeat: runs of each side of a comparison of times. --rounds: of the comparison with the bare tracer, 0 for none.
# --collect: runs the programs only; run.py --from FOLDER compares. --record: keeps the runs in tests/golden/gpu.
# NAME: alexnet, resnet18, resnet18_tuned, alexnet_graph; all if none is named.
# Exit codes: 0 all equal; 1 a difference; 77 not run: no GPU. Never 0 if nothing was compared.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/scripts/lib.sh"

build=
words=$#
while [ "$words" -gt 0 ]; do  # the other words are passed to run.py, in their order
  case $1 in
    -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --build) build=${2:?--build needs a folder}; shift 2; words=$((words - 2)) ;;
    *) set -- "$@" "$1"; shift; words=$((words - 1)) ;;
  esac
done

# Nothing is built if nothing can be run.
if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
  echo "SKIPPED: gpu: no NVIDIA GPU (no /dev/nvidiactl)"
  exit 77
fi
if [ -z "$build" ]; then
  build=$root/build/release
  quietly "configure ($build)" cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release
  quietly "build ($build)" cmake --build "$build" --target dlhook dlhook_shim
fi
exec python3 -B "$root/tests/gpu/run.py" --dlhook "$build/analyzer/dlhook" "$@"
