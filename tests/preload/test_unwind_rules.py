"""dlhook's reading of unwind tables against readelf's, row by row: all of the C library, or of the libraries named.

test_unwind_rules.py UNWIND_RULES_OF [LIBRARY...]
"""

import collections
import os
import re
import subprocess
import sys

ENTRY = re.compile(r"^[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)")
ROW = re.compile(r"^([0-9a-f]{16}) (\S+)\s+(.*)")


def rows(library):
    """(first address, last address, CFA, rbp, return address) of each row in readelf's output."""
    command = ["readelf", "--debug-dump=frames-interp", "--wide", library]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as readelf:
        pending, columns, end = None, [], 0
        for line in readelf.stdout:
            entry, row = ENTRY.match(line), ROW.match(line)
            if (entry or row) and pending:
                next_start = int(row.group(1), 16) if row else end
                if next_start > pending[0]:
                    yield (pending[0], next_start - 1, *pending[1:])
                pending = None
            if entry:
                end = int(entry.group(2), 16)
            elif re.match(r"^\s+LOC ", line):
                columns = line.split()[2:]
            elif row and end:
                cells = dict(zip(columns, re.sub(r"r\d+ \(\w+\)|\br\d+\b", "register", row.group(3)).split()))
                pending = (int(row.group(1), 16), row.group(2), cells.get("rbp", "u"), cells.get("ra", "u"))
            elif " CIE " in line:
                end = 0


def expected(cfa, rbp, ra):
    """The same in dlhook's notation; None: an expression, which readelf does not print."""
    if "exp" in (cfa, rbp, ra) or "vexp" in (rbp, ra):
        return None
    if ra == "u":
        return "outermost"
    if not cfa.startswith(("rsp", "rbp")) or "register" in (rbp, ra):
        return "none"
    return f"{cfa},{'u' if rbp in ('u', 's') else rbp},{ra}"


def check(program, library):
    """Prints the differences; returns whether there are none."""
    known = list(rows(library))
    addresses = "".join(f"{first:x}\n{last:x}\n" for first, last, *_ in known)
    result = subprocess.run([program, library], input=addresses, capture_output=True, text=True, check=True)
    counts, differences = collections.Counter(), []
    found = result.stdout.splitlines()
    for i, (first, _, *cells) in enumerate(known):
        wanted = expected(*cells)
        for answer in found[2 * i:2 * i + 2]:
            if wanted is None:
                counts["expressions read" if answer != "none" else "expressions that are not"] += 1
            elif answer != wanted:
                differences.append(f"{first:x}: {answer} instead of {wanted}")
            else:
                counts["equal" if answer != "none" else "by another register"] += 1
    print(f"{library}: {len(known)} rows, {dict(counts)}, {len(differences)} differ")
    print("\n".join(differences[:10]))
    return not differences and len(found) == 2 * len(known) and counts["equal"] > 1000


def c_library():
    """The one used by this Python."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        return next(line.split()[-1] for line in maps if os.path.basename(line.split()[-1]).startswith("libc.so"))


def main():
    program, *libraries = sys.argv[1:]
    verdicts = [check(program, os.path.realpath(library)) for library in libraries or [c_library()]]
    sys.exit(0 if all(verdicts) else 1)


if __name__ == "__main__":
    main()
