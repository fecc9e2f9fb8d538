"""JAX on the CPU without windows of its profiler: a jitted training step is one compiled region and contains the
products that XLA passed to oneDNN.

Witnesses: the step's jaxpr; the optimized program, in which every `dot` and `convolution` outside of fusions goes to
oneDNN and every one inside a fusion (YNNPACK's, XLA's own loops) does not. The lines themselves:
../tensorflow/test_onednn.py.
"""

import functools
import json
import math
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import frameworks  # pylint: disable=wrong-import-position
from frameworks import e2e  # pylint: disable=wrong-import-position

PYTHON = frameworks.TENSORFLOW_PYTHON
STEPS = 6
INSTRUCTION = re.compile(r"^  (?:ROOT )?(%\S+) = f32\[([\d,]*)\]\S* (\w[\w-]*)\(([^)]*)\)(.*)$", re.MULTILINE)


def program(model, *words):
    return [PYTHON, os.path.join(HERE, "programs", "training.py"), model, *map(str, words)]


@functools.lru_cache
def compiled(model):
    result = e2e.run(program(model, STEPS, "hlo"), env=e2e.clean_environment())
    if result.code != 0:
        raise AssertionError(result.err.decode()[-2000:])
    return json.loads(result.out)


def labelled(sizes, labels, letter):
    return sizes[labels.index(letter)]


def multiplications(operation, output, left, right, rest):
    """Of one `dot` or `convolution` of an optimized program, from the shapes of its result and operands."""
    if operation == "dot":
        contracted = int(re.search(r"lhs_contracting_dims=\{(\d+)\}", rest).group(1))
        return math.prod(output) * left[contracted]
    window, kernel_labels = re.search(r"window=\{([^}]*)\}.*dim_labels=\w+_(\w+)->", rest).groups()
    if "lhs_dilate" in window:  # a convolution's gradient of its input: zeros between the elements are skipped
        return math.prod(left) * math.prod(right) // labelled(right, kernel_labels, "i")
    return math.prod(output) * math.prod(right) // labelled(right, kernel_labels, "o")


def products_outside_fusions(text):
    """[(operation, multiplications, result's shape)] of the entry computation."""
    entry = text[text.index("\nENTRY "):]
    shapes, found = {}, []
    for name, sizes, operation, operands, rest in INSTRUCTION.findall(entry):
        shapes[name] = [int(size) for size in sizes.split(",") if size]
        if operation in ("dot", "convolution"):
            left, right = (shapes[operand.split(" ")[-1]] for operand in operands.split(", "))
            found.append((operation, multiplications(operation, shapes[name], left, right, rest), shapes[name]))
    return found


class Jax(frameworks.Case):
    def setUp(self):
        if not os.access(PYTHON, os.X_OK):
            self.skipTest(frameworks.MISSING)
        e2e.Case.setUp(self)

    def test_behaves_as_without_dlhook(self):
        argv = program("mlp", STEPS)
        plain = self.plain(argv)
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.fresh_run()
                self.assert_same_behaviour(plain, self.under(host, argv), host)

    def check_one_region(self, run):
        """Compiled code is one row; dlhook does not invent what it can't know."""
        rows = run.table("layers")
        regions = [row for row in rows if row["type"] == "compiled region"]
        self.assertEqual([row["layer"] for row in regions], ["compiled by XLA"])
        self.assertEqual([row["layer"] for row in rows if row not in regions and not row["layer"].startswith("[")], [])
        self.assertGreater(regions[0]["calls"], 0)
        self.assertIn("does not say", regions[0]["ambiguity"])
        self.assertIsNone(regions[0]["forward"])
        self.assertIsNone(regions[0]["backward"])

    def check_products(self, run, found):
        """Sums over the slices into which XLA's threads cut the products."""
        rows = run.table("gemm")
        self.assertEqual({row["kind"] for row in rows}, {"gemm_api"})
        recorded = sum(row["m"] * row["n"] * row["k"] * row["calls"] for row in rows)
        self.assertEqual(recorded, STEPS * sum(count for _, count, _ in found))

    def test_mlp(self):
        witness = compiled("mlp")
        found = products_outside_fusions(witness["program"])
        self.assertTrue(found)
        run = self.recorded("launcher", program("mlp", STEPS), DLHOOK_CAPTURE="-jax")
        self.check_one_region(run)
        self.check_products(run, found)
        # Small ones are not sliced: each is in the jaxpr, in either order of its operands.
        in_jaxpr = {tuple(sorted(shape)) for shape in witness["jaxpr"]}
        for row in run.table("gemm"):
            self.assertIn(tuple(sorted((row["m"], row["n"], row["k"]))), in_jaxpr)
            self.assertIn([row["m"], row["n"]], [shape for _, _, shape in found])
            self.assertEqual(row["calls"], STEPS)

    def test_cnn(self):
        found = products_outside_fusions(compiled("cnn")["program"])
        self.assertEqual({operation for operation, _, _ in found}, {"dot", "convolution"})
        run = self.recorded("launcher", program("cnn", STEPS), DLHOOK_CAPTURE="-jax")
        self.check_one_region(run)
        self.check_products(run, found)

    def test_steps_are_found(self):
        rows = self.recorded("launcher", program("mlp", STEPS), DLHOOK_CAPTURE="-jax").table("steps")
        self.assertEqual(len(rows), STEPS)


if __name__ == "__main__":
    e2e.main()
