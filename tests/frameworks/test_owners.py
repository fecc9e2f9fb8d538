"""Samples have owners: Python between two of PyTorch's operations its module (the CPU time that forward hooks with a clock
measure) and line, code that oneDNN compiled its kernel."""

import os

import frameworks
from frameworks import e2e


# Prints the names that XLA gives to the kernels of a function, and runs it.
XLA = """
import re, jax, jax.numpy as jnp
@jax.jit
def heavy(x):
    for _ in range(3): x = jnp.sin(x) * jnp.tanh(x) + jnp.exp(-x * x)
    return x
x = jnp.ones((1000, 1000))
print(*re.findall(r"%(\\w+)", heavy.lower(x).compile().as_text()))
for _ in range(40): heavy(x).block_until_ready()
"""


# A forked child of a program that uses PyTorch, as a DataLoader's worker, computes in Python for 0.3 s of CPU time.
FORKED = """
import os, time, torch
torch.ones(2).sum()
def work():
    while time.process_time() < 0.3: sum(range(1000))
child = os.fork()
if child == 0:
    work()
    os._exit(0)
os.waitpid(child, 0)
"""


class Owners(frameworks.Case):
    def table(self, name, *options):
        (table,) = e2e.Run(self.run_path).report("--table", name, *options)["tables"]
        names = [column["name"] for column in table["columns"]]
        return [dict(zip(names, row, strict=True)) for row in table["rows"]]

    def test_a_module_that_burns_python(self):
        result = self.under("launcher", frameworks.program("owners"), DLHOOK_SAMPLE=500)
        self.assertEqual(result.code, 0, result.err)
        by_layer = {row["layer"]: row["self_time"] for row in self.table("hotspots", "--by", "layer")}
        measured = float(result.out) * 1e9
        self.assertAlmostEqual(by_layer["1:[not seen]"] / measured, 1, delta=0.03)

        layers = {row["layer"]: row for row in self.table("layers")}
        self.assertGreater(layers["1:[not seen]"]["wall_share"], 0.85 * measured)  # all but the warm-up; more if it waited
        lines = [row["line"] for row in self.table("layers", "--by", "line")]
        self.assertTrue({"owners.py:22", "owners.py:23"} & set(lines[:3]), lines)
        rows = self.table("accounting")
        owned = [row for row in rows if row["activity"] == "sampled" and row["what"].startswith("Python, 1, owners.py:2")]
        self.assertTrue(owned, rows)

    def test_forked_workers_have_stacks(self):
        result = self.under("launcher", [frameworks.PYTHON, "-c", FORKED], DLHOOK_SAMPLE=500)
        self.assertEqual(result.code, 0, result.err)
        worked = {row["function"]: row["total_time"] for row in self.table("hotspots")}
        self.assertGreater(worked.get("work", 0), 0.2e9)

    def kernels(self, **environment):
        result = self.under("launcher", frameworks.program("cnn", 60, 2), DLHOOK_SAMPLE=500, **environment)
        self.assertEqual(result.code, 0, result.err)
        return [row["function"] for row in self.table("hotspots") if row["library"] == "[jit]"]

    def test_kernels_of_onednn(self):
        kernels = self.kernels()
        self.assertTrue(any(name.startswith("jit_") for name in kernels), kernels)

    def test_kernels_of_xla(self):
        python = frameworks.TENSORFLOW_PYTHON
        if not os.access(python, os.X_OK):
            self.skipTest(frameworks.MISSING)
        result = self.under("launcher", [python, "-c", XLA], DLHOOK_SAMPLE=500)
        self.assertEqual(result.code, 0, result.err)
        kernels = {row["function"] for row in self.table("hotspots") if row["library"] == "[jit]"}
        self.assertTrue(kernels & set(result.out.decode().split()), kernels)

    def test_the_users_own_setting_stays(self):
        self.assertEqual(self.kernels(ONEDNN_JIT_PROFILE=0), [])
        self.assertEqual([name for name in os.listdir(self.run_path) if name.endswith(".jit")], [])


if __name__ == "__main__":
    e2e.main()
