"""JAX on the CPU: layers by jaxlib's own profiler, in windows.

Programs end in every way as they do without dlhook, and traces of the user's own jax.profiler hold the steps that the user traced.
"""

import os
import sqlite3
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import frameworks  # pylint: disable=wrong-import-position
from frameworks import e2e  # pylint: disable=wrong-import-position

PYTHON = frameworks.TENSORFLOW_PYTHON
LAYERS = {"stem", "body", "head"}
# FLOPs by hand: 2 * images * points * kernel * channels in * channels out.
STEM, BODY, HEAD = 2 * 16 * 16**2 * 3**2 * 3 * 32, 2 * 16 * 8**2 * 3**2 * 32 * 64, 2 * 16 * 4096 * 64
PRODUCTS = {"stem": (2, STEM), "body": (3, BODY), "head": (3, HEAD)}  # of a step; stem's input needs no gradient


class Trace(e2e.Trace):
    """With what jaxlib returned: pairs of kind and name."""

    def __init__(self):
        super().__init__()
        self.profiles = []

    def add(self, packet):
        super().add(packet)
        for profile in packet.get("compiler_profile", []):
            if "offset" not in profile:
                self.profiles.append((e2e.one(profile, "kind"), e2e.one(profile, "data")[:40]))


class Profile(frameworks.Case):
    def setUp(self):
        if not os.access(PYTHON, os.X_OK):
            self.skipTest(frameworks.MISSING)
        e2e.Case.setUp(self)

    def check(self, mode, code, output, *words, host="launcher", release=""):
        program = os.path.join(HERE, "programs", "named.py")
        pretend = ("import jax, jaxlib.version, runpy\n"
                   f"jaxlib.version.__version__ = '{release}'\nrunpy.run_path('{program}', run_name='__main__')")
        argv = [PYTHON, *(["-c", pretend] if release else [program]), mode, *words]
        result = self.under(host, argv)
        self.assertEqual((result.code, result.out.decode()), (code, output), result.err.decode()[-2000:])
        run = e2e.Run(self.run_path)
        capabilities = {row["name"]: row for row in run.table("capabilities")}
        self.assertEqual(capabilities["jax-tap"]["state"], "on")
        self.note = capabilities["jax-tap"]["note"]
        return result, run

    def test_layers_of_another_thread_and_an_exception(self):
        result, run = self.check("raise", 1, "trained\n")
        self.assertIn(b"as asked", result.err)
        rows = {row["layer"]: row for row in run.table("layers")}
        self.assertLessEqual(LAYERS, set(rows))
        for layer in LAYERS:
            self.assertEqual(rows[layer]["matched_by"], "framework")
            self.assertGreater(rows[layer]["forward"], 0)
            self.assertGreater(rows[layer]["backward"], 0)
            self.assertEqual((rows[layer]["calls"], rows[layer]["flops"] / rows[layer]["calls"]), PRODUCTS[layer])
        steps = run.table("steps")
        self.assertGreaterEqual(len(steps), 3)
        self.assertEqual({row["kind"] for row in steps}, {"training"})
        self.assertEqual(self.recompilations(run), [])
        self.check_products(run)
        self.check_ends()

    def check_ends(self):
        """The program waits for each step: no operation lasts beyond it."""
        path = os.path.join(self.folder, "run.sqlite")
        self.assertEqual(e2e.run([e2e.DLHOOK, "export", self.run_path, "--format", "sqlite", "-o", path]).code, 0)
        database = sqlite3.connect(path)
        self.addCleanup(database.close)
        self.assertEqual(database.execute("""SELECT s.name, s.start_ns + s.duration_ns - t.end_ns FROM raw_scopes s JOIN raw_steps t
                                             ON s.start_ns >= t.start_ns AND s.start_ns < t.end_ns
                                             WHERE s.kind = 'xla_op' AND s.start_ns + s.duration_ns > t.end_ns""").fetchall(), [])

    def check_products(self, run):
        products = {(row["m"], row["n"], row["k"], row["direction"]): row for row in run.table("gemm") if row["kind"] == "matmul"}
        self.assertEqual(set(products), {(16, 64, 4096, "forward"), (16, 4096, 64, "backward"), (4096, 64, 16, "backward")})
        self.assertEqual({row["flops"] for row in products.values()}, {HEAD})
        convolutions = run.table("convolutions")
        self.assertEqual(sorted(row["direct_flops"] for row in convolutions), [STEM] * 2 + [BODY] * 3)
        self.assertEqual(sorted(row["direction"] for row in convolutions),
                         ["backward", "backward", "backward-data", "forward", "forward"])
        chosen = {(row["kind"], row["direction"], row["chosen"]) for row in run.table("algorithms")}
        self.assertIn(("convolution", "forward", "YNNPACK"), chosen)
        self.assertIn(("convolution", "backward-data", "oneDNN"), chosen)

    def recompilations(self, run):
        return [row for row in run.table("findings") if row["rule"] == "recompilations"]

    def test_compiles_again_for_other_sizes(self):
        _, run = self.check("sizes", 0, "trained\n", "8")
        finding, = self.recompilations(run)
        self.assertEqual(finding["where"], "train_step")
        self.assertRegex(finding["line"], r"named\.py:\d+")
        self.assertRegex(finding["finding"], r"compiles train_step again 8 times .* images "
                         r"f32\[16,32,32,3\], f32\[1,32,32,3\], f32\[2,32,32,3\] and 6 more")

    def test_a_network_of_one_sample(self):
        """By vmap: XLA names the products of the forward pass after the transposes around them."""
        result = self.under("launcher", [PYTHON, os.path.join(HERE, "programs", "by_sample.py")])
        self.assertEqual((result.code, result.out), (0, b"trained\n"), result.err.decode()[-2000:])
        run = e2e.Run(self.run_path)
        steps = run.table("steps")
        self.assertGreaterEqual(len(steps), 6)
        self.assertEqual({row["kind"] for row in steps}, {"training"})
        self.assertLessEqual({"forward", "backward"}, {row["phase"] for row in run.table("phases")})

    def test_fork_and_an_end_without_exit_handlers(self):
        self.check("leave", 4, "trained\n5\n", host="writer")

    def test_programs_alone_where_a_session_would_take_cupti(self):
        _, run = self.check("gpu", 0, "False\n")
        self.assertIn("programs only", self.note)
        trace, = run.traces(Trace)
        self.assertEqual({kind for kind, _ in trace.profiles}, {"HLO_MODULE"})
        self.assertTrue([data for _, data in trace.profiles if "jit_train_step" in data])

    def test_a_newer_release(self):
        """It says that it is one; what it has is still the installed release's."""
        _, run = self.check("sizes", 0, "trained\n", "1", release="0.99.1")
        self.assertEqual(self.note, "jaxlib 0.99.1; not tried with 0.99")
        self.assertLessEqual(LAYERS, {row["layer"] for row in run.table("layers")})

    def test_releases_that_are_refused(self):
        program = ("import jaxlib.version, jax\njaxlib.version.__version__ = '{}'\n{}\n"
                   "import time; jax.numpy.ones(3).block_until_ready(); time.sleep(1)")
        lacking = "from jaxlib import _profiler; del _profiler.ProfileOptions"
        for release, line, reason in (("0.8.9", "", "its profiler is not safe on a thread of dlhook's before 0.9"),
                                      ("0.99.1", lacking, "its profiler lacks python_tracer_level")):
            with self.subTest(release):
                run = self.recorded("launcher", [PYTHON, "-c", program.format(release, line)])
                row, = (row for row in run.table("capabilities") if row["name"] == "jax-tap")
                self.assertEqual(row["state"], "refused")
                self.assertIn(f"jaxlib {release}: {reason}", row["note"])

    def test_the_users_own_profiler(self):
        self.check("profiler", 0, "3\n3\nFalse\ntrained\n", os.path.join(self.folder, "traces"))


if __name__ == "__main__":
    e2e.main()
