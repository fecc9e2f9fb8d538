"""The end of the checkers check_*.py, which take a repository, by default their own."""

import pathlib
import sys


def run(violations):
    """Prints what `violations(root)` yields; exit code 1 if that is anything."""
    default = pathlib.Path(__file__).resolve().parent.parent
    found = list(violations(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default))
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)
