"""What a report costs, by the length of the run: CPU time and memory of `dlhook report` on generated training runs."""

import os
import subprocess
import tempfile

from runner import DLHOOK, clean_environment, program, say
from stats import Estimate, Row

COUNTS = (100_000, 1_000_000, 10_000_000)  # calls and scopes
REPORTS = {"answer": [], "table layers": ["--table", "layers"], "all tables": ["--table", "all"]}


def measure(path, flags):
    """CPU seconds (user, system) and MB of one report."""
    with subprocess.Popen([DLHOOK, "report", path, *flags], stdout=subprocess.DEVNULL, env=clean_environment()) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"dlhook report {path} {flags} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def report(rounds):
    rows = []
    with tempfile.TemporaryDirectory(prefix="dlhook-bench-") as folder:
        for count in COUNTS:
            path = os.path.join(folder, f"{count}.dlh")
            subprocess.run([program("training_trace"), str(count), path], check=True)
            size = os.path.getsize(path) / 1e6
            samples = {name: [] for name in REPORTS}
            say(f"reports of {count} calls and scopes, {rounds} rounds")
            for _ in range(rounds):
                for name, flags in REPORTS.items():
                    samples[name].append(measure(path, flags))
            for name, measured in samples.items():
                title = f"{name}, {count:.0e} calls and scopes ({size:.0f} MB)".replace("e+0", "0^")
                rows.append(Row(title, "s CPU", Estimate([cpu for cpu, _ in measured]), digits=2))
                rows.append(Row(f"{title}: memory", "MB", Estimate([memory for _, memory in measured]), digits=0))
    return rows
