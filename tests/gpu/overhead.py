"""The cost of recording everything compared with a bare tracer of CUPTI's activities (bare_cupti.c, built here): the same
training alternately under either, the ratio of their median steps, valid only if both saw the GPU's work. Then what
the standard budget costs in the mean, compared with a plain process."""

import glob
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in (os.path.join(HERE, "..", "preload_e2e"), os.path.join(HERE, "..", "bench")):
    sys.path.insert(0, folder)
import e2e  # pylint: disable=wrong-import-position
import stats  # pylint: disable=wrong-import-position

LIMIT = 1.02
BUDGET_LIMIT = 1.01
ROUNDS = 12
TRAINING = ["resnet18", "--steps", "60"]
LONG_TRAINING = ["resnet18", "--steps", "320"]
FIRST_OF_BUDGET = 20  # all steps before it are recorded
FIRST_STEADY_STEP = 10


def headers(python):
    """Folders with cupti.h and cuda.h: of a toolkit, else of the Python's packages. None: not found."""
    command = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    places = [f"{home}/{inside}" for home in homes if home for inside in ("include", "extras/CUPTI/include")]
    places += glob.glob(os.path.join(packages, "nvidia", "*", "include"))
    found = {}
    for name in ("cupti.h", "cuda.h"):
        found[name] = next((place for place in places if os.path.exists(os.path.join(place, name))), None)
    return None if None in found.values() else sorted(set(found.values()))


def build(python, target):
    """Empty if it was built; else why not."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    places = headers(python)
    if compiler is None or places is None:
        return "no C compiler" if compiler is None else "no cupti.h and cuda.h: set CUDA_HOME"
    source = os.path.join(HERE, "bare_cupti.c")
    command = [compiler, "-O2", "-shared", "-fPIC", *(f"-I{place}" for place in places), source, "-o", target, "-ldl"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stderr if result.returncode else ""


class Comparison:
    def __init__(self, python, folder, training=(), first_steady_step=FIRST_STEADY_STEP):
        self.command = [python, "-B", os.path.join(HERE, "train.py"), *(training or TRAINING)]
        self.folder = folder
        self.first_steady_step = first_steady_step
        self.tracer = os.path.join(folder, "bare_cupti.so")
        self.problem = build(python, self.tracer)

    def step(self, command, environment, average=statistics.median):
        """The average steady step in seconds."""
        times = os.path.join(self.folder, "times")
        result = e2e.run([*command, *self.command, "--times", times], env=environment, timeout=900)
        if result.code != 0:
            raise RuntimeError(f"train.py ended with {result.code}:\n{result.err.decode(errors='replace')[-2000:]}")
        with open(times, encoding="utf-8") as file:
            return average([float(line) for line in file][self.first_steady_step:])

    def bare(self):
        """(seconds, counted kernels)"""
        counts = os.path.join(self.folder, "counts")
        seconds = self.step([], e2e.clean_environment(CUDA_INJECTION64_PATH=self.tracer, BARE_CUPTI_COUNTS=counts))
        if not os.path.exists(counts):
            return seconds, 0
        with open(counts, encoding="utf-8") as file:
            kernels, _, _, dropped = map(int, file.read().split())
        os.remove(counts)
        return seconds, 0 if dropped else kernels

    def recorded(self):
        run = e2e.Run(os.path.join(self.folder, "run"))
        seconds = self.step([e2e.DLHOOK, "run", "-o", run.path, "--"], e2e.clean_environment(DLHOOK_BUDGET="off"))
        kernels = sum(row["calls"] for row in run.table("kernels"))
        shutil.rmtree(run.path)
        return seconds, kernels

    def plain(self):
        return self.step([], e2e.clean_environment(), statistics.mean)

    def standard(self):
        run = e2e.Run(os.path.join(self.folder, "run"))
        seconds = self.step([e2e.DLHOOK, "run", "-o", run.path, "--"], e2e.clean_environment(), statistics.mean)
        shutil.rmtree(run.path)
        return seconds

    def budget_ratios(self, rounds):
        ratios = []
        for i in range(rounds):
            order = (self.plain, self.standard) if i % 2 == 0 else (self.standard, self.plain)
            found = {variant.__name__: variant() for variant in order}
            ratios.append(found["standard"] / found["plain"])
        return ratios

    def ratios(self, rounds):
        """One per round; the order alternates."""
        ratios = []
        for i in range(rounds):
            order = (self.bare, self.recorded) if i % 2 == 0 else (self.recorded, self.bare)
            found = {variant.__name__: variant() for variant in order}
            (bare, said), (recorded, saw) = found["bare"], found["recorded"]
            if said == 0 or said != saw:
                self.problem = f"the bare tracer saw {said} kernels, dlhook {saw}"
            ratios.append(recorded / bare)
        return ratios


def is_small(python, rounds=ROUNDS):
    with tempfile.TemporaryDirectory(prefix="dlhook-gpu-") as folder:
        comparison = Comparison(python, folder)
        if comparison.problem:
            print(f"overhead: not measured: {comparison.problem}", flush=True)
            return False
        estimate = stats.Estimate(comparison.ratios(rounds))
        row = stats.Row("a step under dlhook / under a bare tracer", "ratio", estimate, LIMIT, digits=4,
                        problem=comparison.problem)
        print(f"overhead: {' '.join(cell for cell in row.cells() if cell)}", flush=True)
        budget = Comparison(python, folder, LONG_TRAINING, FIRST_OF_BUDGET)
        standard = stats.Estimate(budget.budget_ratios(rounds))
        line = stats.Row("a mean step under dlhook / of a plain process", "ratio", standard, BUDGET_LIMIT, digits=4)
        print(f"overhead: {' '.join(cell for cell in line.cells() if cell)}", flush=True)
        # An undecided result is not a failure: the line says so.
        return not row.problem and estimate.low <= LIMIT and standard.low <= BUDGET_LIMIT
