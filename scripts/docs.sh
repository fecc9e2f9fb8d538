#!/bin/sh
# Makes a site for the browser of all pages of the repository and the Python package's docstrings. A broken link or anchor, and
# whatever else Sphinx complains about, is an error.
#
#   scripts/docs.sh           into build/site: open build/site/index.html
#   scripts/docs.sh FOLDER    into FOLDER, to be published: any web server, or none, can show it
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/lib.sh"

case ${1:-} in
  -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
  -*) die "unknown argument: $1 (see --help)" ;;
esac
site=${1:-$root/build/site}
sphinx=${DLHOOK_LINT_VENV:-$root/build/venv-lint}/bin/sphinx-build
[ -x "$sphinx" ] || "$root/scripts/setup.sh" --docs
PYTHONDONTWRITEBYTECODE=1 "$sphinx" -q -W --keep-going -c "$root/docs/site" -d "$site/.doctrees" "$root" "$site"
cp "$site/README.html" "$site/index.html"  # what a web server shows for the folder
say "open $site/index.html"
