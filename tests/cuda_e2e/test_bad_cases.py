"""Problems on machines with GPUs: no driver, two runtimes, failing calls, threads, reuse, forks, sudden ends."""

import collections
import os
import re
import struct

import cuda_e2e
import e2e


class TwoRuntimes(cuda_e2e.Case):
    EXPECTED = b"older 12080\nnewer 13000\nolder 12080\nnewer 13000\nolder 12080\n"

    def environment(self, host, generation="cuda13", **extra):
        env = super().environment(host, generation, **extra)
        env["LD_LIBRARY_PATH"] += ":" + os.path.join(cuda_e2e.FAKES, "cuda12")
        return env

    def test_plugins_reach_their_own(self):
        for how in ("local", "global"):
            argv = [e2e.victim("two_runtimes"), how, e2e.library("plugin_cuda12"), e2e.library("plugin_cuda13")]
            self.assertEqual(self.plain(argv).out, self.EXPECTED)
            for host in e2e.HOSTS:
                with self.subTest(how=how, host=host):
                    run, result = self.cuda(argv, host)
                    self.assertEqual(result.out, self.EXPECTED)
                    copies = [call.facts["copy.bytes"] for call in run.trace().calls if call.function == "cudaMemcpy"]
                    expected = [size for calls in (3, 5, 2, 1, 4) for size in range(1, calls + 1)]
                    self.assertEqual(copies, [str(size) for size in expected])

    def test_stubs_reach_their_own(self):
        argv = [e2e.victim("two_runtimes")]
        expected = b"libcudart.so.12 says 12080\nlibcudart.so.13 says 13000\n"
        self.assertEqual(self.plain(argv).out, expected)
        run, result = self.cuda(argv, DLHOOK_CAPTURE="all")
        self.assertEqual(result.out, expected)
        self.assertEqual([call.function for call in run.trace().calls], ["cudaRuntimeGetVersion"] * 2)


class Threads(cuda_e2e.Case):
    def test_shared_handles(self):
        steps = 200
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                run, result = self.cuda([e2e.victim("many_threads"), str(steps)], host, DLHOOK_RING_KIB=65536)
                trace = run.trace()
                self.assert_no_loss(trace)
                device = int(re.search(rb"device (0x\w+)", result.out)[1], 16)
                by_thread = collections.defaultdict(list)
                for call in trace.calls:
                    by_thread[call.thread_id].append(call)
                workers = [cuda_e2e.in_order(calls) for calls in by_thread.values() if len(calls) > 100]
                self.assertEqual(len(workers), 8)
                numbers = set()
                for calls in workers:
                    self.assertEqual([call.function for call in calls],
                                     ["cudnnBackendExecute", "cudaMemcpyAsync", "cublasDgemm_v2"] * steps)
                    number = int(calls[1].facts["copy.bytes"]) - 100
                    numbers.add(number)
                    self.assertEqual({call.facts["copy.bytes"] for call in calls[1::3]}, {str(100 + number)})
                    self.assertEqual({call.facts["gemm.m"] for call in calls[2::3]}, {str(10 + number)})
                    self.assertEqual({call.facts.get("cudnn.plan.engine", "0") for call in calls[0::3]},
                                     {"1" if number % 2 == 0 else "0"})
                    self.assertEqual({tuple(call.addresses) for call in calls[0::3]},
                                     {(device + 64 * number, device + 4096, device + 8192 + 64 * number)})
                self.assertEqual(numbers, set(range(8)))


class Reuse(cuda_e2e.Case):
    def test_plans_at_one_address_are_told_apart(self):
        run, result = self.cuda([e2e.victim("reused"), "60"])
        self.assertGreater(int(re.search(rb"reused (\d+)", result.out)[1]), 10)
        calls = cuda_e2e.in_order(run.trace().calls)
        self.assert_calls(calls, cuda_e2e.told(result.out))
        operands = [[int(word, 16) for word in line.split()[1:]] for line in result.out.decode().splitlines()
                    if line.startswith("operands ")]
        self.assertEqual([call.addresses for call in calls if call.function == "cudnnBackendExecute"], operands)

    def test_kernels_of_a_plugin_that_took_anothers_place(self):
        plugins = [word for name in ("scale_a", "scale_b", "scale_a") for word in (e2e.library(name), name)]
        _, result = self.cuda([e2e.victim("replaced"), *plugins])
        self.assertIn(b"same address 1", result.out)
        self.check_victim([e2e.victim("replaced"), *plugins], DLHOOK_CAPTURE="cuda_launch")


class Failures(cuda_e2e.Case):
    FAILURES = ("cudaMalloc:2:2,cudaMemcpyAsync:1:700,cudaMemcpy:3:700,cudaLaunchKernel:1:98,"
                "cudaDeviceSynchronize:1:700")

    def test_status_is_recorded_and_returned(self):
        argv = [e2e.victim("fails"), "copies"]
        plain = self.plain(argv, DLHOOK_FAKE_FAIL=self.FAILURES)
        self.assertEqual(plain.code, 0, plain.err)
        self.assertIn(b"bad device 101\n", plain.out)
        self.assertIn(b"last error 101\nthen 0\n", plain.out)
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.check_victim(argv, host, DLHOOK_FAKE_FAIL=self.FAILURES)
                _, result = self.cuda(argv, host, DLHOOK_FAKE_FAIL=self.FAILURES)
                self.assertEqual(result.out, plain.out)

    def test_table_counts_failed_copies(self):
        run, _ = self.cuda([e2e.victim("fails"), "copies"], DLHOOK_FAKE_FAIL=self.FAILURES)
        self.assertEqual(sum(row["failed"] for row in run.table("copies")), 2)
        self.assertEqual(sum(row["failed"] for row in run.table("kernels")), 1)

    def test_failed_product_and_its_fallback(self):
        run, _ = self.check_victim([e2e.victim("fails"), "fallback"], DLHOOK_FAKE_FAIL="cublasLtMatmul:*:15")
        rows = [row for row in run.table("gemm") if row["kind"] == "gemm"]
        self.assertEqual(sum(row["failed"] for row in rows), 3)
        algorithms = [row for row in run.table("algorithms") if row["kind"] == "gemm"]
        self.assertEqual([row["calls"] for row in algorithms if row["chooser"] == "fallback"], [3])


class NoDriver(cuda_e2e.Case):
    def same(self, argv, **extra):
        plain = self.plain(argv, **extra)
        self.fresh_run()
        result = e2e.run(argv, env=self.environment("writer", **extra), cwd=self.folder)
        self.assertEqual((plain.code, plain.out, plain.err), (result.code, result.out, result.err))
        return result

    def test_no_device(self):
        result = self.same([e2e.victim("fails"), "start"], DLHOOK_FAKE_DEVICES=0)
        self.assertEqual(result.out, b"devices 100\ncount 0\n")
        self.assertFalse(os.path.exists(self.run_path))

    def test_driver_too_old(self):
        result = self.same([e2e.victim("fails"), "start"], TRY=1,
                           DLHOOK_FAKE_FAIL="cudaGetDeviceCount:*:35,cudaMalloc:*:35")
        self.assertEqual(result.out, b"devices 35\ncount -1\nmemory 35 (nil)\n")
        self.assertEqual([call.facts["status"] for call in cuda_e2e.Run(self.run_path).trace().calls], ["35"])

    def test_stub_driver(self):
        result = self.same([e2e.victim("driver"), "call", "13000", "0"], DLHOOK_FAKE_FAIL="cuInit:*:34")
        self.assertEqual((result.code, result.err), (90, b"cuInit: 34 instead of 0\n"))
        self.assertEqual(cuda_e2e.Run(self.run_path).trace().calls[-1].facts["status"], "34")

    def test_no_driver_at_all(self):
        result = self.same([e2e.victim("driver"), "call", "13000", "0"], generation="nothing")
        self.assertEqual(result.code, 91)
        self.assertFalse(os.path.exists(self.run_path))


class PartialCudnn(cuda_e2e.Case):
    def test_missing_functions_stay_missing(self):
        missing = ["cudnnBackendCreateDescriptor", "cudnnBackendUpdateCudaGraph", "cudnnGetTensorNdDescriptor",
                   "cudnnRNNForward"]
        argv = [e2e.victim("partial"), e2e.library("partial_cudnn"), "cudnnConvolutionForward", *missing]
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                run, result = self.cuda(argv, host)
                self.assertEqual(result.out.decode().splitlines()[:5],
                                 ["cudnnConvolutionForward there", *(f"{name} missing" for name in missing)])
                self.assert_calls(cuda_e2e.in_order(run.trace().calls), cuda_e2e.told(result.out))
                run.report("--table", "all")


class Ends(cuda_e2e.Case):
    CODES = {"kill": 137, "abort": 134, "_exit": 6, "exit": 7}

    def check(self, mode, host, delay):
        counter = os.path.join(self.folder, "counter")
        # Rings that hold all calls: this test is about commits, not about the drain's speed.
        run, _ = self.cuda([e2e.victim("ends"), mode, counter, str(delay)], host, expected_code=self.CODES[mode],
                           DLHOOK_RING_KIB=65536)
        with open(counter, "rb") as file:
            (finished,) = struct.unpack("<q", file.read(8))
        os.remove(counter)
        trace = run.trace()
        self.assert_no_loss(trace)
        (first,) = [call.thread_id for call in trace.calls if call.function == "cudaMalloc"]
        calls = cuda_e2e.in_order([call for call in trace.calls if call.thread_id != first])
        copies = [int(call.facts["copy.bytes"]) for call in calls if call.function == "cudaMemcpyAsync"]
        self.assertEqual(copies, list(range(1, len(copies) + 1)))
        if mode == "exit":  # calls during the process's destructors are not recorded
            self.assertLessEqual(len(copies), finished + 1)
        else:
            self.assertIn(len(copies), (finished, finished + 1))
        self.assertEqual([call.sequence for call in calls], list(range(1, len(calls) + 1)))
        run.report("--table", "all")
        return finished

    def test_work_in_flight(self):
        total = 0
        for mode in self.CODES:
            for host in e2e.HOSTS:
                for delay in (300, 3000, 30000):
                    with self.subTest(mode=mode, host=host, delay=delay):
                        total += self.check(mode, host, delay)
        self.assertGreater(total, 100)

    def test_fork_after_start(self):
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                run, result = self.cuda([e2e.victim("ends"), "fork", os.path.join(self.folder, "counter"), "0"], host)
                self.assertEqual(result.out, b"child 5\n")
                sizes = {}
                for trace in run.traces():
                    self.assert_no_loss(trace)
                    calls = cuda_e2e.in_order(trace.calls)
                    copies = [call for call in calls if call.function == "cudaMemcpyAsync"]
                    kernels = [call.facts.get("launch.kernel") for call in calls if call.function == "cudaLaunchKernel"]
                    self.assertEqual(kernels, ["step_kernel"] * len(copies))
                    self.assertEqual({call.facts["copy.host_memory"] for call in copies}, {"PAGEABLE"})
                    sizes[len(copies)] = [int(call.facts["copy.bytes"]) for call in copies]
                self.assertEqual(sizes, {40: list(range(1, 41)), 30: list(range(1001, 1031))})


if __name__ == "__main__":
    cuda_e2e.main()
