"""Fork, exec and every way to end: each process has its own trace and no recorded call is missing."""

import fcntl
import glob
import json
import os
import shutil
import signal
import time

import e2e

PARENT = ("cblas_sgemm", 6, 7, 8, "NT")
CHILD = ("cblas_sgemm", 9, 7, 8, "NT")


class Ends(e2e.Case):
    # The expected footer. Without a launcher or writer the reader only infers the process's end.
    MODES = {"return": "EXITED", "term": "VANISHED", "abort": "VANISHED", "segv": "VANISHED", "kill": "VANISHED",
             "_exit": "LEFT", "quick_exit": "VANISHED", "exec_other": "VANISHED", "vfork": "VANISHED"}

    def test_all_calls_are_there(self):
        for mode, end in self.MODES.items():
            argv = [e2e.victim("lifecycle"), mode, "77"]
            plain = e2e.run(argv)
            for host in e2e.HOSTS:
                with self.subTest(mode=mode, host=host):
                    self.fresh_run()
                    self.assert_same_behaviour(plain, self.under(host, argv), host)
                    trace = e2e.Run(self.run_path).trace()
                    self.assert_problems(trace.calls, {PARENT: 77})
                    self.assert_no_loss(trace)
                    if host == "launcher":
                        self.assertEqual(e2e.one(trace.footer, "end"), end)
                        self.assertEqual(e2e.one(trace.footer, "calls"), 77)


class LastThread(e2e.Case):
    """Processes that end with their last thread: no thread of dlhook may be the last one, or take part in the end."""

    CALLS = {"alone": 4, "returns": 6, "leaves": 4, "main_leaves": 2, "fork": 6, "clone": 6, "shares": 6, "vfork": 6,
             "first_clone": 4, "first_shares": 4, "first_vfork": 4}

    def known(self):
        traces = e2e.Run(self.run_path).traces()
        self.assertEqual([name for name in e2e.Run(self.run_path).files() if name.endswith(".ring")], [])
        return sum(trace.known_count() for trace in traces)

    def test_ends_as_without_dlhook(self):
        for mode, calls in self.CALLS.items():
            argv = [e2e.victim("last_thread"), mode]
            plain = e2e.run(argv, timeout=60)
            for host in e2e.HOSTS:
                with self.subTest(mode=mode, host=host):
                    self.fresh_run()
                    env = self.environment(host)
                    self.assert_same_behaviour(plain, e2e.run(self.command(host, argv), env=env, timeout=60), host)
                    self.assertEqual(self.known(), calls)

    def test_lives_after_its_first_thread(self):
        """/proc has no memory for a process whose first thread has ended."""
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.fresh_run()
                process = e2e.start(self.command(host, [e2e.victim("last_thread"), "waits"]), env=self.environment(host))
                self.addCleanup(process.communicate)
                self.assertEqual(process.stdout.readline(), b"thread\n")
                self.assertIn(b": recording", e2e.run([e2e.DLHOOK, "ctl", "status", self.run_path]).out)
                self.assertNotIn(b"killed", e2e.run([e2e.DLHOOK, "top", self.run_path, "--once"]).out)
                self.assertEqual(e2e.Run(self.run_path).trace().known_count(), 4)
                self.assertEqual(process.communicate(b"\n", timeout=60)[0], b"")
                self.assertEqual(process.returncode, 0)
                self.assertEqual(self.known(), 8)


class Fork(e2e.Case):
    def test_child_without_exec(self):
        for mode in ("fork", "fork_exit"):
            for host in e2e.HOSTS:
                with self.subTest(mode=mode, host=host):
                    traces = self.recorded(host, [e2e.victim("lifecycle"), mode, "40"]).traces()
                    self.assertEqual(len(traces), 2)
                    parent = next(t for t in traces if t.pid != e2e.one(t.process, "parent_pid")
                                  and any(e2e.problem(c.op) == PARENT for c in t.calls))
                    child = next(t for t in traces if t is not parent)
                    self.assert_problems(parent.calls, {PARENT: 80})
                    self.assert_problems(child.calls, {CHILD: 80})
                    self.assertEqual(e2e.one(child.process, "parent_pid"), parent.pid)
                    for trace in traces:
                        self.assert_no_loss(trace)
                        self.assertEqual([c.sequence for c in trace.calls], list(range(1, 81)))

    def test_report_covers_both(self):
        rows = self.recorded("launcher", [e2e.victim("lifecycle"), "fork", "40"]).table("ops")
        self.assertEqual(sum(row["calls"] or 0 for row in rows), 160)


class Exec(e2e.Case):
    def test_exec_keeps_the_pid_and_gets_a_second_trace(self):
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                # lifecycle leaves with 9 after its calls when its mode is unknown ("return").
                traces = self.recorded(host, [e2e.victim("lifecycle"), "exec", "33"], expected_code=9).traces()
                self.assertEqual(len(traces), 2)
                self.assertEqual(len({trace.pid for trace in traces}), 1)
                for trace in traces:
                    self.assert_problems(trace.calls, {PARENT: 33})


class Helpers(e2e.Case):
    def test_a_process_without_calls_leaves_nothing(self):
        for argv in (["/bin/true"], [e2e.victim("lifecycle"), "none", "5"], ["/bin/sh", "-c", "ls / | wc -l"]):
            with self.subTest(argv=argv):
                self.fresh_run()
                before = sorted(os.listdir(self.folder))
                self.under("writer", argv)
                self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_default_folder(self):
        env = e2e.clean_environment(LD_PRELOAD=e2e.SHIM)
        e2e.run([e2e.victim("stepwise")], env=env, cwd=self.folder, stdin=b"3\n")
        created = [name for name in os.listdir(self.folder) if name.startswith("dlhook-")]
        self.assertEqual(len(created), 1)
        path = os.path.join(self.folder, created[0])
        self.assertEqual(len(e2e.Run(path).trace().calls), 3)
        for name in os.listdir(path):
            self.assertEqual(os.stat(os.path.join(path, name)).st_mode & 0o77, 0, name)

    def test_processes_of_one_shell_script_share_a_run(self):
        script = f"{e2e.victim('nested')} 3; {e2e.victim('nested')} 4 | cat"
        self.fresh_run()
        self.under("writer", ["/bin/sh", "-c", script])
        self.assertEqual(sorted(len(t.top_calls()) for t in e2e.Run(self.run_path).traces()), [3, 4])
        env = e2e.clean_environment(LD_PRELOAD=e2e.SHIM)
        e2e.run(["/bin/sh", "-c", script], env=env, cwd=self.folder)
        created = [name for name in os.listdir(self.folder) if name.startswith("dlhook-")]
        self.assertEqual(len(created), 1)


class Names(e2e.Case):
    """Program and script as the process was started, whatever is in its argv; nothing else from its command line."""

    def names(self, host, argv, **where):
        run = self.recorded(host, argv, **where)
        process = run.trace().process
        dump = e2e.run([e2e.DLHOOK, "dump", run.path]).out
        self.assertNotIn(b"SECRET", dump)
        self.assertEqual([name for name in run.files() if "SECRET" in name], [])
        return e2e.one(process, "program"), e2e.one(process, "script", "")

    def test_another_first_word(self):
        script = f"exec -a 'ssh user:SECRET@host' {e2e.victim('nested')} 2"
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.assertEqual(self.names(host, ["bash", "-c", script]), ("victim_nested", ""))

    def test_links_and_scripts(self):
        link, python, script = (os.path.join(self.folder, name) for name in ("link", "python3", "train.py"))
        os.symlink(e2e.victim("nested"), link)
        shutil.copy(e2e.victim("title"), python)
        with open(script, "w", encoding="ascii") as file:
            file.write(f"#!{python} -u\n")
        os.chmod(script, 0o755)
        where = {"LD_LIBRARY_PATH": e2e.VICTIMS}
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.assertEqual(self.names(host, [link, "2"]), ("link", ""))
                self.assertEqual(self.names(host, [python, script, "SECRET"], **where), ("python3", "train.py"))
                self.assertEqual(self.names(host, [python, "-c", "SECRET"], **where), ("python3", ""))
                self.assertEqual(self.names(host, [script, "SECRET"], **where), ("python3", "train.py"))


class Lock(e2e.Case):
    """The drain of a ring holds the lock on its file, from before the ring can be found."""

    def start(self, host, **extra):
        process = e2e.start(self.command(host, [e2e.victim("stepwise")]), cwd=self.folder,
                            env=self.environment(host, **extra))
        for stream in (process.stdin, process.stdout, process.stderr):
            self.addCleanup(stream.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def step(self, process, calls):
        process.stdin.write(f"{calls}\n".encode())
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), f"{calls} done\n".encode())

    def ring(self):
        """As soon as its link is there."""
        links = []
        while not links:
            links = glob.glob(os.path.join(self.run_path, "*.ring"))
        return os.readlink(links[0])

    def is_locked(self, ring):
        with open(ring, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def test_of_the_writer(self):
        for _ in range(5):
            self.fresh_run()
            process = self.start("writer")
            process.stdin.write(b"5\n")
            process.stdin.flush()
            ring = self.ring()
            self.assertTrue(self.is_locked(ring))
            self.assertEqual(process.stdout.readline(), b"5 done\n")
            files = glob.glob(f"/proc/{process.pid}/fd/*")
            self.assertNotIn(ring, [os.readlink(file) for file in files])  # none of the host's own descriptors
            process.kill()
            process.wait()
            self.assertFalse(self.is_locked(ring))
            self.assertEqual(len(e2e.Run(self.run_path).trace().calls), 5)

    def test_of_nobody(self):
        process = self.start("rings")
        self.step(process, 5)
        self.assertFalse(self.is_locked(self.ring()))

    def test_after_the_collector(self):
        # A ring of 16 KiB fills at once: then the host checks its collector, and drains itself.
        process = self.start("launcher", DLHOOK_RING_KIB=16)
        self.step(process, 5)
        ring = self.ring()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        self.assertFalse(self.is_locked(ring))
        self.step(process, 50000)
        self.assertTrue(self.is_locked(ring))

    def test_is_held_by_another(self):
        """Then the host does not drain; records without room in its rings are counted."""
        process = self.start("launcher", DLHOOK_RING_KIB=16)
        self.step(process, 5)
        ring = self.ring()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with open(ring, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self.step(process, 20000)
        process.stdin.close()
        self.assertEqual(process.stdout.read(), b"")  # the host has ended
        trace = e2e.Run(self.run_path).trace()
        self.assertEqual(trace.known_count(), 20005)


class Left(e2e.Case):
    """What killed processes leave in /dev/shm: who says so, who takes it."""

    def kill_one(self):
        """A process that drains nothing and is killed in self.run_path; its rings."""
        self.assertEqual(e2e.shell_code(self.under("rings", [e2e.victim("lifecycle"), "kill", "77"]).code), 137)
        (link,) = glob.glob(f"{self.run_path}/*.ring")
        return os.readlink(link)

    def advice(self):
        result = e2e.run([e2e.DLHOOK, "doctor", "--format", "json"])
        return " ".join(one["advice"] for one in json.loads(result.out)["machine"] if one["id"] == "left-rings")

    def test_doctor_names_the_run_until_it_is_reported(self):
        ring = self.kill_one()
        self.assertIn(self.run_path, self.advice())
        self.assertEqual(len(e2e.Run(self.run_path).trace().calls), 77)
        self.assertFalse(os.path.exists(ring))
        self.assertNotIn(self.run_path, self.advice())

    def test_the_last_launcher_takes_what_others_left_in_its_run(self):
        launcher = e2e.start([e2e.DLHOOK, "run", "-o", self.run_path, "--", e2e.victim("stepwise")])
        launcher.stdin.write(b"5\n")
        launcher.stdin.flush()
        self.assertEqual(launcher.stdout.readline(), b"5 done\n")
        self.assertEqual(e2e.shell_code(self.under("rings", [e2e.victim("lifecycle"), "kill", "77"]).code), 137)
        self.assertEqual(len(glob.glob(f"{self.run_path}/*.ring")), 2)
        error = launcher.communicate(timeout=120)[1].decode()
        self.assertEqual(glob.glob(f"{self.run_path}/*.ring"), [])
        self.assertIn("82 calls recorded", error)

    def test_unfinished_rings_are_removed_when_they_are_old(self):
        gone = e2e.start(["true"])
        gone.communicate()
        for age, is_kept in ((10, True), (3600, False)):
            path = f"/dev/shm/dlhook-{os.getuid()}-{gone.pid}-{age}.ring"
            with open(path, "wb") as file:
                self.addCleanup(lambda name=path: os.path.exists(name) and os.unlink(name))
                os.fchmod(file.fileno(), 0o600)
                file.truncate(1 << 20)
            os.utime(path, (time.time() - age, time.time() - age))
            e2e.run([e2e.DLHOOK, "run", "-o", self.fresh_run(), "--", "true"])
            self.assertEqual(os.path.exists(path), is_kept)


if __name__ == "__main__":
    e2e.main()
