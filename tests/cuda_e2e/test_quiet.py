"""Processes in which dlhook must be invisible, and DLHOOK_CAPTURE's families."""

import os
import re
import subprocess

import cuda_e2e
import e2e

GPU_NAME = re.compile(r"^(__cuda|cuda[A-Z]|cu[A-Z]|cublas|cudnn|nccl|cufft|cusparse|cusolver|nvrtc|MPI_)")


def hooked_names():
    text = subprocess.run(["nm", "-D", "--defined-only", e2e.SHIM], capture_output=True, text=True, check=True).stdout
    return sorted(name for line in text.splitlines() if GPU_NAME.match(name := line.split()[-1].split("@")[0]))


class CpuOnly(cuda_e2e.Case):
    def test_no_name_appears(self):
        names = hooked_names()
        self.assertGreater(len(names), 1500)
        argv = [e2e.victim("quiet"), "names"]
        asked = "\n".join(names).encode()
        plain = e2e.run(argv, cwd=self.folder, stdin=asked)
        self.assertEqual(plain.out, f"{len(names)} asked, 0 there\n".encode())
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.fresh_run()
                before = sorted(os.listdir(self.folder))  # the launcher leaves a run without calls
                result = self.under(host, argv, stdin=asked)
                self.assert_same_behaviour(plain, result, host)
                if host != "launcher":
                    self.assertEqual(sorted(os.listdir(self.folder)), before)


class Families(cuda_e2e.Case):
    def test_noise_alone_leaves_nothing(self):
        self.fresh_run()
        result = e2e.run([e2e.victim("quiet"), "noise"], env=self.environment("writer"), cwd=self.folder)
        self.assertEqual(result.code, 0, result.err)
        self.assertEqual(sorted(os.listdir(self.folder)), ["fakes.log"])

    def test_noise_on_request(self):
        for capture in ("cuda_noise", "all", "cuda_copy,cuda_noise"):
            with self.subTest(capture=capture):
                _, calls = self.check_victim([e2e.victim("quiet"), "noise"], DLHOOK_CAPTURE=capture)
                self.assertEqual({call.family for call in calls}, {"cuda_noise"})

    def test_setup_of_cudnn_on_request(self):
        run, _ = self.cuda([e2e.victim("reused"), "3"], DLHOOK_CAPTURE="cudnn,cudnn_setup")
        calls = cuda_e2e.in_order(run.trace().calls)
        self.assertEqual({call.family for call in calls}, {"cudnn", "cudnn_setup"})
        setup = [call for call in calls if call.family == "cudnn_setup"]
        # dlhook queries a plan's engine with its own descriptors: only the program's calls are recorded.
        plain = self.plain([e2e.victim("reused"), "3"])
        self.assertEqual(plain.code, 0)
        names = [call.function for call in self.log() if call.function.startswith("cudnnBackend")]
        self.assertEqual([call.function for call in setup], [name for name in names if name != "cudnnBackendExecute"])

    def test_one_family_less(self):
        run, _ = self.cuda([e2e.victim("copies")], DLHOOK_CAPTURE="-cuda_copy,-cuda_stream", DLHOOK_FAKE_DEVICES=2)
        self.assertEqual({call.family for call in run.trace().calls}, {"cuda_memory"})

    def test_everything_equals_the_log(self):
        for argv in ([e2e.victim("copies")], [e2e.victim("launches")]):
            with self.subTest(argv=argv):
                self.assertEqual(self.plain(argv, DLHOOK_FAKE_DEVICES=2).code, 0)
                logged = [call.function for call in self.log()]
                run, _ = self.cuda(argv, DLHOOK_CAPTURE="all", DLHOOK_FAKE_DEVICES=2)
                self.assertEqual([call.function for call in cuda_e2e.in_order(run.trace().top_calls())], logged)


if __name__ == "__main__":
    cuda_e2e.main()
