#!/bin/sh
# Configures and builds one preset of CMakePresets.json:
#   scripts/build.sh [product|release|dev|asan|tsan] [-DVARIABLE=VALUE] [target…]
# Prints a line on stderr for each stage, and more only if it fails. The result is in build/PRESET.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/lib.sh"

preset=${1:-release}
[ "$#" = 0 ] || shift
variable=
case ${1:-} in
  -D*) variable=$1; shift ;;
esac
cd "$root"
quietly "configure ($preset)" cmake --preset "$preset" ${variable:+"$variable"}
if [ "$#" = 0 ]; then
  quietly "build ($preset)" cmake --build --preset "$preset"
else
  quietly "build ($preset): $*" cmake --build --preset "$preset" --target "$@"
fi
