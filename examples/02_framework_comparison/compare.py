"""Trains the same AlexNet with PyTorch, TensorFlow and JAX under dlhook and prints the cost of each layer in each.

Usage: compare.py [--steps N] [--batch N] [--frameworks NAMES] [--dlhook PROGRAM] [--out FOLDER]
  --frameworks NAMES  comma list of pytorch, tensorflow, jax (default: all three)
  --dlhook PROGRAM    default: dlhook of PATH, else that of build/release
  --out FOLDER        where the recorded runs go, one folder per framework (default: framework_comparison);
                      existing runs are read, not recorded again
  DLHOOK_VENV, DLHOOK_TENSORFLOW_VENV   virtual environments (default: those of scripts/setup.sh --frameworks, in build/)

Everything printed comes from `dlhook report RUN --table layers --format json`.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LAYERS = ("conv1", "conv2", "conv3", "conv4", "conv5", "fc1", "fc2", "fc3")
TITLES = {"pytorch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX"}
PROGRAMS = {"pytorch": ("alexnet_torch.py", "DLHOOK_VENV", "venv"),
            "tensorflow": ("alexnet_keras.py", "DLHOOK_TENSORFLOW_VENV", "venv-tensorflow"),
            "jax": ("alexnet_jax.py", "DLHOOK_TENSORFLOW_VENV", "venv-tensorflow")}
# dlhook sees JAX's operations in windows, of which the first one with a whole step comes after some seconds.
TIMES_STEPS = {"jax": 4}


def python_of(variable, folder):
    return os.path.join(os.environ.get(variable) or os.path.join(ROOT, "build", folder), "bin", "python")


def find_dlhook():
    return shutil.which("dlhook") or os.path.join(ROOT, "build", "release", "analyzer", "dlhook")


def record(framework, options):
    """The run of one framework, recorded if it does not exist yet. The program itself is unaware of dlhook."""
    run = os.path.join(options.out, framework)
    if not os.path.isdir(run):
        program, variable, folder = PROGRAMS[framework]
        python = python_of(variable, folder)
        if not os.access(python, os.X_OK):
            sys.exit(f"compare.py: no {framework} here: {python} is missing (scripts/setup.sh --frameworks makes it)")
        words = [options.dlhook, "run", "-o", run, "--", python, os.path.join(HERE, program),
                 "--steps", str(options.steps * TIMES_STEPS.get(framework, 1)), "--batch", str(options.batch)]
        result = subprocess.run(words, stderr=subprocess.PIPE, check=False)
        if result.returncode != 0:
            shutil.rmtree(run, ignore_errors=True)
            sys.exit(f"compare.py: {framework} failed:\n{result.stderr.decode(errors='replace')[-2000:]}")
    return run


def layers_of(run, dlhook):
    """The rows of the table `layers`, as {column: value}."""
    words = [dlhook, "report", run, "--table", "layers", "--format", "json"]
    report = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    (table,) = report["tables"]
    names = [column["name"] for column in table["columns"]]
    return [dict(zip(names, row)) for row in table["rows"]]


class Framework:
    """A mean step in the table of one run: milliseconds and GFLOP/s, by layer."""

    def __init__(self, name, run, dlhook):
        self.title = TITLES[name]
        rows = layers_of(run, dlhook)
        self.has_step = any(row["step"] for row in rows)
        if not self.has_step:  # then the rows are of the whole run
            rows = []
        # "conv1" in PyTorch; in Keras the scope of the layer's nodes, "alexnet_1/conv1_1".
        self.rows = {re.sub(r"^.*/|_\d+$", "", row["layer"]): row for row in rows}
        # The rows add up to a step: layers, the framework's other work, Python, and unattributed time.
        self.step_ms = sum(row["time"] or 0 for row in rows) / 1e6 if rows else None

    def milliseconds(self, layer, column):
        value = self.rows.get(layer, {}).get(column)
        return None if value is None else value / 1e6

    def rate(self, layer):
        return self.rows.get(layer, {}).get("rate")

    def region(self):
        """Code that a compiler fused: one row, no layers."""
        return next((row for row in self.rows.values() if row["type"] == "compiled region"), None)


def cell(value, digits=1):
    return "-" if value is None else f"{value:.{digits}f}"


def print_block(title, names, frameworks, value):
    width = max(len(framework.title) for framework in frameworks) + 2
    print(f"{title:<22}" + "".join(f"{framework.title:>{width}}" for framework in frameworks))
    for name in names:
        print(f"{name:<22}" + "".join(f"{cell(value(framework, name)):>{width}}" for framework in frameworks))
    print()


def sum_of(framework, column):
    times = [framework.milliseconds(layer, column) for layer in LAYERS]
    return sum(time for time in times if time is not None) if any(time is not None for time in times) else None


def whole(framework, name):
    region = framework.region()
    if name == "step":
        return framework.step_ms
    if name == "conv1 to fc3":
        return sum_of(framework, "time")
    return None if region is None else region["time"] / 1e6


def print_comparison(frameworks):
    print_block("forward, ms", LAYERS, frameworks, lambda framework, layer: framework.milliseconds(layer, "forward"))
    print_block("backward, ms", LAYERS, frameworks, lambda framework, layer: framework.milliseconds(layer, "backward"))
    print_block("GFLOP/s, both", LAYERS, frameworks, Framework.rate)
    print_block("whole step, ms", ("conv1 to fc3", "compiled region", "step"), frameworks, whole)
    for framework in frameworks:
        region = framework.region()
        if not framework.has_step:
            print(f"{framework.title}: no whole step was seen: take more steps (--steps), or fewer images (--batch).")
        elif region and sum_of(framework, "time") is None:
            print(f"{framework.title}: one compiled region, no layers: {region['ambiguity']}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--frameworks", default=",".join(PROGRAMS))
    parser.add_argument("--dlhook", default=find_dlhook())
    parser.add_argument("--out", default="framework_comparison")
    options = parser.parse_args()

    names = options.frameworks.split(",")
    for name in set(names) - set(PROGRAMS):
        sys.exit(f"compare.py: unknown framework {name}; there are {', '.join(PROGRAMS)}")
    os.makedirs(options.out, exist_ok=True)
    runs = [(name, record(name, options)) for name in names]
    print()
    print_comparison([Framework(name, run, options.dlhook) for name, run in runs])


if __name__ == "__main__":
    main()
