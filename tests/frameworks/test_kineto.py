#!/usr/bin/env python3
"""Traces of torch.profiler. Witnesses: a program that records itself, and what TraceLens computed of traces of real GPUs (../shared
beside the repository; without it these tests are skipped)."""

import collections
import csv
import glob
import json
import os
import re
import sqlite3

import frameworks
from frameworks import e2e, program

DATA = os.path.join(frameworks.HERE, "..", "..", "..", "shared", "data", "kineto")
# In the order of their first run.
LAYERS = ["Conv2d_0", "BatchNorm2d_0", "Linear_0", "Block_0.Linear_1", "Block_0.GELU_0", "Block_0.Linear_2", "Linear_3"]


class Recorded(frameworks.Case):
    """A training on the CPU."""

    @classmethod
    def setUpClass(cls):
        cls.kept = {}

    def trace(self):
        path = os.path.join(self.folder, "trace.json")
        if not self.kept:
            result = e2e.run(program("profiled_training", path), env=e2e.clean_environment(OMP_NUM_THREADS=1), cwd=self.folder)
            self.assertEqual(result.code, 0, result.err.decode()[-2000:])
            with open(path, "rb") as file:
                self.kept["bytes"] = file.read()
        with open(path, "wb") as file:
            file.write(self.kept["bytes"])
        return path

    def test_layers_by_name_and_order(self):
        rows = e2e.Run(self.trace()).table("layers", "--sort", "program")
        names = [row["layer"] for row in rows if row["layer"] in LAYERS]
        self.assertEqual(names, LAYERS)
        of_products = {row["layer"]: row for row in rows if row["layer"].rpartition(".")[2].startswith(("Linear", "Conv"))}
        for name, row in of_products.items():
            self.assertGreater(row["forward"], 0, name)
            self.assertGreater(row["backward"], 0, name)

    def test_products_and_steps(self):
        run = e2e.Run(self.trace())
        shapes = {(row["m"], row["n"], row["k"]): row["calls"] for row in run.table("gemm")}
        for shape in ((16, 64, 2048), (16, 128, 64), (16, 64, 128), (16, 10, 64)):  # forward
            self.assertGreaterEqual(shapes.get(shape, 0), 5, shapes)
        (convolution,) = [row for row in run.table("convolutions") if row["direction"] == "forward"]
        self.assertEqual(convolution["problem"], "mb16_ic3oc8_ih16oh16kh3sh1dh0ph1_iw16ow16kw3sw1dw0pw1")
        self.assertEqual({row["kind"] for row in run.table("steps")}, {"training"})

    def test_import(self):
        """A run of dlhook's own says the same."""
        trace = self.trace()
        result = e2e.run([e2e.DLHOOK, "import", trace, "-o", self.run_path])
        self.assertEqual(result.code, 0, result.err.decode())
        self.assertEqual(len(glob.glob(os.path.join(self.run_path, "*.dlh"))), 1)
        self.assertEqual(e2e.Run(self.run_path).table("ops"), e2e.Run(trace).table("ops"))
        again = e2e.run([e2e.DLHOOK, "import", trace, "-o", self.run_path])
        self.assertEqual(again.code, 0)
        self.assertIn(b"holds a run already, so this one goes to", again.err)

    def shares_of_layers(self, run):
        """Of the time of the last five steps: those in which torch.profiler recorded."""
        database = run + ".db"
        result = e2e.run([e2e.DLHOOK, "export", run, "--format", "sqlite", "--out", database])
        self.assertEqual(result.code, 0, result.err.decode())
        shares = collections.Counter()
        with sqlite3.connect(database) as tables:
            steps = [row[0] for row in tables.execute("SELECT step_id FROM raw_steps ORDER BY start_ns")][-5:]
            query = "SELECT step_id, name, share_ns FROM raw_time LEFT JOIN raw_layers USING (layer_id)"
            for step, layer, ns in tables.execute(query):
                if step in steps:
                    shares[layer] += ns
        return {layer: ns / sum(shares.values()) for layer, ns in shares.items()}

    def test_as_dlhook_recorded_it(self):
        """The same training by both at once. Each is in what the other measures, some us of a step."""
        path = os.path.join(self.folder, "trace.json")
        own = self.shares_of_layers(self.recorded("launcher", program("profiled_training", path), OMP_NUM_THREADS=1).path)
        imported = self.shares_of_layers(path)
        names = ["stem", "norm", "fc", "block.up", "block.act", "block.down", "head"]
        for name, layer in [*zip(names, LAYERS, strict=True), ("optimizer (SGD)",) * 2, ("CrossEntropyLoss",) * 2, (None, None)]:
            self.assertAlmostEqual(own[name], imported[layer], delta=0.01, msg=layer)

    def test_bad_files(self):
        path = os.path.join(self.folder, "none.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"a": 1}')
        for command in (["report", path], ["import", path, "-o", self.run_path], ["dump", path]):
            result = e2e.run([e2e.DLHOOK, *command])
            self.assertEqual(result.code, 2, command)
            self.assertIn(b'no list "traceEvents"; expected the JSON trace of torch.profiler', result.err)
        self.assertFalse(os.path.exists(self.run_path))


class Planted(frameworks.Case):
    """Traces made here: what the GPU does is known exactly. Times are in us."""

    def setUp(self):
        super().setUp()
        self.events, self.correlation = [], 0

    def event(self, category, name, start, duration, **args):
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": 7, "tid": 7, "ts": start, "dur": duration, "args": args})

    def launch(self, start, kernel, gpu_start, gpu_duration, function="cudaLaunchKernel", linked=True):
        """A call of 2 us and the kernel that it asks for."""
        self.correlation += 1
        self.event("cuda_runtime", function, start, 2, correlation=self.correlation)
        self.kernel(kernel, gpu_start, gpu_duration, self.correlation if linked else 1_000_000 + self.correlation)

    def kernel(self, name, start, duration, correlation):
        self.event("kernel", name, start, duration, correlation=correlation, device=0, stream=7)

    def product(self, start, gpu_start, gpu_duration, module="Linear_0", kernel="gemm"):
        """An operator of 10 us on the host."""
        self.event("python_function", f"nn.Module: {module}", start - 1, 12)
        self.event(
            "cpu_op",
            "aten::mm",
            start,
            10,
            **{"Input Dims": [[64, 512], [512, 256]], "Input Strides": [[512, 1], [256, 1]], "Input type": ["float", "float"]},
        )
        self.launch(start + 3, kernel, gpu_start, gpu_duration)

    def wait(self, start, duration):
        self.event("cuda_runtime", "cudaDeviceSynchronize", start, duration)

    def write(self, name, base_ns=0, **facts):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(
                {
                    "schemaVersion": 1,
                    "deviceProperties": [{"id": 0, "name": "NVIDIA A100", "computeMajor": 8, "computeMinor": 0, "numSms": 108}],
                    "traceEvents": self.events,
                    "baseTimeNanoseconds": base_ns,
                    **facts,
                },
                file,
            )
        return path

    def report(self, *arguments, traces=()):
        result = e2e.run([e2e.DLHOOK, "report", *(traces or [self.write("trace.json")]), *arguments])
        self.assertEqual(result.code, 0, result.err.decode())
        return " ".join(result.out.decode().split())

    def test_a_request_ends_with_its_gpu_work(self):
        for request in range(6):
            at = request * 10_000
            self.product(at + 100, at + 200, 1000)
            self.product(at + 200, at + 1200, 4000, "Linear_1")
            self.wait(at + 300, 4910)
        text = self.report()
        self.assertIn("A request takes 5.10 ms", text)
        self.assertIn("It ends with its GPU work; the host has asked for the last of it after", text)

    def test_the_host_runs_ahead(self):
        for request in range(10):
            self.product(request * 1000 + 100, request * 5000 + 200, 2000)
            self.product(request * 1000 + 600, request * 5000 + 2200, 3000, "Linear_1")
        self.assertIn("it runs ahead of the GPU, which takes 5.00 ms for each", self.report())

    def test_a_copy_waits_for_work_before_it(self):
        for request in range(6):
            at = request * 10_000
            self.product(at + 100, at + 200, 4800)
            self.correlation += 1
            self.event("cuda_runtime", "cudaMemcpyAsync", at + 300, 4810, correlation=self.correlation)
            copy = {"correlation": self.correlation, "device": 0, "stream": 7, "bytes": 4}
            self.event("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", at + 5000, 100, **copy)
        text = self.report()
        self.assertRegex(text, r"waiting for the GPU 4\.68 ms 94 %")
        self.assertRegex(text, r"memory copies 110 us 2 %")

    def test_a_gpu_with_another_clock(self):
        for request in range(6):
            self.product(request * 1000 + 100, request * 1000 + 150_000, 600)
        self.assertRegex(self.report(), r"GPUs are busy 100 %.* more than 149 ms after it was requested")

    def test_allocations(self):
        for request in range(6):
            self.product(request * 1000 + 100, request * 1000 + 110, 40)
            self.event("cuda_runtime", "cudaFree", request * 1000 + 200, 500)
            self.product(request * 1000 + 710, request * 1000 + 720, 40, "Linear_1")
        text = self.report()
        self.assertRegex(text, r"allocating and freeing memory 500 us \d\d %")
        self.assertIn("GPU memory is allocated and freed 1.0 times a request, and the GPU computes nothing meanwhile", text)
        self.assertIn("No torch.cuda.empty_cache() in the loop.", text)

    def test_the_profiler_itself(self):
        """What it took inside a launch is neither Python's, nor the launch's, nor an idle GPU's."""
        for request in range(6):
            at = request * 1000
            self.product(at + 100, at + 110, 40)
            self.product(at + 200, at + 620, 40, "Linear_1")
            for event in self.events[-4:-1]:  # the module, the operator and its launch
                event["dur"] += 400
            self.event("overhead", "Activity Buffer Request", at + 205, 400)
            self.events[-1].update(pid=-1, tid=0)
            self.wait(at + 630, 30)
        self.assertRegex(self.report(), r"the profiler itself 400 us \d\d %")
        self.assertRegex(self.report("--table", "layers", "--format", "csv"), r"\[the profiler itself\],[^\[]*,400000,")
        self.assertRegex(self.report("--table", "gpu_idle", "--format", "csv"), r"\bprofiler,,400000,")

    def test_communication_is_of_no_layer(self):
        for step in range(6):
            at = step * 1000
            self.product(at + 100, at + 110, 300)
            self.event("python_function", "nn.Module: Linear_0", at + 130, 20)
            self.event("cpu_op", "aten::add_", at + 132, 10)
            self.launch(at + 135, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)", at + 410, 400)
            self.event("cpu_op", "c10d::allreduce_", at + 143, 5)  # as DDP asks for it, in the backward pass of a layer
            self.wait(at + 160, 660)
        rows = {row["layer"]: row for row in e2e.Run(self.write("trace.json")).table("layers")}
        self.assertEqual(rows["[communication]"]["time"], 5000)
        text = self.report("--table", "layers")
        self.assertRegex(text, r"Linear \S* *300 us")
        self.assertRegex(text, r"\[communication\] \S* *400 us")
        self.assertRegex(self.report(), r"By operation: communication \d\d %, gemm \d\d %")

    def test_kernels_tell_of_tensor_cores(self):
        for kernel, told in (
            ("cutlass_80_tensorop_s1688gemm_64x64", "yes: by its kernel"),
            ("ampere_sgemm_32x32_tn", "no: its kernel keeps f32"),
        ):
            self.events.clear()
            for request in range(6):
                self.product(request * 1000 + 100, request * 1000 + 110, 40, kernel=kernel)
            self.assertIn(told, self.report("--table", "gemm", "--format", "csv"))

    def replays(self, distance):
        """Of graphs of two kernels whose work has ids of its own."""
        for replay in range(5):
            at = replay * distance
            self.event("cpu_op", "aten::mm", at, 20, **{"Input Dims": [[64, 512], [512, 256]], "Input type": ["float", "float"]})
            self.event("cuda_runtime", "cudaGraphLaunch", at + 5, 10, correlation=900 + replay)
            for kernel in range(2):
                self.kernel("in_graph", 30 + replay * 1000 + kernel * 400, 400, 10_000 + 2 * replay + kernel)

    def launches(self):
        database = os.path.join(self.folder, "run.db")
        self.report()
        result = e2e.run([e2e.DLHOOK, "export", os.path.join(self.folder, "trace.json"), "--format", "sqlite", "--out", database])
        self.assertEqual(result.code, 0, result.err.decode())
        with sqlite3.connect(database) as tables:
            return [row[0] for row in tables.execute("SELECT launch_call_id FROM raw_gpu_activities ORDER BY start_ns")]

    def test_replays_without_links(self):
        """The work of a replay that ends before the next one is known to be its own."""
        self.replays(1000)
        launches = self.launches()
        self.assertNotIn(None, launches)
        self.assertEqual([launches.count(launch) for launch in sorted(set(launches))], [2] * 5)
        self.assertNotIn("not linked to a call", self.report())

    def test_replays_that_wait_for_each_other(self):
        """Whose the work is cannot be told."""
        self.replays(20)
        self.assertEqual(set(self.launches()), {None})
        text = self.report()
        self.assertIn("Of 4.00 ms of GPU work in the run, 4.00 ms are not linked to a call", text)
        self.assertNotIn("waits for the next kernel", text)

    def test_annotations_are_no_operations(self):
        for step in range(6):
            at = step * 1000
            self.event("user_annotation", f"ProfilerStep#{step}", at, 1000)
            self.event("user_annotation", "## forward ##", at + 10, 600)
            self.product(at + 100, at + 200, 500)
            self.wait(at + 650, 60)
        text = self.report()
        self.assertNotIn("## forward", text)
        self.assertNotIn("ProfilerStep", text)
        self.assertRegex(self.report("--table", "accounting"), r"not seen ## forward ## \d")
        self.assertIn("Python or native code", text)

    def test_launch_bound_inference(self):
        for request in range(6):
            for op in range(10):
                at = request * 1000 + op * 50
                self.product(at + 100, at + 106, 2 if op else 40, f"Linear_{op}")
            self.wait(request * 1000 + 650, 10)
        text = self.report()
        self.assertIn("90 % of the operations that ask it for work take the host longer than the GPU.", text)
        self.assertIn('Replay it as CUDA graphs: torch.compile(model, mode="reduce-overhead")', text)

    def attention(self, at, gpu, softmax):
        """Two products of 100 us, and 600 us between them; scores: 16 x 128 x 128 floats."""
        shapes = {
            "Input Dims": [[16, 128, 64], [16, 64, 128]],
            "Input Strides": [[8192, 64, 1], [8192, 128, 1]],
            "Input type": ["float", "float"],
        }
        ops = [("bmm", 100, shapes), ("mul", 200, {}), (softmax, 400, {}), ("bmm", 100, shapes)]
        for op, duration, arguments in ops:
            self.event("cpu_op", f"aten::{op}", at, 10, **arguments)
            self.launch(at + 3, op, gpu, duration)
            at, gpu = at + 20, gpu + duration

    def attentions(self, softmax):
        for request in range(6):
            at = request * 1000
            self.event("python_function", "nn.Module: Attention_0", at + 90, 110)
            self.attention(at + 100, at + 110, softmax)
            self.wait(at + 300, 610)
        return self.report("--table", "findings", "--format", "csv")

    def test_attention_by_parts(self):
        text = self.attentions("softmax")
        self.assertIn("Attention is computed by parts 1 times a request and stores 1.00 MiB of scores", text)
        self.assertRegex(text, r"600000,")

    def test_products_without_softmax(self):
        self.assertNotIn("by parts", self.attentions("relu"))

    def norms(self, kernels):
        for request in range(6):
            at = request * 1000
            self.product(at + 10, at + 20, 100)
            self.event("python_function", "nn.Module: LlamaRMSNorm_0", at + 90, 200)
            for i in range(kernels):
                self.event("cpu_op", f"aten::part{i}", at + 100 + 20 * i, 10)
                self.launch(at + 103 + 20 * i, f"part{i}", at + 120 + 100 * i, 100)
            self.wait(at + 300, 620)
        return self.report("--table", "findings", "--format", "csv")

    def test_norms_by_parts(self):
        self.assertIn("Norms are computed by parts, 1 module in 5.0 kernels each: 500 us", self.norms(5))

    def test_a_fused_norm(self):
        self.assertNotIn("by parts", self.norms(1))

    def exposed(self, collective, wrapper):
        for step in range(6):
            at = step * 1000
            self.event("user_annotation", wrapper, at + 10, 200)
            self.product(at + 20, at + 30, 300)
            self.event(
                "cpu_op",
                "record_param_comms",
                at + 100,
                20,
                **{"Collective name": collective, "In msg nelems": 1000, "Out msg nelems": 1000, "dtype": "Float"},
                **{"Group size": 2, "Process Group Ranks": "[0, 1]"},
            )
            self.launch(at + 105, "ncclDevKernel_SendRecv(x)", at + 330, 500)
            self.wait(at + 300, 540)
        return self.report()

    def test_clocks_of_ranks(self):
        self.exposed("allreduce", "stage")

        def ranks(*starts_ns, world_size=2):
            return [
                self.write(f"rank{rank}.json", 1_700_000_000_000_000_000 + ns, distributedInfo={"rank": rank, "world_size": world_size})
                for rank, ns in enumerate(starts_ns)
            ]

        text = self.report("--table", "ranks", traces=ranks(0, 100_000))
        self.assertIn("at 6 collective operations: median 100 us", text)
        self.assertIn("only as exact as their clocks", text)
        for apart_ns in (700_000, 5_000_000):  # longer than a kernel; than all of the recording
            text = self.report("--table", "ranks", traces=ranks(0, apart_ns))
            self.assertIn("the clocks are apart, or the recordings begin with other operations", text)
            self.assertNotIn("median", text)
        text = self.report(traces=ranks(0, 3_600_000_000_000))
        self.assertIn("begins 3600 s after the end of rank0.json: these are traces of different times", text)
        result = e2e.run([e2e.DLHOOK, "report", *ranks(0, 90_000 * 1_000_000_000)])
        self.assertEqual(result.code, 2)
        self.assertIn(b"begins 90000 s after the end of rank0.json: traces more than a day apart can't be compared", result.err)
        self.assertIn("2 processes (2 of 8 ranks)", self.report(traces=ranks(0, 0, world_size=8)))
        self.assertIn("1 process (rank 0 of 8)", self.report(traces=ranks(0, world_size=8)))

    def test_kernels_of_unknown_collectives(self):
        for step in range(6):
            at = step * 1000
            self.product(at + 100, at + 110, 300)
            self.launch(at + 135, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)", at + 410, 400)
            self.wait(at + 160, 660)
        self.assertIn("kernels of communication ran for 2.40 ms", self.report("--table", "collectives"))

    def test_code_outside_of_operations(self):
        for step in range(6):
            at = step * 10_000
            self.event("python_function", "train.py(3): step", at, 9990)
            self.event("python_function", "nn.Module: Linear_0", at + 10, 2000)
            self.event("cpu_op", "aten::mm", at + 20, 1900)
            self.event("cpu_op", "aten::add", at + 9000, 500)
        text = self.report()
        self.assertIn("runs code outside of operations, or waits (the trace does not tell which), for", text)

    def test_what_was_not_recorded(self):
        self.event("cpu_op", "aten::mm", 10, 5)
        self.event("cuda_runtime", "cudaLaunchKernel", 12, 2, correlation=1)
        self.assertIn("None: torch.profiler recorded no shapes (record_shapes)", self.report("--table", "gemm"))
        self.assertIn("None: torch.profiler recorded no memory (profile_memory)", self.report("--table", "memory"))
        self.assertIn("none of the work that they asked the GPU for", self.report())

    def test_tokens_a_second(self):
        """A prompt of 128 tokens, and 15 more one by one."""
        at = 0
        for _ in range(8):
            for token in range(16):
                length, gpu = (128, 400) if token == 0 else (1, 30)
                self.event("python_function", "nn.Module: Llama_0", at, 2 * gpu + 50)
                dims = {"Input Dims": [[length, 512], [512, 512]], "Input type": ["c10::BFloat16"] * 2}
                self.event("cpu_op", "aten::mm", at + 1, 6, **dims)
                self.launch(at + 2, "gemm", at + 5, gpu)
                dims = {"Input Dims": [[1, 8, length, 64], *[[1, 8, 128 + token, 64]] * 2], "Input type": ["c10::BFloat16"] * 3}
                self.event("cpu_op", "aten::scaled_dot_product_attention", at + 8, 8, **dims)
                self.launch(at + 9, "flash_fwd", at + 5 + gpu, gpu)
                self.wait(at + 20, 2 * gpu + 10)
                at += 2 * gpu + 60
        said = r"the pass over a prompt takes 8\d\d us \(time to the first token\), each further token \S+ us; 16 tokens"
        self.assertRegex(self.report(), said)

    def test_advice_for_communication(self):
        ddp = "DistributedDataParallel.forward"
        self.assertIn("bucket_cap_mb", self.exposed("allreduce", ddp))
        self.events = []
        self.assertNotIn("bucket_cap_mb", self.exposed("allreduce", "tensor parallel"))
        self.events = []
        text = self.exposed("all_to_allv", ddp)
        self.assertNotIn("bucket_cap_mb", text)
        self.assertIn("Most of it is all-to-all.", text)
        self.events = []
        self.assertIn("In a pipeline, more micro-batches", self.exposed("send", "stage 1"))


class Nsight(frameworks.Case):
    """An export of Nsight Systems made here, after NVIDIA's SQLite Export Schema Reference. Times are in ns."""

    TABLES = {
        "StringIds": "id INTEGER PRIMARY KEY, value TEXT",
        "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INT",
        "TARGET_INFO_GPU": "id INT, name TEXT, totalMemory INT, smCount INT, computeMajor INT, computeMinor INT",
        "TARGET_INFO_CUDA_DEVICE": "gpuId INT, cudaId INT, pid INT",
        "PROCESSES": "globalPid INT, pid INT, name TEXT",
        "CUPTI_ACTIVITY_KIND_RUNTIME": "start INT, end INT, eventClass INT, globalTid INT, correlationId INT, nameId INT, returnValue INT",
        "CUPTI_ACTIVITY_KIND_KERNEL": "start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, globalPid INT,"
        " demangledName INT, shortName INT, gridX INT, gridY INT, gridZ INT",
        "CUPTI_ACTIVITY_KIND_MEMCPY": "start INT, end INT, deviceId INT, contextId INT, streamId INT, correlationId INT, globalPid INT,"
        " bytes INT, copyKind INT, srcKind INT, dstKind INT",
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "start INT, end INT, streamId INT, correlationId INT, globalPid INT, syncType INT",
        "NVTX_EVENTS": "start INT, end INT, eventType INT, text TEXT, globalTid INT, textId INT",
    }

    def setUp(self):
        super().setUp()
        self.rows, self.strings, self.correlation = collections.defaultdict(list), {}, 0
        self.rows["TARGET_INFO_SESSION_START_TIME"] = [(1_700_000_000_000_000_000,)]
        self.rows["TARGET_INFO_GPU"] = [(0, "NVIDIA T4", 16 << 30, 40, 7, 5), (1, "NVIDIA A100-SXM4-40GB", 40 << 30, 108, 8, 0)]

    def string(self, text):
        return self.strings.setdefault(text, len(self.strings) + 1)

    def range(self, pid, start, duration, text):
        self.rows["NVTX_EVENTS"].append((start, start + duration, 59, None, pid << 24 | pid, self.string(text)))

    def call(self, pid, function, start, duration):
        self.correlation += 1
        row = (start, start + duration, 0, pid << 24 | pid, self.correlation, self.string(function), 0)
        self.rows["CUPTI_ACTIVITY_KIND_RUNTIME"].append(row)

    def launch(self, pid, start, kernel, gpu_start, gpu_duration):
        self.call(pid, "cudaLaunchKernel_v7000", start, 2000)
        name = self.string(kernel)
        row = (gpu_start, gpu_start + gpu_duration, 0, 1, 7, self.correlation, pid << 24, name, name, 2, 3, 1)
        self.rows["CUPTI_ACTIVITY_KIND_KERNEL"].append(row)

    def step(self, pid, at, sequence):
        """A linear layer's forward and backward pass."""
        self.range(pid, at, 900_000, f"step {sequence}")
        self.call(pid, "cudaMemcpyAsync_v3020", at + 1000, 3000)
        copy = (at + 5000, at + 9000, 0, 1, 7, self.correlation, pid << 24, 4096, 1, 1, 2)
        self.rows["CUPTI_ACTIVITY_KIND_MEMCPY"].append(copy)
        sizes = "[[64, 512], [512, 256]]"
        self.range(pid, at + 10_000, 30_000, f"aten::mm, seq = {sequence}, op_id = {sequence}, sizes = {sizes}")
        self.launch(pid, at + 12_000, "gemm", at + 20_000, 100_000)
        node = f"MmBackward0, seq = {sequence}, op_id = 9"
        self.range(pid, at + 150_000, 50_000, f"autograd::engine::evaluate_function: {node}")
        self.range(pid, at + 152_000, 40_000, node)
        self.range(pid, at + 154_000, 30_000, "aten::mm, op_id = 10, sizes = [[512, 64], [64, 256]]")
        self.launch(pid, at + 156_000, "gemm", at + 160_000, 200_000)
        self.range(pid, at + 400_000, 50_000, "Optimizer.step#SGD.step")
        self.launch(pid, at + 410_000, "sgd", at + 415_000, 50_000)
        self.call(pid, "cudaStreamSynchronize_v3020", at + 500_000, 300_000)
        self.rows["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"].append((at + 501_000, at + 799_000, 7, self.correlation, pid << 24, 3))

    def write(self):
        path = os.path.join(self.folder, "report.sqlite")
        with sqlite3.connect(path) as tables:
            for table, columns in self.TABLES.items():
                rows = self.rows[table] if table != "StringIds" else [(number, text) for text, number in self.strings.items()]
                if rows:  # as Nsight Systems leaves out the others
                    tables.execute(f"CREATE TABLE {table} ({columns})")
                    tables.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        return path

    def test_training(self):
        for pid in (77, 78):
            self.rows["TARGET_INFO_CUDA_DEVICE"].append((1, 0, pid))
            self.rows["PROCESSES"].append((pid << 24, pid, "/usr/bin/python3"))
            for step in range(6):
                self.step(pid, step * 1_000_000, step)
        run = e2e.Run(self.write())
        (layer,) = [row for row in run.table("layers") if row["layer"] == "matmul1"]
        self.assertEqual((layer["gpu_forward"], layer["gpu_backward"]), (100_000, 200_000))
        products = {(row["m"], row["n"], row["k"], row["calls"]) for row in run.table("gemm")}
        self.assertEqual(products, {(64, 256, 512, 12), (512, 256, 64, 12)})
        self.assertEqual({row["kind"] for row in run.table("steps")}, {"training"})
        calls = {row["problem"]: row["calls"] for row in run.table("ops")}
        self.assertEqual(calls["cudaStreamSynchronize stream 7"], 12)
        self.assertEqual(calls["host-to-device 4096 bytes pinned async"], 12)
        text = e2e.run([e2e.DLHOOK, "report", run.path]).out.decode()
        self.assertRegex(text, r"2 processes")
        self.assertIn("NVIDIA A100-SXM4-40GB", text)
        self.assertNotIn("T4", text)
        self.assertNotIn("torch.profiler", text)
        self.assertNotIn("during step", text)

    def test_a_program_that_is_not_known(self):
        """It is not said to be Python, or PyTorch: only ranges of emit_nvtx tell."""
        for step in range(6):
            self.launch(77, step * 1_000_000, "gemm", step * 1_000_000 + 5000, 800_000)
        self.assertRegex(e2e.run([e2e.DLHOOK, "report", self.write()]).out.decode(), r"^report\.sqlite: program, 1 ")

    def test_what_is_no_export(self):
        self.rows["PROCESSES"].append((7 << 24, 7, "python"))
        result = e2e.run([e2e.DLHOOK, "report", self.write()])
        self.assertEqual(result.code, 2)
        self.assertIn(b"no calls of CUDA, GPU work or ranges of NVTX; expected the SQLite export of Nsight Systems", result.err)


@e2e.unittest.skipUnless(os.path.isdir(DATA), "no ../shared/data/kineto beside the repository")
class RealGpus(frameworks.Case):
    """Traces that others recorded."""

    def activities(self, name):
        database = os.path.join(self.folder, "run.db")
        trace = os.path.join(DATA, name)
        result = e2e.run([e2e.DLHOOK, "export", trace, "--format", "sqlite", "--out", database])
        self.assertEqual(result.code, 0, result.err.decode())
        with sqlite3.connect(database) as tables:
            return list(tables.execute("SELECT kind, kernel, start_ns, end_ns, launch_call_id FROM raw_gpu_activities ORDER BY start_ns"))

    def check(self, model):
        activities = self.activities(f"{model}_inference.json.gz")
        sums, counts = collections.Counter(), collections.Counter()
        for kind, kernel, start, end, _ in activities:
            if kind == "kernel":
                sums[kernel] += end - start
                counts[kernel] += 1
        told, told_counts = collections.Counter(), collections.Counter()
        with open(os.path.join(DATA, f"{model}.tracelens.kernel_summary.csv"), encoding="utf-8") as file:
            for row in csv.DictReader(file):
                told[row["Kernel name"]] += round(float(row["Kernel duration (µs)_sum"]) * 1000)
                told_counts[row["Kernel name"]] += int(row["Kernel duration (µs)_count"])
        self.assertEqual(sums, told)
        self.assertEqual(counts, told_counts)
        busy, until = 0, 0
        for _, _, start, end, launch in activities:
            if launch is None:  # launched before the profiler's window; TraceLens leaves it out
                continue
            busy += max(0, end - max(start, until))
            until = max(until, end)
        with open(os.path.join(DATA, f"{model}.tracelens.gpu_timeline.csv"), encoding="utf-8") as file:
            timeline = {row["type"]: float(row["time ms"]) * 1e6 for row in csv.DictReader(file)}
        self.assertAlmostEqual(busy, timeline["busy_time"], delta=0.01 * timeline["busy_time"])

        self.check_products(model)

    def check_products(self, model):
        """GPU time and calls by shape."""
        found, told = collections.defaultdict(lambda: [0, 0]), collections.defaultdict(lambda: [0, 0])
        for row in e2e.Run(os.path.join(DATA, f"{model}_inference.json.gz")).table("gemm"):
            sums = found[row["m"], row["n"], row["k"], row["batch"]]
            sums[0] += row["calls"]
            sums[1] += row["gpu_time"]
        with open(os.path.join(DATA, f"{model}.tracelens.GEMM.csv"), encoding="utf-8") as file:
            for row in csv.DictReader(file):
                sizes = [int(float(row[f"param: {name}"] or 1)) for name in ("M", "N", "K", "B")]
                told[tuple(sizes)][0] += int(row["name_count"])
                told[tuple(sizes)][1] += float(row["Kernel Time (µs)_sum"]) * 1000
        self.assertEqual(sorted(found), sorted(told))
        for sizes, (calls, time) in told.items():
            self.assertEqual(found[sizes][0], calls, sizes)
            self.assertAlmostEqual(found[sizes][1], time, delta=0.01 * time, msg=sizes)

    def test_bert(self):
        self.check("h100_bert-small")

    def test_qwen(self):
        self.check("h100_qwen1.5-0.5b")

    def test_timesformer(self):
        self.check("h100_timesformer")

    def test_all_can_be_reported(self):
        for trace in sorted(glob.glob(os.path.join(DATA, "*.json.gz"))):
            result = e2e.run([e2e.DLHOOK, "report", trace])
            self.assertEqual(result.code, 0, trace)
            self.assertIn(b" step takes" if b" step takes" in result.out else b"A request takes", result.out, trace)

    def report(self, name, *flags):
        result = e2e.run([e2e.DLHOOK, "report", os.path.join(DATA, f"{name}.json.gz"), *flags])
        self.assertEqual(result.code, 0, result.err.decode())
        return " ".join(result.out.decode().split())

    def test_repeated_blocks_are_one_row(self):
        """The heaviest work of the network comes first: 24 softmaxes."""
        self.assertRegex(self.report("h100_timesformer_inference"), r"GPU time step \S+:softmax x24 68\.8 ms - 68\.8 ms")

    def test_requests_end_with_their_gpu_work(self):
        """TraceLens: 160.0 ms in all; of the graphs 156.1 busy, 0.4 idle."""
        text = self.report("h100_timesformer_inference")
        self.assertIn("A request takes 160 ms", text)
        self.assertIn("It ends with its GPU work; the host has asked for the last of it after", text)
        graphs = self.report("mi300_vllm_graph")
        self.assertIn("A request takes 158 ms", graphs)
        self.assertIn("Where a request goes waiting for the GPU 135 ms", graphs)
        self.assertIn("GPUs are busy 99 %", graphs)
        self.assertIn("began all its work more than 146 ms after it was requested", graphs)
        self.assertNotIn("waits for the next kernel", graphs)
        self.assertIn("That is the host's time: it runs ahead of the GPU", self.report("v100_ddp_resnet50_rank0"))

    def test_a_copy_waits_for_work_before_it(self):
        text = self.report("h100_timesformer_inference")
        self.assertRegex(text, r"waiting for the GPU 125 ms 78 % #+ Python or native code 14\.3 ms")
        self.assertIn("By operation: _softmax 43 %, gemm 33 %, mul 10 %, copy_ 7 % (table layers --by op).", text)
        self.assertIn("No rule judges this: what the GPU computes decides", self.report("v100_ddp_resnet50_rank0"))

    def test_communication_is_of_no_layer(self):
        run = e2e.Run(os.path.join(DATA, "mi300_resnet_ddp_checkpoint_rank0of8.json.gz"))
        rows = {row["layer"]: row for row in run.table("layers")}
        self.assertLess(rows["ResNet_0.Conv2d_0"]["gpu_backward"], 1e6)
        self.assertGreater(rows["[communication]"]["gpu_time"], 15.8e6)

    def test_kernels_tell_of_tensor_cores(self):
        """Products of the recommender run in TF32 and in FP32: 26 % of the peak of the latter are 4.2 % of the former."""
        path = os.path.join(DATA, "a100_recsys_rank3of8.json.gz")
        told = {row["tensor_core"] for row in e2e.Run(path).table("gemm")}
        self.assertGreaterEqual(told, {"yes: by its kernel", "no: by its kernel"})
        self.assertIn("(MFU at least 4.2 %)", self.report("a100_recsys_rank3of8"))

    def test_the_only_step(self):
        text = self.report("a100_alexnet_sync")
        self.assertIn("GPU memory is allocated and freed 24.0 times a request", text)
        self.assertIn("CUDA and its libraries load and allocate at first use: measure after a warm-up.", text)
        self.assertNotIn("CUDA graphs", text)

    def test_waits_tell_their_stream(self):
        rows = e2e.Run(os.path.join(DATA, "a100_alexnet_sync.json.gz")).table("ops")
        calls = {row["problem"]: row["calls"] for row in rows}
        self.assertEqual(calls["cudaStreamSynchronize stream 7"], 16)
        self.assertEqual(calls["cudaDeviceSynchronize"], 5)
        self.assertEqual(calls["cudaStreamWaitEvent stream 20, for an event of stream 7"], 4)

    def test_as_others_say(self):
        """In the whole run, ms: AMD's TraceLens (which counts memsets as compute); overlap in percent: HolisticTraceAnalysis 0.5.0, which
        rounds to microseconds and leaves out the last step."""
        for trace, compute, communication, overlap in (
            ("a100_alexnet_sync", 10.638, None, None),
            ("a100_ddp_resnet_rank0of2", 116.047, 46.876, 14.31),
            ("a100_recsys_rank3of8", None, None, 47.03),
            ("h100_timesformer_inference", 154.969, None, None),
            ("mi300_vllm_graph", 156.008, None, None),
            ("v100_ddp_resnet50_rank0", 468.761, None, None),
        ):
            rows = {(row["work"], row["beside"]): row for row in e2e.Run(os.path.join(DATA, f"{trace}.json.gz")).table("overlap")}
            if compute:
                self.assertAlmostEqual(rows["compute", "compute"]["run_work_time"] / 1e6, compute, delta=0.005 * compute, msg=trace)
            beside = rows.get(("communication", "compute"))
            if communication:
                self.assertAlmostEqual(beside["run_work_time"] / 1e6, communication, places=3)
            if overlap:
                self.assertAlmostEqual(beside["run_percent"], overlap, delta=1.5, msg=trace)

    def test_annotations_are_no_operations(self):
        for trace in ("a100_ddp_resnet_rank0of2", "a100_recsys_rank3of8", "v100_ddp_resnet50_rank0"):
            self.assertNotIn("## backward", self.report(trace))

    def test_forms(self):
        self.assertIn("Attention is computed by parts 24 times a request", self.report("h100_timesformer_inference"))
        self.assertIn("Norms are computed by parts, 49 modules in 8.0 kernels each: 7.38 ms", self.report("h100_qwen1.5-0.5b_inference"))

    def test_advice(self):
        self.assertIn('torch.compile(model, mode="reduce-overhead")', self.report("h100_bert-small_inference"))
        recommender = self.report("a100_recsys_rank3of8")
        self.assertIn("Most of it is all-to-all.", recommender)
        self.assertNotIn("bucket_cap_mb", recommender)
        for trace in ("a100_ddp_resnet_rank0of2", "mi300_resnet_ddp_checkpoint_rank0of8"):
            self.assertIn("bucket_cap_mb", self.report(trace))

    def test_utilization(self):
        """FLOPs are those of TraceLens, half of causal attention's (Qwen) as there; peaks are those of data sheets."""
        for model in ("h100_bert-small", "h100_qwen1.5-0.5b", "h100_timesformer"):
            told = 0
            for kind in ("GEMM", "CONV_fwd", "SDPA_fwd"):
                path = os.path.join(DATA, f"{model}.tracelens.{kind}.csv")
                if not os.path.exists(path):  # the model has none
                    continue
                with open(path, encoding="utf-8") as file:
                    told += sum(float(row["GFLOPS_first"]) * int(row["name_count"]) for row in csv.DictReader(file))
            text = self.report(f"{model}_inference", "--table", "layers")
            self.assertRegex(text, r"MFU of the step .* 989 TFLOP/s for bf16")
            self.assertAlmostEqual(float(re.search(r"known: ([\d.]+) GFLOP", text)[1]), told, delta=0.01 * told)
        text = self.report("mi300_resnet_ddp_checkpoint_rank0of8", "--table", "layers")
        self.assertIn("at least 0.5 %, of 1307 TFLOP/s for bf16. HFU, with forward passes done again: at least 0.65 %.", text)
        self.assertIn("is not known, because the FLOPs of no call", self.report("a100_ddp_resnet_rank0of2", "--table", "layers"))

    def test_bandwidth_of_the_bus(self):
        reduced = 0
        for row in e2e.Run(os.path.join(DATA, "mi300_resnet_ddp_checkpoint_rank0of8.json.gz")).table("collectives"):
            factor = {"all reduce": 2 * 7 / 8, "broadcast": 1}[row["kind"]]
            self.assertAlmostEqual(row["bus_rate"], factor * row["gpu_rate"], places=5)
            self.assertAlmostEqual(row["gpu_rate"], row["size"] * row["calls"] / row["gpu_time"], places=5)
            reduced += row["kind"] == "all reduce"
        self.assertGreater(reduced, 0)

    def test_ranks_of_a_job(self):
        ranks = sorted(glob.glob(os.path.join(DATA, "hta_sampled_rank-*.json.gz")))
        result = e2e.run([e2e.DLHOOK, "report", *ranks, "--table", "devices", "--format", "csv"])
        self.assertEqual(result.code, 0, result.err.decode())
        self.assertEqual([line.split(b",")[0] for line in result.out.splitlines()[1:]], [b"0", b"1"])

    def test_traces_of_several_jobs(self):
        result = e2e.run([e2e.DLHOOK, "report", DATA])
        self.assertEqual(result.code, 2)
        self.assertIn(b"are not known to be of one job", result.err)


if __name__ == "__main__":
    e2e.main()
