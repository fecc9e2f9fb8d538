#!/bin/sh
# Looks at the sources without building them: shell scripts (shellcheck), Python (ruff: ruff.toml; mypy: mypy.ini), C and C++ (clang-format
# of Debian 12, version 14: .clang-format).
#
#   scripts/lint.sh         says what is wrong; exit code 1
#   scripts/lint.sh --fix   fixes what can be fixed automatically: the format of C and C++, some of Python
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/lib.sh"

fix=false
case ${1:-} in
  --fix) fix=true ;;
  -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
  '') ;;
  *) die "unknown argument: $1 (see --help)" ;;
esac
cd "$root"

bin=${DLHOOK_LINT_VENV:-$root/build/venv-lint}/bin
ruff=$bin/ruff
for tool in shellcheck clang-format "$ruff"; do
  command -v "$tool" >/dev/null || die "no $tool: run scripts/setup.sh --test"
done

failed=
# lint NAME COMMAND…
lint() {
  lint_name=$1
  shift
  "$@" || failed="$failed $lint_name"
}

# source_files PATTERN…: source files with matching names.
source_files() {
  for pattern; do find .ci analyzer docs examples preload proto scripts tests -name "$pattern" -type f; done
}

# shellcheck disable=SC2046  # no name here has a space
lint shellcheck shellcheck -x .ci/run $(source_files '*.sh')

# cpp_format CLANG_FORMAT_OPTIONS…
cpp_format() {
  source_files '*.c' '*.cc' '*.h' | xargs -n 32 -P "$(nproc)" clang-format "$@"
}

if $fix; then
  lint ruff "$ruff" check --quiet --fix
  cpp_format -i
else
  lint ruff "$ruff" check --quiet
  lint clang-format cpp_format --dry-run -Werror
fi

if [ -x "$bin/mypy" ]; then
  lint mypy "$bin/mypy" --no-error-summary
else
  echo "SKIPPED: mypy: not in $bin: run scripts/setup.sh --test"
fi

[ -z "$failed" ] || die "failed:$failed"
