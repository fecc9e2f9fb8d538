"""The gains promised by findings against the gains from following them. findings.py [MODE...]

Each program of tests/frameworks/programs/findings_victims.py is recorded once as the victim; the promise is its
finding's part of a step. Then victim and advised run alternately without dlhook, in one process where that is possible.
If one thread computes, its processor time is compared, which other programs hardly affect; otherwise (WALL) the time of
a step, for which the machine must be idle. A promise that was made from processor time (IN_MS) is compared in ms: on a
busy machine it is a small part of a step.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DLHOOK = os.environ.get("DLHOOK_BENCH_DLHOOK", os.path.join(ROOT, "build/release/analyzer/dlhook"))
PYTHON = os.environ.get("DLHOOK_BENCH_PYTHON", os.path.join(ROOT, "build/venv/bin/python"))
PROGRAM = os.path.join(ROOT, "tests/frameworks/programs/findings_victims.py")
STEPS = 60
TURNS = 5
WALL = ("input-wait", "input-wait-workers", "one-thread", "too-many-threads", "uneven-threads")
IN_MS = ("page-faults",)
RULES = {"input-wait-workers": "input-wait", "instruction-set-blas": "instruction-set"}  # for modes with other names
VARIABLES = {"instruction-set": {"ONEDNN_MAX_CPU_ISA": "SSE41"}, "instruction-set-blas": {"OPENBLAS_CORETYPE": "Nehalem"}}  # victim's
MODES = (*WALL, "preparing-in-steps", "layout-conversions", "input-gradient", "float64", "slow-products", "optimizer-per-tensor",
         "python-bound", "page-faults", "unfused-ops", "batch-norm-in-inference", "denormals",
         "own-loops", *VARIABLES)


def environment(mode, side):
    variables = VARIABLES.get(mode, {})
    threads = {} if mode in WALL else {"OPENBLAS_NUM_THREADS": "1"}  # NumPy's waits for its others actively
    return {**os.environ, **threads, **(variables if side == "victim" else dict.fromkeys(variables, ""))}


def step_ms(mode, side):
    """Of each program that ran."""
    lines = subprocess.run([PYTHON, PROGRAM, mode, side, str(STEPS)], check=True, capture_output=True, timeout=600,
                           env=environment(mode, side)).stdout.splitlines()
    return [float(line.split()[0 if mode in WALL else 1]) for line in lines]


def turn(mode):
    """Milliseconds of victim and advised; in one process where neither changes what the other has."""
    if mode in WALL or mode in IN_MS or mode in VARIABLES:
        return step_ms(mode, "victim") + step_ms(mode, "advised")
    return step_ms(mode, "both")


def promise(mode):
    """Percent of a step, and ms; 0: no finding."""
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        subprocess.run([DLHOOK, "run", "-o", run, "--", PYTHON, PROGRAM, mode, "victim", str(STEPS)], check=True, capture_output=True,
                       timeout=300, env={**environment(mode, "victim"), "DLHOOK_ONEDNN_LEVEL": "2"})
        report = subprocess.run([DLHOOK, "report", run, "--table", "findings", "--format", "json"], check=True, capture_output=True)
    table = json.loads(report.stdout)["tables"][0]
    names = [column["name"] for column in table["columns"]]
    rows = [dict(zip(names, row)) for row in table["rows"]]
    found = [row for row in rows if row["rule"] == RULES.get(mode, mode)]
    return sum(row["gain_percent"] for row in found), sum(row["gain"] for row in found) / 1e6


def main():
    print(f"{'program':22} {'victim':>10} {'advised':>10} {'promised':>10} {'gained':>10} {'gained/promised':>16}")
    for mode in sys.argv[1:] or MODES:
        promised = promise(mode)[mode in IN_MS]
        unit = "ms" if mode in IN_MS else "%"
        turns = [turn(mode) for _ in range(TURNS)]
        victim, advised = (statistics.median(column) for column in zip(*turns))
        gained = (victim - advised) * (1 if mode in IN_MS else 100 / victim)
        ratio = f"{gained / promised:.2f}" if promised else "-"
        print(f"{mode:22} {victim:7.2f} ms {advised:7.2f} ms {promised:7.1f} {unit:2} {gained:7.1f} {unit:2} {ratio:>16}", flush=True)


if __name__ == "__main__":
    main()
