"""How often `dlhook diff` calls equal programs different beside a noisy neighbour. diff_alarms.py [RUNS [GROUPS [FOLDER]]]

RUNS runs (default 21) of tests/frameworks/programs/diff_victims.py base are recorded one after the other while two busy loops run (or
lie in FOLDER as run0, run1 …, recorded as the caller likes). Then
  pairs   each run with the next one: verdicts on the step, exit codes of --fail-above 3%
  groups  GROUPS (default 100) random draws of 3 and 3 different runs: the same with --base and --new
Draws of one pool of runs overlap, so their rate is that of this pool.
"""

import collections
import json
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DLHOOK = os.environ.get("DLHOOK_BENCH_DLHOOK", os.path.join(ROOT, "build/release/analyzer/dlhook"))
PYTHON = os.environ.get("DLHOOK_BENCH_PYTHON", os.path.join(ROOT, "build/venv/bin/python"))
PROGRAM = os.path.join(ROOT, "tests/frameworks/programs/diff_victims.py")
STEPS = 60
BUSY_LOOPS = 2
RUNS_A_SIDE = 3


def record(folder, count):
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY_LOOPS)]
    try:
        runs = []
        for number in range(count):
            runs.append(os.path.join(folder, f"run{number}"))
            subprocess.run([DLHOOK, "run", "-o", runs[-1], "--", PYTHON, PROGRAM, "base", str(STEPS)], check=True, capture_output=True,
                           timeout=300)
        return runs
    finally:
        for loop in loops:
            loop.kill()


def verdict(words):
    """(verdict on the step, exit code of --fail-above 3%)."""
    result = subprocess.run([DLHOOK, "diff", *words, "--table", "work", "--format", "json", "--fail-above", "3%"], check=False,
                            capture_output=True)
    table = json.loads(result.stdout)["tables"][0]
    column = [about["name"] for about in table["columns"]].index("verdict")
    return table["rows"][0][column], result.returncode


def tell(name, outcomes):
    verdicts = collections.Counter(verdict for verdict, _ in outcomes)
    failed = sum(code == 1 for _, code in outcomes)
    print(f"{name}: {len(outcomes)} comparisons, {dict(verdicts)}, --fail-above 3% failed {failed}", flush=True)


def main():
    words = sys.argv[1:]
    count, groups = int(words[0]) if words else 21, int(words[1]) if len(words) > 1 else 100
    with tempfile.TemporaryDirectory() as folder:
        runs = [os.path.join(words[2], f"run{i}") for i in range(count)] if len(words) > 2 else record(folder, count)
        tell("pairs", [verdict(pair) for pair in zip(runs, runs[1:])])
        source = random.Random(1)
        draws = [source.sample(runs, 2 * RUNS_A_SIDE) for _ in range(groups)]
        tell("groups of 3", [verdict(["--base", *draw[:RUNS_A_SIDE], "--new", *draw[RUNS_A_SIDE:]]) for draw in draws])


if __name__ == "__main__":
    main()
