"""Two builds of dlhook meet: a wheel's library and a host's command, or both libraries in one process. Every call is recorded once, or
it is said which command can read it; the program notices nothing.

The other build is a copy of libdlhook.so whose numbers of the rings' layout and of its hooks are different.
"""

import os
import shutil
import signal
import struct
import time

import e2e
from test_launchers import CALLS, LaunchersCase


class OtherBuilds(LaunchersCase):
    def setUp(self):
        super().setUp()
        self.prefix = os.path.join(self.folder, "other")
        for folder in ("lib", "bin"):
            os.makedirs(os.path.join(self.prefix, folder))
        self.version = e2e.run([e2e.DLHOOK, "--version"]).out.decode().split()[1]
        self.library = os.path.join(self.prefix, "lib", "libdlhook.so")
        self.command = os.path.join(self.prefix, "bin", "dlhook")
        shutil.copy(e2e.DLHOOK, self.command)
        with open(e2e.SHIM, "rb") as file:
            code = file.read()
        for number in self.numbers():
            self.assertIn(number, code)
            code = code.replace(number, bytes(byte ^ 0x55 for byte in number))
        with open(self.library, "wb") as file:
            file.write(code)

    def numbers(self):
        """Of the layout and the hooks, as they are in the code: from rings that a process leaves."""
        left = e2e.run([e2e.victim("stepwise")], env=self.preloading(e2e.SHIM, DLHOOK_DRAIN="none"), stdin=b"1\n")
        self.assertEqual(left.code, 0, left.err)
        (link,) = [name for name in os.listdir(self.run_path) if name.endswith(".ring")]
        ring = os.readlink(os.path.join(self.run_path, link))
        with open(ring, "rb") as file:
            _, layout, _, hooks = struct.unpack("<QIIQ", file.read(24))
        os.remove(ring)
        shutil.rmtree(self.run_path)
        return struct.pack("<I", layout), struct.pack("<Q", hooks)

    def preloading(self, *libraries, **extra):
        return e2e.clean_environment(LD_PRELOAD=":".join(libraries), DLHOOK_OUT=self.run_path, **extra)

    def said(self, *words):
        result = e2e.run([e2e.DLHOOK, *words], cwd=self.folder)
        return result.code, " ".join((result.out + result.err).decode().split())

    def advice(self, name):
        return (f"{name}: recorded by another build of dlhook ({self.version}, {self.library}), so this one can't access what "
                f"its process has in memory: use {self.command}")

    def test_both_in_one_process(self):
        plugins = [e2e.library("own_a"), e2e.library("own_b")]
        for libraries in ((e2e.SHIM, self.library), (self.library, e2e.SHIM)):
            for sample in ({}, {"DLHOOK_SAMPLE": 99}):
                self.fresh_run()
                result = e2e.run([e2e.victim("stepwise")], env=self.preloading(*libraries, **sample), stdin=b"%d\n" % CALLS)
                self.assertEqual((result.code, result.out, result.err), (0, b"%d done\n" % CALLS, b""))
                self.check(1, CALLS)
            self.fresh_run()  # the libraries of a plugin
            for victim, *words in (("opened", "5"), ("two_libraries", "5", *plugins), ("reload", "5", *plugins)):
                plain = e2e.run([e2e.victim(victim), *words])
                self.assertEqual(plain.code, 0, plain)
                self.assertEqual(e2e.run([e2e.victim(victim), *words], env=self.preloading(*libraries)), plain)

    def test_launched_with_the_other_preloaded(self):
        result = e2e.run([e2e.DLHOOK, "run", "-o", self.run_path, "--", e2e.victim("stepwise")], stdin=b"%d\n" % CALLS,
                         env=e2e.clean_environment(LD_PRELOAD=self.library))
        self.assertEqual((result.code, result.out), (0, b"%d done\n" % CALLS), result.err)
        self.check(1, CALLS)

    def test_the_program_replaces_the_library(self):
        calls = 60000  # more than its rings hold
        result = e2e.run([e2e.DLHOOK, "run", "-o", self.run_path, "--", "env", f"LD_PRELOAD={self.library}", e2e.victim("stepwise")],
                         stdin=b"%d\n" % calls)
        self.assertEqual((result.code, result.out), (0, b"%d done\n" % calls), result.err)
        self.assertIn(f"{calls} calls recorded".encode(), result.err)
        self.check(1, calls)

    def test_while_it_lives_and_after_it_was_killed(self):
        process = e2e.start([e2e.victim("stepwise")], env=self.preloading(self.library))
        self.step(process)
        (name,) = [name for name in os.listdir(self.run_path) if name.endswith(".dlh")]
        while os.path.getsize(os.path.join(self.run_path, name)) == 0:
            time.sleep(0.01)  # nothing is written yet
        self.assertEqual(self.said("ctl", "stop", self.run_path), (2, f"dlhook: ctl: {self.advice(name)}"))
        code, text = self.said("report", self.run_path, "--table", "ops")
        self.assertEqual(code, 0)
        self.assertIn(self.advice(name), text)
        ring = os.readlink(os.path.join(self.run_path, name.replace(".dlh", ".ring")))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        code, text = self.said("report", self.run_path, "--table", "ops")
        self.assertEqual(code, 0)
        self.assertIn(self.advice(name), text)
        said = self.said("doctor")[1]  # of those that other tests left, too
        self.assertIn(f"another build of dlhook ({self.version}, {self.library})", said)
        self.assertIn("can be taken only by that build's dlhook report", said)
        self.assertTrue(os.path.exists(ring), "its records are still there")
        os.remove(ring)


if __name__ == "__main__":
    e2e.main()
