"""The gains promised by findings against the gains from following them. findings.py [MODE...]

Each program of tests/frameworks/programs/findings_victims.py is recorded once as the victim; the promise is its
finding's part of a step. Then victim and advised run alternately without dlhook. If one thread computes, its processor
time is compared, which other programs hardly affect; otherwise (WALL) the time of a step, for which the machine must be
idle.
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
WALL = ("input-wait", "input-wait-workers", "one-thread", "too-many-threads")
RULES = {"input-wait-workers": "input-wait", "instruction-set-blas": "instruction-set"}  # for modes with other names
VARIABLES = {"instruction-set": {"ONEDNN_MAX_CPU_ISA": "SSE41"}, "instruction-set-blas": {"OPENBLAS_CORETYPE": "Nehalem"}}  # victim's
MODES = (*WALL, "preparing-in-steps", "layout-conversions", "input-gradient", "float64", "slow-products", "optimizer-per-tensor",
         "python-bound", "page-faults", "unfused-ops", *VARIABLES)


def environment(mode, side):
    variables = VARIABLES.get(mode, {})
    return {**os.environ, **(variables if side == "victim" else dict.fromkeys(variables, ""))}


def step_ms(mode, side):
    words = subprocess.run([PYTHON, PROGRAM, mode, side, str(STEPS)], check=True, capture_output=True, timeout=300,
                           env=environment(mode, side)).stdout.split()
    return float(words[0 if mode in WALL else 1])


def promised_percent(mode):
    """Of a step; 0: no finding."""
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        subprocess.run([DLHOOK, "run", "-o", run, "--", PYTHON, PROGRAM, mode, "victim", str(STEPS)], check=True, capture_output=True,
                       timeout=300, env={**environment(mode, "victim"), "DLHOOK_ONEDNN_LEVEL": "2"})
        report = subprocess.run([DLHOOK, "report", run, "--table", "findings", "--format", "json"], check=True, capture_output=True)
    table = json.loads(report.stdout)["tables"][0]
    names = [column["name"] for column in table["columns"]]
    rows = [dict(zip(names, row)) for row in table["rows"]]
    return sum(row["gain_percent"] for row in rows if row["rule"] == RULES.get(mode, mode))


def main():
    print(f"{'program':22} {'victim':>10} {'advised':>10} {'promised':>10} {'gained':>10} {'gained/promised':>16}")
    for mode in sys.argv[1:] or MODES:
        promised = promised_percent(mode)
        turns = [(step_ms(mode, "victim"), step_ms(mode, "advised")) for _ in range(TURNS)]
        victim, advised = (statistics.median(column) for column in zip(*turns))
        gained = 100 * (victim - advised) / victim
        ratio = f"{gained / promised:.2f}" if promised else "-"
        print(f"{mode:22} {victim:7.2f} ms {advised:7.2f} ms {promised:8.1f} % {gained:8.1f} % {ratio:>16}", flush=True)


if __name__ == "__main__":
    main()
