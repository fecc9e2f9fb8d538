"""Starts the measured programs, with and without dlhook. Standard library only."""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

SHIM = os.environ.get("DLHOOK_BENCH_SHIM", "")
DLHOOK = os.environ.get("DLHOOK_BENCH_DLHOOK", "")
PROGRAMS = os.environ.get("DLHOOK_BENCH_PROGRAMS", "")  # folder of the C and C++ programs
TORCH_PYTHON = os.environ.get("DLHOOK_BENCH_PYTHON", "")  # has torch; empty: no such figures
CUDA_PYTHON = os.environ.get("DLHOOK_BENCH_CUDA_PYTHON", "")  # has torch for CUDA on the fake libraries; empty: none


def say(text, always=False):
    """Progress on a terminal; in a pipe only if `always`."""
    if always or sys.stderr.isatty():
        print(f"==> {text}", file=sys.stderr, flush=True)


def program(name):
    return os.path.join(PROGRAMS, name)


def clean_environment(**variables):
    """The environment without DLHOOK_* and preloads, plus `variables`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DLHOOK_", "LD_PRELOAD", "ONEDNN_"))}
    kept.update({name: str(value) for name, value in variables.items()})
    return kept


class RunFolder:
    """A folder for one run that is removed with its rings: without a drain (DLHOOK_DRAIN=none) they stay in
    /dev/shm."""

    def __enter__(self):
        self.top = tempfile.mkdtemp(prefix="dlhook-bench-")
        self.path = os.path.join(self.top, "run")
        return self

    def __exit__(self, *unused):
        for link in glob.glob(os.path.join(self.path, "*.ring")):
            target = os.path.realpath(link)
            if os.path.basename(target).startswith("dlhook-") and os.path.exists(target):
                os.unlink(target)
        shutil.rmtree(self.top, ignore_errors=True)

    def was_made(self):
        """A process without recorded calls leaves nothing."""
        return bool(glob.glob(os.path.join(self.path, "*.dlh")))

    def trace_bytes(self):
        return sum(os.path.getsize(path) for path in glob.glob(os.path.join(self.path, "*.dlh")))

    def counts(self):
        """(calls in the trace, calls known to be lost), from `dlhook report`."""
        table = report(self.path, "summary")
        names = [column["name"] for column in table["columns"]]
        values = {row[names.index("metric")]: row[names.index("value")] for row in table["rows"]}
        return values.get("calls", 0) + values.get("creations", 0), values.get("lost_calls", 0)


def report(folder, table):
    command = [DLHOOK, "report", folder, "--table", table, "--format", "json"]
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=clean_environment())
    return json.loads(result.stdout)["tables"][0]


def run(command, output=None, **variables):
    """The last line of the program's output, as JSON. `output`: a file for that output."""
    words, environment = [str(word) for word in command], clean_environment(**variables)
    if output is None:
        result = subprocess.run(words, capture_output=True, text=True, env=environment)
    else:
        with open(output, "w", encoding="utf-8") as file:
            result = subprocess.run(words, stdout=file, stderr=subprocess.PIPE, text=True, env=environment)
    if result.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {result.returncode}: {result.stderr[-2000:]}")
    if output is None:
        return last_line(result.stdout)
    with open(output, encoding="utf-8", errors="replace") as file:
        return last_line(file.read())


def last_line(text):
    return json.loads(text.splitlines()[-1])
