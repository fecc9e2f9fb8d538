#!/bin/sh
# Runs the demo and puts its output between the markers of the page docs/sample_report.md:
#   scripts/regen_docs.sh           replaces the part between `<!-- demo output: begin -->` and `end`
#   scripts/regen_docs.sh --check   changes nothing; fails if the markers are missing or there is nothing between them
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/lib.sh"

page=$root/docs/sample_report.md
begin='<!-- demo output: begin -->'
end='<!-- demo output: end -->'
for marker in "$begin" "$end"; do
  [ "$(grep -cxF -e "$marker" "$page")" = 1 ] || die "docs/sample_report.md needs exactly one line: $marker"
done
case ${1:-} in
  --check)
    sed -n "/^$begin\$/,/^$end\$/p" "$page" | grep -q '^epoch ' || die "docs/sample_report.md has no demo output"
    exit 0 ;;
  '') ;;
  *) die "unknown argument: $1" ;;
esac

output=$(mktemp)
trap 'rm -f "$output" "$output.page"' EXIT
# Without absolute paths of this machine, up to the tables, which other pages show.
"$root/scripts/demo.sh" | sed "/^layers: /,\$d; s|$root/||g; s|[[:space:]]*\$||" >"$output"
{
  sed "/^$begin\$/q" "$page"
  echo '```'
  cat "$output"
  echo '```'
  sed -n "/^$end\$/,\$p" "$page"
} >"$output.page"
cat "$output.page" >"$page"
