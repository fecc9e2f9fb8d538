"""Hosts with a sanitizer's runtime, under valgrind, with another allocator: they start, end and print as without
dlhook, every call is recorded, a real fault is still found, and nothing in dlhook is reported. Victims are compiled
here: each needs its flags.
"""

import os
import re
import shutil
import tempfile

import e2e

SOURCES = os.path.join(e2e.HERE, "victims")
CALLS = 130  # of each run of the victim, both processes

# The runtimes' reports of a fault, without numbers that differ between runs.
FINDING = re.compile(rb"SUMMARY: \w+: [a-z -]+|runtime error: .*|\d+ byte\(s\) leaked")


class Sanitizers(e2e.Case):
    @classmethod
    def setUpClass(cls):
        cls.built = tempfile.mkdtemp(prefix="dlhook-sanitized-")
        cls.addClassCleanup(shutil.rmtree, cls.built)

    def build(self, name, *flags, compiler="cc"):
        if not shutil.which(compiler):
            self.skipTest(f"no {compiler}")
        path = os.path.join(self.built, name)
        blas = e2e.library("tiny_blas")
        built = e2e.run([compiler, "-g", "-O1", *flags, "-o", path, os.path.join(SOURCES, "sanitized.c"), blas,
                         f"-Wl,-rpath,{os.path.dirname(blas)}"])
        if built.code != 0:
            self.skipTest(f"{compiler} {' '.join(flags)}: {built.err.decode()[-300:]}")
        return path

    def check(self, argv, hosts=("launcher", "writer"), **variables):
        """Under `hosts` with `variables`; LD_PRELOAD may contain {shim} for the shim, otherwise that comes first."""
        there_before = {name: value.replace("{shim}", "").strip(":") for name, value in variables.items()}
        plain = e2e.run(argv, env=e2e.clean_environment(**there_before))
        if plain.out != b"done 1.5\nchild 3\n":
            self.skipTest(f"{argv[0]} does not run here without dlhook: {plain.err[-300:].decode()}")
        for host in hosts:
            with self.subTest(host=host, **variables):
                self.fresh_run()
                env = self.environment(host, **there_before)
                if host != "launcher":
                    preload = variables.get("LD_PRELOAD", "{shim}")
                    env["LD_PRELOAD"] = preload.replace("{shim}", e2e.SHIM) if "{shim}" in preload else e2e.SHIM + ":" + preload
                result = e2e.run(self.command(host, argv), env=env, cwd=self.folder)
                self.assertEqual((result.code, result.out), (plain.code, plain.out), result.err.decode())
                self.assertEqual(set(FINDING.findall(result.err)), set(FINDING.findall(plain.err)))
                if not plain.err and host != "launcher":
                    self.assertEqual(result.err, b"")
                traces = e2e.Run(self.run_path).traces()
                self.assertEqual([trace.loss_count() for trace in traces], [0, 0])
                self.assertEqual(sum(len(trace.calls) for trace in traces), CALLS)
        return plain

    def test_thread_sanitizer(self):
        victim = self.build("thread", "-fsanitize=thread")
        self.check([victim, "none"])
        self.assertIn(b"data race", self.check([victim, "race"], hosts=["writer"]).err)

    def test_thread_sanitizer_linked_statically(self):
        self.check([self.build("static_thread", "-fsanitize=thread", "-static-libtsan"), "none"])

    def test_address_sanitizer(self):
        """Its shared runtime rejects libraries preloaded before it, unless told not to: dlhook run does."""
        victim = self.build("address", "-fsanitize=address")
        self.check([victim, "none"], hosts=["launcher"])
        runtime = self.runtime("libasan.so")
        for variables in ({"ASAN_OPTIONS": "verify_asan_link_order=0"}, {"LD_PRELOAD": f"{runtime}:{{shim}}"}):
            self.check([victim, "none"], hosts=["writer"], **variables)
        self.assertIn(b"heap-buffer-overflow", self.check([victim, "overflow"], hosts=["launcher"]).err)

    def test_address_sanitizer_linked_statically(self):
        victim = self.build("static_address", "-fsanitize=address", "-static-libasan")
        self.check([victim, "none"])
        self.assertIn(b"heap-buffer-overflow", self.check([victim, "overflow"], hosts=["writer"]).err)
        self.assertIn(b"leaked", self.check([victim, "leak"], hosts=["writer"]).err)

    def test_address_sanitizer_preloaded(self):
        victim = self.build("plain")
        runtime = self.runtime("libasan.so")
        self.check([victim, "none"], hosts=["writer"], LD_PRELOAD=f"{runtime}:{{shim}}")
        self.check([victim, "none"], LD_PRELOAD=runtime, ASAN_OPTIONS="verify_asan_link_order=0")

    def test_leak_sanitizer(self):
        victim = self.build("leak", "-fsanitize=leak")
        self.check([victim, "none"])
        self.assertIn(b"leaked", self.check([victim, "leak"], hosts=["writer"]).err)

    def test_undefined_behaviour_sanitizer(self):
        victim = self.build("undefined", "-fsanitize=undefined")
        self.check([victim, "none"])
        self.assertIn(b"runtime error", self.check([victim, "undefined"], hosts=["writer"]).err)

    def test_of_clang(self):
        clang = next((name for name in ("clang", "clang-14", "clang-16", "clang-19") if shutil.which(name)), "clang")
        for kind in ("thread", "address", "memory", "undefined"):
            with self.subTest(kind=kind):
                self.check([self.build("clang_" + kind, f"-fsanitize={kind}", compiler=clang), "none"])

    def test_valgrind(self):
        if not shutil.which("valgrind"):
            self.skipTest("no valgrind")
        victim = self.build("plain")
        for tool in ("memcheck", "helgrind", "drd"):
            with self.subTest(tool=tool):
                self.check(["valgrind", "-q", f"--tool={tool}", "--error-exitcode=9", victim, "none"], hosts=["writer"])

    def test_allocators(self):
        victim = self.build("plain")
        for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4"):
            with self.subTest(name=name):
                if name.encode() not in e2e.run(["/sbin/ldconfig", "-p"]).out:
                    self.skipTest(f"no {name}")
                self.check([victim, "none"], LD_PRELOAD=name)
                self.check([victim, "none"], hosts=["writer"], LD_PRELOAD=f"{name}:{{shim}}")

    def runtime(self, name):
        path = e2e.run(["cc", f"-print-file-name={name}"]).out.decode().strip()
        if not os.path.isabs(path):
            self.skipTest(f"no {name}")
        return os.path.realpath(path)


if __name__ == "__main__":
    e2e.main()
