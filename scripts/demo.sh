#!/bin/sh
# From a fresh Debian 12 machine to a report: installs what is missing, builds dlhook, records the training of a small
# PyTorch network and prints where the time went. Takes some minutes the first time, seconds afterwards.
#
#   scripts/demo.sh [RUN]   keeps the run in folder RUN (default: build/demo-run, replaced each time)
#
# Uses this machine's python3 if it has PyTorch and scikit-learn, else a virtual environment in build/venv.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/lib.sh"

case ${1:-} in
  -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
  -*) die "unknown argument: $1 (see --help)" ;;
esac
run=${1:-$root/build/demo-run}
if [ "$#" = 0 ]; then rm -rf "$run"; fi
[ ! -e "$run" ] || die "$run exists; name a new folder"

"$root/scripts/setup.sh"
python=${PYTHON:-python3}
if "$python" -c 'import sklearn, torch' 2>/dev/null; then
  "$root/scripts/build.sh" product
else
  # Installing PyTorch uses the network, building the processors, so both run at once.
  python=${DLHOOK_VENV:-$root/build/venv}/bin/python
  beside "$root/scripts/setup.sh" --demo
  "$root/scripts/build.sh" product
  await
fi
say "training LeNet under dlhook"
dlhook=$root/build/product/analyzer/dlhook
"$dlhook" run -o "$run" -- "$python" "$root/examples/01_first_profile/train_lenet.py"
say "report"
"$dlhook" report "$run"
say "tables (all of them: dlhook report ${run#"$root"/} --table all)"
"$dlhook" report "$run" --table layers,accounting,layout,algorithms,gemm --limit 10
