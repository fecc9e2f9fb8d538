"""Programs that reach the driver only through cuGetProcAddress: statically linked runtimes."""

import os
import subprocess

import cuda_e2e
import e2e

# The driver's function for a name, by CUDA version (cudaTypedefs.h, cuda.h): name, version, per-thread streams, symbol.
VARIANTS = (
    ("cuMemAlloc", 11040, 0, "cuMemAlloc_v2"),
    ("cuMemcpyHtoDAsync", 11040, 0, "cuMemcpyHtoDAsync_v2"),
    ("cuMemcpyHtoDAsync", 13000, 1, "cuMemcpyHtoDAsync_v2"),
    ("cuMemcpyHtoDAsync", 12000, 2, "cuMemcpyHtoDAsync_v2_ptsz"),
    ("cuCtxCreate", 11030, 0, "cuCtxCreate_v2"),
    ("cuCtxCreate", 12000, 0, "cuCtxCreate_v3"),
    ("cuCtxCreate", 13000, 0, "cuCtxCreate_v4"),
    ("cuGraphAddKernelNode", 11080, 0, "cuGraphAddKernelNode"),
    ("cuGraphAddKernelNode", 12000, 0, "cuGraphAddKernelNode_v2"),
    ("cuGetProcAddress", 11030, 0, "cuGetProcAddress"),
    ("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"),
    ("cuEventElapsedTime", 12000, 0, "cuEventElapsedTime"),
    ("cuEventElapsedTime", 12080, 0, "cuEventElapsedTime_v2"),
    ("cuMemPrefetchAsync", 12000, 2, "cuMemPrefetchAsync_ptsz"),
    ("cuMemPrefetchAsync", 13000, 2, "cuMemPrefetchAsync_v2_ptsz"),
    ("cuGraphAddNode", 12020, 0, "cuGraphAddNode"),
    ("cuGraphAddNode", 12030, 0, "cuGraphAddNode_v2"),
    ("cuStreamBeginCapture", 11040, 0, "cuStreamBeginCapture_v2"),
    ("cuStreamBeginCapture", 14000, 0, "cuStreamBeginCapture_v2"),  # newer than the tables
)


class Variants(cuda_e2e.Case):
    def test_every_version_and_kind_of_stream(self):
        for version in (11040, 12000, 12080, 13000, 14000):
            for flags in (0, 1, 2):
                with self.subTest(version=version, flags=flags):
                    self.check_victim([e2e.victim("driver"), "call", str(version), str(flags)])

    def test_launcher_and_rings(self):
        for host in ("launcher", "rings"):
            with self.subTest(host=host):
                self.check_victim([e2e.victim("driver"), "call", "13000", "2"], host)

    def test_arguments_arrive_unchanged(self):
        argv = [e2e.victim("driver"), "call", "12080", "2"]
        plain = self.plain(argv)
        self.assertEqual(plain.code, 0, plain.err)
        without = cuda_e2e.fake_log.stable(self.log())
        self.cuda(argv)
        ours = {"cuPointerGetAttribute", "cuFuncGetName", "cuGetProcAddress_v2", "cuStreamIsCapturing",
                *cuda_e2e.fake_log.DEVICE_QUESTIONS}
        self.assertEqual([line for line in cuda_e2e.fake_log.stable(self.log()) if line.split()[1] not in ours],
                         [line for line in without if line.split()[1] not in ours])

    def test_a_variant_that_no_table_knows(self):
        argv = [e2e.victim("newer"), e2e.library("newer_driver")]
        plain = self.plain(argv)
        self.assertIn(b"v9 77 0.5 0x2000\nleft 76\n", plain.out)
        run, result = self.cuda(argv)
        self.assertEqual(result.out, plain.out)
        trace = run.trace()
        self.assert_calls(cuda_e2e.in_order(trace.calls), cuda_e2e.told(result.out))
        lost = {e2e.one(loss, "reason"): e2e.one(loss, "calls", 1) for loss in trace.losses}
        self.assertIn("DLSYM_PLAIN_POINTER", lost)  # for the one that has another argument list


def exported(library):
    text = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].split("@")[0] for line in text.splitlines()}


class Requests(cuda_e2e.Case):
    def answers(self, requests):
        """[(request, symbol returned by the driver, whether dlhook's function was returned instead)]"""
        self.fresh_run()
        asked = "".join(f"{name} {version} {flags}\n" for name, version, flags in requests).encode()
        result = e2e.run([e2e.victim("driver")], env=self.environment("writer"), cwd=self.folder, stdin=asked)
        self.assertEqual(result.code, 0, result.err)
        objects = [line.split()[-1] for line in result.out.decode().splitlines()]
        logged = [call for call in self.log() if call.function == "cuGetProcAddress_v2"]
        self.assertEqual(len(objects), len(requests))
        return [(request, call.note["symbol"], where.startswith("libdlhook"))
                for request, call, where in zip(requests, logged, objects, strict=True)]

    def test_answers(self):
        answers = self.answers([variant[:3] for variant in VARIANTS])
        self.assertEqual([(*request, symbol) for request, symbol, _ in answers], list(VARIANTS))
        self.assertEqual([answer for answer in answers if not answer[2]], [])

    def test_what_the_genuine_static_runtime_asks_for(self):
        program = e2e.victim("static_runtime")
        if not os.path.exists(program):
            self.skipTest("no libcudart_static.a at build time")
        # The fakes lack the driver's private tables, so the runtime must fail at the start.
        run, result = self.cuda([program], DLHOOK_FAKE_FAIL="cuInit:1:100")
        self.assertEqual(result.out, b"count 100\nmalloc 100\ncopy 100\n")
        calls = run.trace().calls
        self.assertEqual([call.facts.get("status", "0") for call in calls if call.function == "cuInit"], ["100"])
        log = [call for call in self.log() if call.function == "cuGetProcAddress_v2"]
        self.assertGreater(len(log), 300)
        requests = [(call.arguments["symbol"], call.number("version"), call.number("flags")) for call in log
                    if call.arguments["symbol"]]
        hooked = exported(e2e.SHIM)
        wrong = [(request, symbol) for request, symbol, ours in self.answers(requests) if ours != (symbol in hooked)]
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    cuda_e2e.main()
