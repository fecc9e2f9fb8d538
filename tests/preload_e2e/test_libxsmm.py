"""LIBXSMM 1.17: layers that all threads of a parallel region execute, products, kernels that are built and called through pointers.
Hand counts of the program tests/preload_e2e/victims/xsmm.c."""

import collections
import os
import unittest

import e2e

STEPS = 2
# (problem, calls a step by direction). FLOPs: 2 N K P Q C R S, the same in each direction.
CNN = [
    ("mb4_ic16oc32_ih16oh16kh3sh1dh0ph1_iw16ow16kw3sw1dw0pw1", 2 * 4 * 32 * 16 * 16 * 16 * 3 * 3, ("forward", "backward-weights")),
    ("mb4_ic32oc32_ih16oh8kh3sh2dh0ph1_iw16ow8kw3sw2dw0pw1", 2 * 4 * 32 * 8 * 8 * 32 * 3 * 3,
     ("forward", "backward-data", "backward-weights")),
    ("mb4_ic32oc64_ih8oh8kh1sh1dh0ph0_iw8ow8kw1sw1dw0pw0", 2 * 4 * 64 * 8 * 8 * 32, ("forward", "backward-data", "backward-weights")),
]


def counted(rows, *names):
    """{(cells…): calls} of the rows of a table."""
    return dict(collections.Counter({tuple(row[name] for name in names): row["calls"] for row in rows if row["calls"]}))


@unittest.skipUnless(os.path.exists(e2e.victim("xsmm")), "no libxsmm-dev when this was built")
class Libxsmm(e2e.Case):
    def run_victim(self, *arguments, host="launcher"):
        argv = [e2e.victim("xsmm"), *arguments]
        plain = e2e.run(argv)
        self.assertEqual(plain.code, 0, plain.out)
        self.fresh_run()
        self.assert_same_behaviour(plain, self.under(host, argv), host)
        run = e2e.Run(self.run_path)
        self.assert_no_loss(run.trace())
        return run

    def unseen_kernels(self, run):
        return [row["state"] for row in run.table("capabilities") if row["name"] == "libxsmm-kernels"]

    def test_samples_name_kernels(self):
        """Called through pointers: no hook sees them."""
        self.fresh_run()
        result = self.under("launcher", [e2e.victim("xsmm"), "computes"], DLHOOK_SAMPLE=500)
        self.assertEqual(result.code, 0, result.err)
        times = {row["function"]: row["self_time"] for row in e2e.Run(self.run_path).table("hotspots")}
        small, large = (times.get(f"libxsmm_kernel_f32_{shape}", 0) for shape in ("16x16x16", "64x48x32"))
        self.assertGreater(small, 0, times)
        self.assertGreater(large, 2 * small, times)  # 6 times as much work
        self.assertGreater(small + large, 0.8 * sum(times.values()), times)

    def test_convolutions_count_once(self):
        """However many threads execute one."""
        for threads, host in ((1, "launcher"), (2, "writer"), (3, "launcher")):
            with self.subTest(threads=threads):
                run = self.run_victim("cnn", str(threads), str(STEPS), host=host)
                rows = run.table("ops")
                expected = {("convolution", direction, problem, flops): STEPS for problem, flops, directions in CNN
                            for direction in directions}
                convolutions = [row for row in rows if row["kind"] == "convolution"]
                self.assertEqual(counted(convolutions, "kind", "direction", "problem", "flops"), expected)
                shares = [row for row in rows if row["kind"] == "share:convolution"]
                self.assertEqual(counted(shares, "direction", "problem", "flops"),
                                 {(direction, problem, None): STEPS * (threads - 1) for _, direction, problem, _ in expected
                                  if threads > 1})
                created = [row for row in rows if row["kind"] == "create:convolution"]
                self.assertEqual(self.unseen_kernels(run), [], "LIBXSMM's own calls of its kernels are the layers")
                self.assertEqual(counted(created, "problem"), {(problem,): 1 for problem, _, _ in CNN})

    def test_algorithm_and_formats(self):
        run = self.run_victim("cnn", "2", "1")
        rows = [row for row in run.table("algorithms") if row["kind"] == "convolution" and row["calls"]]
        self.assertEqual({row["algorithm"] for row in rows}, {"direct"})
        self.assertEqual(len(rows), 8)
        rows = run.table("convolutions")
        self.assertEqual({row["algorithm"] for row in rows}, {"direct"})
        self.assertEqual({row["problem"]: row["direct_flops"] for row in rows if row["direction"] == "forward"},
                         {problem: flops for problem, flops, _ in CNN})

    def test_copies_are_conversions(self):
        rows = self.run_victim("cnn", "1", "1").table("layout")
        # Channels in blocks. Two inputs are equally large; so are no two filters.
        counts = collections.Counter()
        for row in rows:
            counts[row["from"] == "abcd", row["to"] == "abcd"] += row["calls"]
        self.assertEqual(counts, {(True, False): 6, (False, True): 3})
        self.assertIn(("abcd", "aBcd16b"), {(row["from"], row["to"]) for row in rows})

    def test_layers(self):
        rows = self.run_victim("layers", "2").table("ops")
        layers = [row for row in rows if row["kind"] in ("inner_product", "pooling", "optimizer")]
        fully_connected = 2 * 16 * 64 * 32
        self.assertEqual(counted(layers, "kind", "direction", "problem", "flops"), {
            ("inner_product", "forward", "mb16ic64oc32", fully_connected): 1,
            ("inner_product", "backward", "mb16ic64oc32", 2 * fully_connected): 1,
            ("pooling", "forward", "mb4ic32_ih8oh4kh2sh2dh0ph0_iw8ow4kw2sw2dw0pw0 pooling_max", None): 1,
            ("pooling", "backward", "mb4ic32_ih8oh4kh2sh2dh0ph0_iw8ow4kw2sw2dw0pw0 pooling_max", None): 1,
            ("optimizer", "update", "32x64 sgd", None): 1})
        self.assertEqual({row["calls"] for row in rows if row["kind"].startswith("share:")}, {1})
        self.assertEqual(sum(row["kind"].startswith("share:") for row in rows), 5)

    def test_products(self):
        run = self.run_victim("products")
        calls = [call for call in run.trace().top_calls() if "gemm" in call.op]
        shapes = collections.Counter()
        hits = collections.Counter()
        for call in calls:
            gemm = e2e.one(call.op, "gemm")
            kind = e2e.one(gemm, "kind", "GEMM")
            numbers = tuple(e2e.one(gemm, name, 0) for name in ("m", "n", "k", "batch"))
            if kind == "DISPATCH":
                hits[(*numbers[:3], e2e.one(gemm, "cache_hit", False))] += 1
            else:
                shapes[(e2e.one(call.op, "function"), e2e.one(gemm, "a_type"), *numbers, e2e.one(gemm, "flops", 0))] += 1
        self.assertEqual(shapes, {("libxsmm_sgemm", "F32", 23, 17, 31, 1, 0): 3,
                                  ("libxsmm_sgemm", "F32", 23, 23, 23, 1, 0): 1,
                                  ("libxsmm_dgemm", "F64", 23, 17, 31, 1, 0): 1,
                                  # two of 8 x 8 x 8 and one of 4 x 4 x 4
                                  ("libxsmm_sgemm_batch", "F32", 8, 8, 8, 3, 2 * (2 * 8**3 + 4**3)): 1,
                                  ("libxsmm_gemm_batch", "F32", 8, 8, 8, 5, 0): 1})
        self.assertEqual(hits, {(16, 12, 10, False): 1, (16, 12, 10, True): 1, (8, 8, 8, False): 1})
        products = {(row["m"], row["n"], row["k"], row["batch"]): row["flops"] for row in run.table("gemm")}
        self.assertEqual(products[23, 17, 31, 1], 2 * 23 * 17 * 31)
        self.assertEqual(products[8, 8, 8, 5], 2 * 8**3 * 5)
        # What a look-up of a kernel builds is no product.
        self.assertNotIn((16, 12, 10, 1), products)
        self.assertEqual(self.unseen_kernels(run), ["absent"])
        self.assertIn(("creation", "gemm"), {(row["activity"], row["kind"]) for row in run.table("tuning")})


if __name__ == "__main__":
    e2e.main()
