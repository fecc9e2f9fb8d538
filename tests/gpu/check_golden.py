#!/usr/bin/env python3
"""Compares the tables of runs that run.sh --record has kept with what they were then, and what docs/tutorial/gpu.md shows of
them with what its commands print; the README's lines of one must be printed. Needs no GPU.

    check_golden.py [--update]     DLHOOK_TEST_DLHOOK: the built command
"""

import glob
import gzip
import os
import re
import subprocess
import sys
import tempfile

import run

README = os.path.join(run.HERE, "..", "..", "README.md")
PAGE = os.path.join(run.HERE, "..", "..", "docs", "tutorial", "gpu.md")
SHOWN = re.compile(r"^(    (?:COLUMNS=\d+ )?dlhook .*)(\n\n```\n)(?:.*\n)*?(```\n)", re.MULTILINE)


def expected_files(name):
    return sorted(glob.glob(os.path.join(run.GOLDEN, "expected", f"{name}.*.csv")))


def unpacked(path, folder):
    """The trace of a kept run, as a run in the folder."""
    name = os.path.basename(path).removesuffix(".dlh.gz")
    os.mkdir(os.path.join(folder, name))
    trace = os.path.join(folder, name, f"{name}.dlh")
    with gzip.open(path) as packed, open(trace, "wb") as file:
        file.write(packed.read())
    return trace


def printed(command, folder):
    """What the words behind `dlhook`, with variables in front of it, print where the kept runs lie."""
    environment = run.e2e.clean_environment(PATH=os.path.dirname(run.e2e.DLHOOK) + ":" + os.environ["PATH"])
    environment.pop("COLUMNS", None)
    return subprocess.run(command, shell=True, check=True, stdout=subprocess.PIPE, cwd=folder, env=environment, text=True).stdout


def changed_pages(kept, update):
    """The page, if its commands print something else now; lines of the README's screen that are not printed."""
    with open(PAGE, encoding="utf-8") as file:
        before = file.read()
    with open(README, encoding="utf-8") as file:
        screen = file.read().split("```\n")[1].replace(" […]", "").splitlines()
    with tempfile.TemporaryDirectory(prefix="dlhook-gpu-") as folder:
        for path in kept:
            unpacked(path, folder)
        now = SHOWN.sub(lambda shown: f"{shown[1]}{shown[2]}{printed(shown[1], folder)}{shown[3]}", before)
        answer = printed("dlhook report resnet18", folder)
    if update:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(now)
    return ["docs/tutorial/gpu.md"] * (now != before) + [f"README.md: {line}" for line in screen if line not in answer]


def changed(path, update):
    """The expected files of one kept run that differ from its tables now."""
    name = os.path.basename(path).removesuffix(".dlh.gz")
    differing = []
    with tempfile.TemporaryDirectory(prefix="dlhook-gpu-") as folder:
        trace = unpacked(path, folder)
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
    differing = [name for path in kept for name in changed(path, update)] + changed_pages(kept, update)
    for name in differing:
        print(f"{'updated' if update else 'differs'}: {name}")
    return 1 if differing and not update else 0


if __name__ == "__main__":
    sys.exit(main())
