"""Bad places for the output: the host is unaffected, and every loss is reported.

The file systems are mounted in the test's own mount namespace, so nothing is left behind however the test ends.
"""

import glob
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
import unittest

import e2e

CALL = ("cblas_sgemm", 10, 11, 12, "NT")
PRIVATE = os.environ.get("DLHOOK_TEST_PRIVATE_MOUNTS")


def enter_private_mounts():
    """Starts this test again with the permission to mount; returns only if that is impossible."""
    for unshare in (["unshare", "-m"], ["unshare", "-r", "-m"]):
        if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode == 0:
            os.environ["DLHOOK_TEST_PRIVATE_MOUNTS"] = "1"
            os.execvp("unshare", [*unshare, sys.executable, *sys.argv])


class PlaceCase(e2e.Case):
    """The run is requested at self.run_path."""

    def mount(self, options):
        place = os.path.join(self.folder, "mount")
        os.mkdir(place)
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "dlhook-test", place], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", place], check=False)
        return place

    def fallback(self):
        """The place of a run whose folder cannot be written (preload/format/folders.h)."""
        digest = 0xcbf29ce484222325
        for byte in os.fsencode(self.run_path):
            digest = (digest ^ byte) * 0x100000001b3 % 2**64
        return f"/tmp/dlhook-{os.getuid()}/{digest:016x}"

    def found(self):
        """The existing run folders: the requested one, or the fallback."""
        self.addCleanup(shutil.rmtree, self.fallback(), ignore_errors=True)
        paths = [self.run_path, self.fallback()]
        return [e2e.Run(path) for path in paths if os.path.isdir(path) and os.listdir(path)]

    def stepwise(self, host, calls):
        """The output on stderr."""
        argv, stdin = [e2e.victim("stepwise")], f"{calls}\n{calls}\n".encode()
        result = self.under(host, argv, stdin=stdin)
        self.assert_same_behaviour(e2e.run(argv, stdin=stdin), result, host)
        return result.err

    def check_last_line(self, error, trace):
        """`dlhook run` reports what the trace contains, and what is lost; so does the footer."""
        calls, lost = re.search(rb"dlhook: (\d+) calls recorded(?:, (\d+) lost)?[^\n]*\n$", error).groups(b"0")
        self.assertEqual((int(calls), int(lost)), (len(trace.calls), trace.loss_count()))
        self.assertEqual(e2e.one(trace.footer, "calls", 0), len(trace.calls))

    def check_refused(self, host, message, calls=200):
        """All calls are there, in another place, and the report gives the reason."""
        (run,) = self.found()
        self.assertEqual(run.path, self.fallback())
        trace = run.trace()
        self.assertEqual(len(trace.calls), calls)
        self.assertEqual(e2e.one(trace.header, "requested_output"), self.run_path)
        self.assertIn(message, e2e.one(trace.header, "output_refusal"))
        # The report is found under the name that the user gave (unless that is a file), and explains its location.
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
        if result.code == 2:  # reported before the program was started
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
                error = self.stepwise(host, 150000)
                trace = e2e.Run(self.run_path).trace()
                if host == "launcher":
                    self.check_last_line(error, trace)
                self.assertTrue(trace.calls)
                self.assertEqual(trace.known_count(), 300000)
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
        # The rings prefer /dev/shm; here it is full, as often in containers.
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "dlhook-test", "/dev/shm"], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", "/dev/shm"], check=False)
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.fresh_run()
                self.stepwise(host, 1000)
                traces = [trace for run in self.found() for trace in run.traces()]
                self.assertEqual(sum(t.known_count() for t in traces), 2000)
                shutil.rmtree(self.run_path, ignore_errors=True)

    def test_without_a_working_directory(self):
        """It was removed: the run goes to the temporary folder, not to the root directory."""
        self.run_path = os.path.basename(self.folder)
        for host in ("writer", "rings"):
            with self.subTest(host=host):
                script = f"mkdir here; cd here; rmdir ../here; exec {e2e.victim('stepwise')}"
                argv = ["sh", "-c", script]
                self.assert_same_behaviour(e2e.run(argv, stdin=b"9\n", cwd=self.folder),
                                           self.under(host, argv, stdin=b"9\n"), host)
                self.assertFalse(os.path.exists(f"/{self.run_path}"))
                (run,) = self.found()
                self.assertEqual(len(run.trace().calls), 9)
                self.assertIn(b"the working directory was removed", e2e.run([e2e.DLHOOK, "report", run.path]).out)
                shutil.rmtree(self.fallback())


class Changed(PlaceCase):
    """Changes to a run while it is written."""

    def change(self, host, action, **extra):
        """`action` between two batches of a thousand calls; the files that contain calls afterwards."""
        self.fresh_run()
        process = e2e.start(self.command(host, [e2e.victim("stepwise")]), cwd=self.folder,
                            env=self.environment(host, **extra))
        self.step(process, 1000)
        trace, = glob.glob(os.path.join(self.run_path, "*.dlh"))
        ring, = [os.readlink(link) for link in glob.glob(os.path.join(self.run_path, "*.ring"))]
        while os.path.getsize(trace) == 0:  # until it is being drained
            time.sleep(0.001)
        action(trace)
        self.step(process, 1000)
        process.stdin.close()
        self.assertEqual(process.stdout.read(), b"")
        self.assertEqual(process.wait(60), 0)
        error = process.stderr.read()
        if host == "writer":
            self.assertEqual(error, b"")
        process.stdout.close()
        process.stderr.close()
        self.assertFalse(os.path.exists(ring))
        return error

    def check_sum(self, path, calls=2000):
        run = e2e.Run(path)
        trace = run.trace()
        self.assertEqual(len(trace.calls) + trace.loss_count(), calls)
        self.assertEqual([name for name in run.files() if name.endswith(".ring")], [])
        return trace

    def test_the_run_was_removed(self):
        for host in ("launcher", "writer"):
            with self.subTest(host=host):
                error = self.change(host, lambda trace: shutil.rmtree(self.run_path))
                trace = self.check_sum(self.run_path)
                self.assertIn("OUTPUT_GONE", trace.loss_reasons())
                if host == "launcher":
                    self.check_last_line(error, trace)

    def test_the_trace_was_removed(self):
        for host in ("launcher", "writer"):
            with self.subTest(host=host):
                error = self.change(host, os.remove)
                trace = self.check_sum(self.run_path)
                if host == "launcher":
                    self.check_last_line(error, trace)
                self.assertIn("OUTPUT_GONE", trace.loss_reasons())

    def test_the_trace_was_replaced(self):
        """A file that took its name is not written to, whatever it is."""
        mine = os.path.join(self.folder, "mine")

        def link(trace):
            os.symlink(mine, trace + "~")
            os.rename(trace + "~", trace)

        def other_name(trace):
            os.link(mine, trace + "~")
            os.rename(trace + "~", trace)

        def pipe(trace):
            os.mkfifo(trace + "~")
            os.rename(trace + "~", trace)

        def folder(trace):
            os.remove(trace)
            os.mkdir(trace)

        with open(mine, "w", encoding="ascii") as file:
            file.write("mine")
        for host in ("launcher", "writer"):
            for action in (link, other_name, pipe, folder):
                with self.subTest(host=host, action=action.__name__):
                    self.change(host, action)
                    self.check_sum(self.run_path)
                    with open(mine, encoding="ascii") as file:
                        self.assertEqual(file.read(), "mine")

    def test_the_run_was_renamed(self):
        """The trace continues in the renamed folder; processes that start later create another one under the old
        name."""
        renamed = os.path.join(self.folder, "renamed")

        def rename(_):
            os.rename(self.run_path, renamed)
            later = self.under("writer", [e2e.victim("stepwise")], stdin=b"7\n")
            self.assertEqual(later.out, b"7 done\n")

        self.change("writer", rename)
        self.check_sum(renamed)
        self.assertEqual(len(e2e.Run(renamed).trace().calls), 2000)
        self.assertEqual(len(self.check_sum(self.run_path, 7).calls), 7)


OTHER, SOMEBODY = 65534, 12345
AS_USER = ("import os, sys; user = int(sys.argv[1]); os.setgroups([]); os.setgid(user); os.setuid(user); "
           "os.execv(sys.argv[2], sys.argv[2:])")


class OtherUsers(PlaceCase):
    """Folders in which others may write."""

    def in_the_way(self, make, hosts=e2e.HOSTS):
        """Run folders in which `make` (shell) creates files with the names that the process will use; then it runs."""
        for host in hosts:
            with self.subTest(host=host):
                self.fresh_run()
                os.mkdir(self.run_path)
                out = self.run_path
                stem = f"{out}/victim_stepwise-$$"
                script = f"{make.format(out=out, stem=stem, to=self.folder)}; exec {e2e.victim('stepwise')}"
                result = self.under(host, ["timeout", "-s", "KILL", "60", "sh", "-c", script], stdin=b"50\n")
                self.assertEqual((result.code, result.out), (0, b"50 done\n"), result.err)
                self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("stolen")], [])
                yield out

    def test_pipes_under_our_names(self):
        for out in self.in_the_way("mkfifo {out}/.dlhook-probe-$$ {stem}.dlh {stem}.ring {stem}-2.dlh", ("writer", "rings")):
            calls = [name for name in os.listdir(out) if name.endswith("-3.dlh")]
            self.assertEqual(len(calls), 1)

    def test_links_under_our_names(self):
        make = "for name in {out}/.dlhook-probe-$$ {stem}.dlh {stem}.ring {stem}-2.dlh; do ln -s {to}/stolen $name; done"
        for out in self.in_the_way(make):
            traces = [name for name in os.listdir(out) if name.endswith("-3.dlh")]
            self.assertEqual(len(traces), 1)
            trace = os.stat(os.path.join(out, traces[0]), follow_symlinks=False)
            self.assertTrue(stat.S_ISREG(trace.st_mode))

    @unittest.skipUnless(os.getuid() == 0, "takes several users")
    def test_somebody_elses_link_on_the_way(self):
        """In a folder like /tmp: it is not followed."""
        target = os.path.join(self.folder, "target")
        shared = os.path.join(self.folder, "shared")
        for folder in (target, shared):
            os.mkdir(folder)
        os.chmod(shared, 0o777)  # not sticky: there the kernel itself would refuse
        link = os.path.join(shared, "link")
        os.symlink(target, link)
        os.chown(link, OTHER, OTHER, follow_symlinks=False)
        for name in ("link", "link/run"):
            self.run_path = os.path.join(shared, name)
            self.stepwise("writer", 100)
            self.assertEqual(os.listdir(target), [])
            shutil.rmtree(self.fallback())
        os.chown(link, 0, 0, follow_symlinks=False)  # a user's own is followed
        self.run_path = link
        self.stepwise("writer", 100)
        self.assertEqual(len(e2e.Run(target).trace().calls), 200)

    @unittest.skipUnless(os.getuid() == 0, "takes several users")
    def test_the_temporary_folder_is_somebody_elses(self):
        """A folder of another user with dlhook's name under /tmp gets nothing."""
        os.chmod(self.folder, 0o755)
        self.run_path = os.path.join(self.folder, "closed", "run")
        os.mkdir(os.path.dirname(self.run_path), 0o700)
        fallback = f"/tmp/dlhook-{SOMEBODY}"
        target = os.path.join(self.folder, "target")
        argv = [sys.executable, "-c", AS_USER, str(SOMEBODY), e2e.victim("stepwise")]
        for kind in ("folder", "link", "own"):
            with self.subTest(kind=kind):
                os.makedirs(target, exist_ok=True)
                os.chmod(target, 0o777)
                if kind == "link":
                    os.symlink(target, fallback)
                    os.chown(fallback, OTHER, OTHER, follow_symlinks=False)
                else:
                    os.mkdir(fallback)
                    os.chmod(fallback, 0o777)
                    os.chown(fallback, *(2 * [OTHER if kind == "folder" else SOMEBODY]))
                try:
                    result = self.under("writer", argv, stdin=b"30\n")
                    self.assertEqual((result.code, result.out, result.err), (0, b"30 done\n", b""))
                    self.assertEqual(os.listdir(target), [])
                    self.assertEqual(len(os.listdir(fallback)), 1 if kind == "own" else 0)
                    if kind == "own":
                        self.assertEqual(stat.S_IMODE(os.stat(fallback).st_mode), 0o700)
                finally:
                    os.remove(fallback) if kind == "link" else shutil.rmtree(fallback)

    @unittest.skipUnless(os.getuid() == 0, "takes several users")
    def test_somebody_elses_run_folder(self):
        """If others may write the run, they can't read its contents, or redirect dlhook."""
        self.run_path = os.path.join(self.folder, "theirs")
        os.mkdir(self.run_path)
        os.chmod(self.run_path, 0o777)
        os.chown(self.run_path, OTHER, OTHER)
        self.stepwise("writer", 100)
        trace, = glob.glob(os.path.join(self.run_path, "*.dlh"))
        info = os.stat(trace)
        self.assertEqual((info.st_uid, stat.S_IMODE(info.st_mode)), (0, 0o600))
        self.assertEqual(len(e2e.Run(self.run_path).trace().calls), 200)


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
        self.assertEqual(process.stdout.read(), b"")  # end of file: the host has ended, too
        error = process.stderr.read()
        process.stdout.close()
        process.stderr.close()
        self.assertEqual(error, b"")
        return e2e.Run(self.run_path)

    def test_what_fits_into_the_rings_is_kept(self):
        trace = self.collect(300, 200).trace()
        self.assertEqual(len(trace.calls), 500)

    def test_the_rest_is_counted_and_the_report_says_why(self):
        run = self.collect(300, 200000, DLHOOK_RING_KIB=64, DLHOOK_GROWTH_KIB=0)
        trace = run.trace()
        self.assertEqual(trace.known_count(), 200300)
        self.assertIn("COLLECTOR_GONE", trace.loss_reasons())
        text = e2e.run([e2e.DLHOOK, "report", run.path]).out.decode().lower()
        self.assertTrue("collector" in text or "launcher" in text, text[:3000])


if __name__ == "__main__":
    if not PRIVATE:
        enter_private_mounts()
    e2e.main()
