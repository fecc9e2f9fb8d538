"""A JVM whose native methods call OpenBLAS: from its own threads, from a local scope, and after its launcher has
ended."""

import os
import shutil
import time
import unittest

import e2e

JAVA = shutil.which("java")
HAVE_JVM = bool(JAVA) and os.path.exists(os.path.join(e2e.VICTIMS, "Multiply.class"))


def expected(calls):
    return {("cblas_sgemm", 8, 9, 10, "NT"): calls, ("dgemm_", 4, 5, 6, "TN"): calls}


@unittest.skipUnless(HAVE_JVM, "no java, or no javac at build time")
class Jvm(e2e.Case):
    def java(self, *arguments):
        return [JAVA, "-cp", e2e.VICTIMS, "Multiply", e2e.library("jni"), *arguments]

    def test_its_threads(self):
        for end, code in (("exit", 7), ("return", 0)):
            argv = self.java("3", "40", end)
            plain = e2e.run(argv)
            self.assertEqual(plain.code, code, plain.err)
            for host in e2e.HOSTS:
                with self.subTest(end=end, host=host):
                    self.fresh_run()
                    self.assert_same_behaviour(plain, self.under(host, argv), host)
                    trace = e2e.Run(self.run_path).trace()
                    self.assert_no_loss(trace)
                    self.assert_problems(trace.top_calls(), expected(120))
                    self.assertEqual(len({call.thread_id for call in trace.calls}), 3)

    def test_it_outlives_its_launcher(self):
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.fresh_run()
                done = self.run_path + ".done"
                command = " ".join(self.java("2", "30", "exit", "$$", done))
                result = self.under(host, ["/bin/sh", "-c", f"{command} > {done}.out 2>&1 &"])
                self.assertEqual(result.code, 0, result.err)
                deadline = time.monotonic() + 120
                while not os.path.exists(done) and time.monotonic() < deadline:
                    time.sleep(0.05)
                time.sleep(0.5)  # the JVM is exiting; nothing below depends on how far it is
                with open(done + ".out", encoding="utf-8") as output:
                    self.assertRegex(output.read(), r"^sum [0-9.]+\n$")
                trace = e2e.Run(self.run_path).trace()
                self.assert_no_loss(trace)
                self.assert_problems(trace.top_calls(), expected(60))


@unittest.skipUnless(HAVE_JVM, "no java, or no javac at build time")
class Samples(e2e.Case):
    def test_compiled_methods(self):
        keep = [f"-XX:CompileCommand=dontinline,Burn.{name}" for name in ("often", "seldom")]
        argv = [JAVA, "-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", "-XX:CompileCommand=quiet", *keep, "-cp",
                e2e.VICTIMS, "Burn"]
        plain = e2e.run(argv)
        result = self.under("launcher", argv, DLHOOK_SAMPLE=500)
        (trace,) = e2e.Run(self.run_path).traces()
        told = f"/tmp/perf-{e2e.one(trace.process, 'pid')}.map"
        self.assertEqual((plain.code, result.code, result.out, os.path.exists(told)), (0, 0, plain.out, True))
        rows = {row["function"]: row for row in e2e.Run(self.run_path).table("hotspots")}
        os.remove(told)
        both = rows["Burn.often"]["self_time"] + rows["Burn.seldom"]["self_time"]
        self.assertEqual(rows["Burn.often"]["library"], "[jit]")
        self.assertAlmostEqual(rows["Burn.often"]["self_time"] / both, 0.75, delta=0.2)


if __name__ == "__main__":
    e2e.main()
