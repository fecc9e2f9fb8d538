"""How often `dlhook try` tells a gain that is none, and finds one that is there. try_alarms.py [TRIALS [BUDGET]]

A training of a network of two layers with NumPy, whose samples WORK sets, on whatever else the machine does (its load is printed):
  equal    TRIALS trials (default 20) of the program against itself: outcomes; none may be "faster" or "slower"
  1.5      5 trials of two thirds of the work: all must be "faster"
  1.05     3 trials of 20/21 of the work: "faster" or "not decided"
Each within BUDGET (default 2min).
"""

import collections
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DLHOOK = os.environ.get("DLHOOK_BENCH_DLHOOK", os.path.join(ROOT, "build/release/analyzer/dlhook"))
PYTHON = os.environ.get("DLHOOK_BENCH_PYTHON", os.path.join(ROOT, "build/venv/bin/python"))
PROGRAM = """
import os
import numpy
rows, source = 32 * int(os.environ["WORK"]), numpy.random.default_rng(0)
first, second = (source.standard_normal(shape, "float32") * 0.01 for shape in ((256, 512), (512, 256)))
x = source.standard_normal((rows, 256), "float32")
while True:
    hidden = x @ first
    change = hidden @ second - x
    back = change @ second.T
    second -= 1e-6 * (hidden.T @ change)
    first -= 1e-6 * (x.T @ back)
"""


def trial(variation, budget):
    """(outcome, times as fast, its interval)."""
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run([DLHOOK, "try", "--budget", budget, "--format", "json", "--env", variation, "--", PYTHON, "-c", PROGRAM],
                                check=True, capture_output=True, cwd=folder,
                                env={**os.environ, "WORK": "21", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    table = json.loads(result.stdout)["tables"][0]
    row = dict(zip([column["name"] for column in table["columns"]], table["rows"][1], strict=True))
    return row["outcome"], row["times_as_fast"], row["low"], row["high"], row["runs"]


def main():
    count, budget = int(sys.argv[1]) if len(sys.argv) > 1 else 20, sys.argv[2] if len(sys.argv) > 2 else "2min"
    for name, variation, trials in (("1.5", "WORK=14", 5), ("equal", "NOTHING=1", count), ("1.05", "WORK=20", 3)):
        outcomes = collections.Counter()
        for number in range(trials):
            outcome, *figures = trial(variation, budget)
            outcomes[outcome] += 1
            print(f"{name} {number}: {outcome}, {figures}, load {os.getloadavg()[0]:.1f}", flush=True)
        print(f"{name}: {dict(outcomes)}", flush=True)


if __name__ == "__main__":
    main()
