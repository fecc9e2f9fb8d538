"""Clients like the frameworks TensorFlow/XLA, Caffe, CNTK, Theano, cuda-convnet."""

import collections

import cuda_e2e
import e2e


class Xla(cuda_e2e.Case):
    ENGINES = "1:120,0:140,28:100,34:90"  # engine and cost, in the heuristics' order

    def check(self, host="writer", **extra):
        run, calls = self.check_victim([e2e.victim("xla")], host, DLHOOK_FAKE_ENGINES=self.ENGINES, **extra)
        return run, calls

    def test_every_call(self):
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.check(host)

    def test_plans_that_cannot_be_finalized(self):
        self.check(DLHOOK_FAKE_UNFINALIZABLE="1,28")

    def test_operands_and_engines(self):
        run, result = self.cuda([e2e.victim("xla")], DLHOOK_FAKE_ENGINES=self.ENGINES)
        calls = [call for call in cuda_e2e.in_order(run.trace().calls) if call.function == "cudnnBackendExecute"]
        operands = [[int(word, 16) for word in line.split()[1:]] for line in result.out.decode().splitlines()
                    if line.startswith("operands ")]
        logged = [call for call in self.log() if call.function == "cudnnBackendExecute"]
        from_json = [call for call in calls if "cudnn.plan.json" in call.facts]
        self.assertEqual(len(from_json), 2)
        for call, addresses, arrived in zip(calls, operands, logged, strict=True):
            if call not in from_json:
                self.assertEqual(call.addresses, addresses)
                self.assertEqual(call.facts.get("cudnn.plan.engine", "0"), arrived.note["engine"])

    def test_its_search_is_told_from_use(self):
        run, _ = self.cuda([e2e.victim("xla")], DLHOOK_FAKE_ENGINES=self.ENGINES)
        rows = run.table("candidates")
        found = sorted((row["candidate"].split()[1], row["time"], row["trials"], row["timed_by"]) for row in rows)
        # Each engine's time from the fakes' own log: one execution of each convolution.
        executed = [call.note for call in self.log() if call.function == "cudnnBackendExecute"]
        times = {(note["engine"], int(note["ns"])) for note in executed if note["operations"]}
        self.assertEqual(found, sorted((engine, nanoseconds, 1, "events") for engine, nanoseconds in times))
        self.assertEqual(len(found), 8)
        self.assertEqual([row["candidate"].split()[1] for row in rows if row["taken"]], ["34", "34"])
        used = [row for row in run.table("algorithms") if row["kind"] == "convolution"]
        self.assertEqual([(row["chosen"].split()[1], row["chooser"], row["calls"], row["candidates"]) for row in used],
                         [("34", "profiled", 5, 4)] * 2)
        tried = [row["calls"] for row in run.table("ops") if row["kind"] == "trial:convolution"]
        self.assertEqual(tried, [4, 4])


class Grouped(cuda_e2e.Case):
    def test_sizes_in_the_devices_memory(self):
        run, calls = self.check_victim([e2e.victim("grouped")])
        products = [call for call in calls if call.function == "cublasLtMatmul"]
        self.assertEqual([call.addresses for call in products], [[0, 0, 0]] * 2)  # arrays of pointers are not operands
        known = [[row[name] for name in ("m", "n", "k", "batch", "flops")] for row in run.table("gemm")]
        self.assertEqual(sorted(known, key=str), [[64, 32, 128, 7, 2 * 64 * 32 * 128 * 7], [None] * 5])
        self.assertIn("m? n? k? NN f16:f16:f32 batch5 groups5", {row["problem"] for row in run.table("ops")})


class Legacy(cuda_e2e.Case):
    def check(self, mode, generation="cuda12", **extra):
        return self.check_victim([e2e.victim("legacy"), mode], generation=generation, **extra)

    def test_caffe(self):
        _, calls = self.check("caffe")
        convolutions = [call for call in calls if call.function == "cudnnConvolutionForward"]
        logged = [call for call in self.log() if call.function == "cudnnConvolutionForward"]
        self.assertEqual(len(convolutions), 2)
        for call, arrived in zip(convolutions, logged, strict=True):
            self.assertEqual(call.addresses, [arrived.number(name) for name in ("x", "w", "y")])
            for role, name in (("X", "x"), ("Y", "y")):
                tensor = f"cudnn.tensor[{role}]"
                self.assertEqual(f"{call.facts[f'{tensor}.dim']}:{call.facts[f'{tensor}.stride']}", arrived.note[name])

    def test_cntk(self):
        run, _ = self.check("cntk")
        rows = run.table("algorithms")
        found = [row for row in rows if row["algorithm"] in ("fft_tiling", "winograd_nonfused")]
        self.assertEqual([(row["chooser"], row["calls"], row["candidates"]) for row in found], [("profiled", 1, 3)] * 3)
        # Times of the candidates, in milliseconds, as reported by the library.
        searches = [call for call in self.log() if call.function.startswith("cudnnFind")]
        answers = [word for call in searches for word in call.note if ":" in word]  # ALGORITHM:MILLISECONDS
        measured = sorted(round(float(word.split(":")[1]) * 1e6) for word in answers)
        rows = run.table("candidates")
        self.assertEqual(len(measured), 9)
        self.assertEqual(sorted(row["time"] for row in rows), measured)
        self.assertEqual([row["time"] for row in rows if row["taken"]], [min(measured)] * 3)

    def test_theano_on_cudnn_7(self):
        run, _ = self.check("theano", generation="cuda10")
        (row,) = [row for row in run.table("algorithms") if row["kind"] == "convolution"]
        self.assertEqual((row["chooser"], row["calls"]), ("heuristic", 1))

    def test_batch_innermost_has_no_name(self):
        run, _ = self.check("convnet")
        for table in ("ops", "algorithms", "layout"):
            for row in run.table(table):
                self.assertNotIn("nhwc", str(row), table)
                if row.get("kind") in ("convolution", "pooling"):
                    self.assertNotIn("src:nchw", str(row), table)


class Nested(cuda_e2e.Case):
    """Calls inside libraries: cuBLAS through cuBLASLt, cuDNN through its own runtime."""

    def test_kernels_of_a_convolution(self):
        run, calls = self.check_victim([e2e.victim("legacy"), "caffe"], generation="cuda12", DLHOOK_FAKE_NESTED=1)
        inner = [call for call in run.trace().calls if call.parent is not None and "launch.kernel" in call.facts]
        launches = [call for call in self.log(depth=None) if call.function == "cuLaunchKernel"]
        kernels = collections.Counter(call.note["kernel"] for call in launches)
        self.assertEqual(collections.Counter(call.facts["launch.kernel"] for call in inner), kernels)
        by_sequence = {call.sequence: call.function for call in calls}
        self.assertEqual({by_sequence[call.parent] for call in inner}, {
            "cudnnConvolutionForward", "cudnnConvolutionBackwardData", "cudnnConvolutionBackwardFilter"})
        # Conversions between layouts are attributed to the convolutions.
        conversions = [name for name in kernels.elements() if "nchwToNhwc" in name or "nhwcToNchw" in name]
        self.assertEqual(len(conversions), 12)
        self.assertEqual(sum(row["calls"] for row in run.table("layout")), len(conversions))

    def test_product_through_the_other_library(self):
        run, calls = self.check_victim([e2e.victim("captured"), "runtime"], DLHOOK_FAKE_NESTED=1)
        inner = [call for call in run.trace().calls if call.parent is not None and call.function == "cublasLtMatmul"]
        outer = [call for call in calls if call.function == "cublasSgemm_v2"]
        self.assertEqual([call.parent for call in inner], [call.sequence for call in outer])
        products = {row["kind"]: (row["calls"], row["nested_calls"]) for row in run.table("ops") if "gemm" in row["kind"]}
        self.assertEqual(products, {"gemm": (4, 4), "capture:gemm": (2, 2)})


class Captured(cuda_e2e.Case):
    """Library calls on a stream that is captured into a graph are distinguished from executed ones."""

    def test_begun_by_the_runtime(self):
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.check_victim([e2e.victim("captured"), "runtime"], host)

    def test_begun_by_the_driver(self):
        self.check_victim([e2e.victim("captured"), "driver"])


if __name__ == "__main__":
    cuda_e2e.main()
