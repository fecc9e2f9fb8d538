"""How dlhook.ranks grows with ranks: ranks_scale.py FOLDER [RANKS…], by hand, in build/venv-exports; docs/scale.md has the figures.

Simulated exports (tests/preload_e2e/python_package/rank_exports.py) of hosts with 8 ranks, 1 000 steps with 10 collective operations each,
48 layers; some faults. Prints processor time and peak memory of the comparison, in a process of its own, and what was found."""

import os
import resource
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "preload_e2e", "python_package"), os.path.join(ROOT, "python")]
MEASURED = """import resource, sys, dlhook.ranks
dlhook.ranks.main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"""


def write(folder, ranks):
    import rank_exports

    job = rank_exports.Job(ranks, hosts=max(1, ranks // 8), steps=1000, layers=48, buckets=10)
    job.work[400:, job.host == job.host[-1] // 2] *= 1.10
    job.clock += job.rng.normal(0, 2e6, ranks // 8 + 1).astype(int)[job.host]
    slow = ranks // 3
    job.implementation[slow, 20], job.part[slow, 20] = "gemm:ref", 3 * job.part[slow, 20]
    job.part[slow] /= job.part[slow].sum()
    job.work[:, slow] *= 1.04
    job.no_processor[:, ranks * 3 // 4] += job.rng.exponential(3e6, 1000)
    job.run().write(folder)


def main():
    folder, counts = sys.argv[1], [int(word) for word in sys.argv[2:]] or [10, 100, 1000]
    for ranks in counts:
        path = os.path.join(folder, str(ranks))
        if not os.path.isdir(path):
            write(path, ranks)
        size = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(path) for name in names)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-c", MEASURED, path], env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")},
                              capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{ranks} ranks, {size / 1e6:.0f} MB: {seconds:.1f} s of CPU, {int(done.stderr.split()[-1]) / 1024:.0f} MB")
        print("  " + "\n  ".join(done.stdout.split("\n\n")[0].splitlines()), flush=True)


if __name__ == "__main__":
    main()
