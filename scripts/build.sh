#!/bin/sh
# Configures and builds one preset of CMakePresets.json: scripts/build.sh [product|release|dev|asan|tsan] [target…]
# A line on stderr for each stage, more only when it fails. The result lies in build/PRESET.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/lib.sh"

preset=${1:-release}
[ "$#" = 0 ] || shift
cd "$root"
quietly "configure ($preset)" cmake --preset "$preset"
if [ "$#" = 0 ]; then
  quietly "build ($preset)" cmake --build --preset "$preset"
else
  quietly "build ($preset): $*" cmake --build --preset "$preset" --target "$@"
fi
