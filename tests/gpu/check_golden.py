#!/usr/bin/env python3
"""Compares the tables of runs that run.sh --record has kept with what they were then. Needs no GPU.

    check_golden.py [--update]     DLHOOK_TEST_DLHOOK: the built command
"""

import glob
import gzip
import os
import sys
import tempfile

import run


def expected_files(name):
    return sorted(glob.glob(os.path.join(run.GOLDEN, "expected", f"{name}.*.csv")))


def changed(path, update):
    """The expected files of one kept run that differ from its tables now."""
    name = os.path.basename(path).removesuffix(".dlh.gz")
    differing = []
    with tempfile.TemporaryDirectory(prefix="dlhook-gpu-") as folder:
        trace = os.path.join(folder, "1.dlh")
        with gzip.open(path) as packed, open(trace, "wb") as file:
            file.write(packed.read())
        for expected in expected_files(name):
            with open(expected, "rb") as file:
                before = file.read()
            now = run.table_csv(trace, expected.split(".")[-2])
            if now != before:
                differing.append(os.path.basename(expected))
                if update:
                    with open(expected, "wb") as file:
                        file.write(now)
    return differing


def main():
    update = sys.argv[1:] == ["--update"]
    if sys.argv[1:] and not update:
        sys.exit(__doc__)
    kept = sorted(glob.glob(os.path.join(run.GOLDEN, "*.dlh.gz")))
    if not kept:
        print("SKIPPED: golden.gpu: no run is kept in tests/golden/gpu: tests/gpu/run.sh --record, with a GPU")
        return 0
    differing = [name for path in kept for name in changed(path, update)]
    for name in differing:
        print(f"{'updated' if update else 'differs'}: {name}")
    return 1 if differing and not update else 0


if __name__ == "__main__":
    sys.exit(main())
