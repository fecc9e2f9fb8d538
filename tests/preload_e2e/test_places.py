"""Bad places for the output: the host never notices, nothing is lost in silence.

The file systems are mounted in a mount namespace of the test's own, so nothing is left behind however the test ends.
"""

import os
import shutil
import signal
import subprocess
import sys
import unittest

import e2e

CALL = ("cblas_sgemm", 10, 11, 12, "NT")
PRIVATE = os.environ.get("DLHOOK_TEST_PRIVATE_MOUNTS")


def enter_private_mounts():
    """Starts this test again where it may mount; returns only where that is impossible."""
    for unshare in (["unshare", "-m"], ["unshare", "-r", "-m"]):
        if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode == 0:
            os.environ["DLHOOK_TEST_PRIVATE_MOUNTS"] = "1"
            os.execvp("unshare", [*unshare, sys.executable, *sys.argv])


class PlaceCase(e2e.Case):
    """The run is asked to be at self.run_path."""

    def mount(self, options):
        place = os.path.join(self.folder, "mount")
        os.mkdir(place)
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "dlhook-test", place], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", place], check=False)
        return place

    def fallback(self):
        """Where a run goes whose folder cannot be written (preload/core/fallback_folder.h)."""
        digest = 0xcbf29ce484222325
        for byte in os.fsencode(self.run_path):
            digest = (digest ^ byte) * 0x100000001b3 % 2**64
        return f"/tmp/dlhook-{os.getuid()}/{digest:016x}"

    def found(self):
        """The run folders that exist now: where asked for, or the fallback."""
        self.addCleanup(shutil.rmtree, self.fallback(), ignore_errors=True)
        paths = [self.run_path, self.fallback()]
        return [e2e.Run(path) for path in paths if os.path.isdir(path) and os.listdir(path)]

    def stepwise(self, host, calls):
        argv, stdin = [e2e.victim("stepwise")], f"{calls}\n{calls}\n".encode()
        self.assert_same_behaviour(e2e.run(argv, stdin=stdin), self.under(host, argv, stdin=stdin), host)

    def check_refused(self, host, message, calls=200):
        """All calls are there, in another place, and the report says why."""
        (run,) = self.found()
        self.assertEqual(run.path, self.fallback())
        trace = run.trace()
        self.assertEqual(len(trace.calls), calls)
        self.assertEqual(e2e.one(trace.header, "requested_output"), self.run_path)
        self.assertIn(message, e2e.one(trace.header, "output_refusal"))
        # The report is found under the name that the user gave (unless that is a file), and says why it lies elsewhere.
        name = run.path if os.path.isfile(self.run_path) else self.run_path
        text = e2e.run([e2e.DLHOOK, "report", name]).out.decode()
        self.assertIn(message, text)

    def step(self, process, calls):
        process.stdin.write(f"{calls}\n".encode())
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), f"{calls} done\n".encode())


class Places(PlaceCase):
    def test_missing_folders_are_made(self):
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.run_path = os.path.join(self.folder, host, "a", "b")
                self.stepwise(host, 100)
                self.assertEqual(len(e2e.Run(self.run_path).trace().calls), 200)

    def test_a_file_in_the_way(self):
        self.run_path = os.path.join(self.folder, "file")
        with open(self.run_path, "w", encoding="ascii") as file:
            file.write("mine")
        self.stepwise("writer", 100)
        with open(self.run_path, encoding="ascii") as file:
            self.assertEqual(file.read(), "mine")
        self.check_refused("writer", "Not a directory")

    @unittest.skipUnless(PRIVATE, "mounting is not allowed here")
    def test_read_only(self):
        self.run_path = os.path.join(self.mount("ro"), "run")
        self.stepwise("writer", 100)
        self.check_refused("writer", "Read-only file system")

    @unittest.skipUnless(PRIVATE, "mounting is not allowed here")
    def test_launcher_refuses_a_read_only_place(self):
        self.run_path = os.path.join(self.mount("ro"), "run")
        result = self.under("launcher", [e2e.victim("stepwise")], stdin=b"5\n")
        if result.code == 2:  # said before the program was started
            self.assertIn(b"Read-only file system", result.err)
            self.assertEqual(result.out, b"")
        else:
            self.assertEqual((result.code, result.out), (0, b"5 done\n"))
            self.check_refused("launcher", "Read-only file system", calls=5)

    @unittest.skipUnless(PRIVATE, "mounting is not allowed here")
    def test_full(self):
        for host in ("launcher", "writer"):
            with self.subTest(host=host):
                place = self.mount("size=1m")
                self.run_path = os.path.join(place, "run")
                self.stepwise(host, 150000)
                trace = e2e.Run(self.run_path).trace()
                self.assertTrue(trace.calls)
                self.assertEqual(len(trace.calls) + trace.loss_count(), 300000)
                self.assertIn("OUTPUT_FULL", trace.loss_reasons())
                subprocess.run(["umount", "-l", place], check=True)
                os.rmdir(place)

    @unittest.skipUnless(PRIVATE, "mounting is not allowed here")
    def test_full_from_the_start(self):
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                place = self.mount("size=1m")
                with open(os.path.join(place, "filler"), "wb") as filler:
                    try:
                        filler.write(b"x" * (2 << 20))
                        filler.flush()
                    except OSError:
                        pass
                self.run_path = os.path.join(place, "run")
                self.stepwise(host, 1000)
                subprocess.run(["umount", "-l", place], check=True)
                os.rmdir(place)

    @unittest.skipUnless(PRIVATE, "mounting is not allowed here")
    def test_no_room_for_rings(self):
        # The rings prefer /dev/shm; here it is as full as a container's often is.
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "dlhook-test", "/dev/shm"], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", "/dev/shm"], check=False)
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.fresh_run()
                self.stepwise(host, 1000)
                traces = [trace for run in self.found() for trace in run.traces()]
                self.assertEqual(sum(len(t.calls) + t.loss_count() for t in traces), 2000)
                shutil.rmtree(self.run_path, ignore_errors=True)

    def test_removed_during_the_run(self):
        for host in ("launcher", "writer"):
            with self.subTest(host=host):
                self.fresh_run()
                process = e2e.start(self.command(host, [e2e.victim("stepwise")]), cwd=self.folder,
                                    env=self.environment(host))
                self.step(process, 1000)
                shutil.rmtree(self.run_path, ignore_errors=True)
                self.step(process, 1000)
                process.stdin.close()
                self.assertEqual(process.stdout.read(), b"")
                self.assertEqual(process.wait(60), 0)
                error = process.stderr.read()
                if host == "writer":
                    self.assertEqual(error, b"")
                for run in self.found():
                    self.assertIn("OUTPUT_GONE", run.trace().loss_reasons())
                process.stdout.close()
                process.stderr.close()


class CollectorKilled(PlaceCase):
    def collect(self, before, after, **extra):
        """`before` calls, SIGKILL to `dlhook run`, `after` calls; the trace."""
        self.fresh_run()
        process = e2e.start(self.command("launcher", [e2e.victim("stepwise")]),
                            env=self.environment("launcher", **extra), cwd=self.folder)
        self.step(process, before)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        self.step(process, after)
        process.stdin.close()
        self.assertEqual(process.stdout.read(), b"")  # end of file: the host is gone, too
        error = process.stderr.read()
        process.stdout.close()
        process.stderr.close()
        self.assertEqual(error, b"")
        return e2e.Run(self.run_path)

    def test_what_fits_into_the_rings_is_kept(self):
        trace = self.collect(300, 200).trace()
        self.assertEqual(len(trace.calls), 500)

    def test_the_rest_is_counted_and_the_report_says_why(self):
        run = self.collect(300, 200000, DLHOOK_RING_KIB=64)
        trace = run.trace()
        self.assertEqual(len(trace.calls) + trace.loss_count(), 200300)
        self.assertIn("COLLECTOR_GONE", trace.loss_reasons())
        text = e2e.run([e2e.DLHOOK, "report", run.path]).out.decode().lower()
        self.assertTrue("collector" in text or "launcher" in text, text[:3000])


if __name__ == "__main__":
    if not PRIVATE:
        enter_private_mounts()
    e2e.main()
