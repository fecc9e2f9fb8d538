"""The analyzer's reading speed: reader_bench's samples."""

import json
import subprocess

from runner import clean_environment, program, say
from stats import Estimate, Row


def reader(rounds, calls=10_000_000):
    say(f"reading {calls} calls, {rounds} rounds")
    command = [program("reader_bench"), str(calls), "1", str(rounds)]
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=clean_environment())
    samples = json.loads(result.stdout.splitlines()[-1])
    name = f"reading, per-function totals of {calls:.0e} calls".replace("e+0", "0^")
    return [
        Row(name, "M calls/s CPU", Estimate(samples["mcalls_per_cpu_second"]), limit=5, at_least=True),
        Row("reading: wall time", "M calls/s", Estimate(samples["mcalls_per_second"])),
        Row("reading: memory, mapped file included", "B a call", Estimate(samples["memory_bytes_per_call"]), limit=64,
            digits=1),
    ]
