"""Runs and rings of other users: a report changes nothing unless only its caller could write it, a launcher takes only
its own rings.

Each sentence of docs/trust.md, between root and unprivileged users.
"""

import hashlib
import os
import shutil
import signal
import struct
import subprocess
import time
import unittest

import e2e

USER = 12345
CALLS = 50
READERS = (["report"], ["dump"], ["export", "--format", "folded"])


def as_user(uid, argv, env, stdin=b"", cwd="/"):
    return subprocess.run(argv, env=env, cwd=cwd, input=stdin, capture_output=True, timeout=120, check=False,
                          user=uid, group=uid, extra_groups=[], preexec_fn=e2e.limits)


def fingerprint(path):
    """All properties of a file that could change, except the time of reading."""
    info = os.lstat(path)
    content = None
    if os.path.islink(path):
        content = os.readlink(path)
    elif os.path.isfile(path):
        with open(path, "rb") as file:
            content = hashlib.sha256(file.read()).digest()
    return (info.st_ino, info.st_mode, info.st_uid, info.st_size, info.st_mtime_ns, info.st_ctime_ns, content)


def tree(path):
    """{path: fingerprint} of everything in a folder."""
    return {os.path.join(folder, name): fingerprint(os.path.join(folder, name))
            for folder, folders, files in os.walk(path) for name in [".", *folders, *files]}


class TrustCase(e2e.Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o755)
        self.rings = []
        self.addCleanup(self.remove_rings)

    def remove_rings(self):
        for ring in self.rings:
            if os.path.exists(ring):
                os.remove(ring)

    def ring_of(self, run):
        (link,) = [name for name in os.listdir(run) if name.endswith(".ring")]
        ring = os.readlink(os.path.join(run, link))
        self.rings.append(ring)
        return ring

    def left(self, uid, run=None, **extra):
        """A run of `uid` whose process left all of its calls in its rings; its folder, created with mode 0700 if
        missing."""
        home = os.path.join(self.folder, f"home-{uid}")
        if not os.path.isdir(home):
            os.mkdir(home, 0o755)
            os.chown(home, uid, uid)
        run = run or os.path.join(home, f"run-{len(self.rings)}")
        env = e2e.clean_environment(LD_PRELOAD=e2e.SHIM, DLHOOK_OUT=run, **{"DLHOOK_DRAIN": "none", **extra})
        result = as_user(uid, [e2e.victim("stepwise")], env, f"{CALLS}\n".encode())
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return run

    def state(self, run):
        return tree(os.path.dirname(run)), {ring: fingerprint(ring) for ring in self.rings if os.path.exists(ring)}

    def read(self, run, *argv, code=0):
        result = e2e.run([e2e.DLHOOK, argv[0], run, *argv[1:]], timeout=60)
        self.assertEqual(result.code, code, result.err.decode())
        return result

    def check_calls(self, run, calls=CALLS):
        self.assertEqual(sum(len(trace.calls) for trace in e2e.Run(run).traces()), calls)


@unittest.skipUnless(os.geteuid() == 0, "needs root to act as other users")
class Readers(TrustCase):
    def test_another_users_run_is_read_and_left_as_it_is(self):
        run = self.left(USER)
        self.ring_of(run)
        before = self.state(run)
        for argv in READERS:
            self.read(run, *argv)
        for command in ("diff", "scaling"):
            e2e.run([e2e.DLHOOK, command, run, run], timeout=60)
        self.check_calls(run)
        self.assertEqual(self.state(run), before)

    def test_a_trace_that_is_a_link_writes_nowhere(self):
        target = os.path.join(self.folder, "target")
        with open(target, "w", encoding="ascii") as file:
            file.write("roots own\n" * 100)
        run = self.left(USER)
        self.ring_of(run)
        (trace,) = [name for name in os.listdir(run) if name.endswith(".dlh")]
        os.remove(os.path.join(run, trace))
        os.symlink(target, os.path.join(run, trace))
        before = self.state(run), tree(self.folder)
        for argv in (*READERS, ["ctl"]):
            e2e.run([e2e.DLHOOK, *(["ctl", "stop", run] if argv == ["ctl"] else [argv[0], run, *argv[1:]])], timeout=60)
        self.assertEqual((self.state(run), tree(self.folder)), before)

    def test_a_link_to_a_pipe_or_a_file_elsewhere_is_no_ring(self):
        run = self.left(USER)
        self.ring_of(run)
        (link,) = [os.path.join(run, name) for name in os.listdir(run) if name.endswith(".ring")]
        os.mkfifo(os.path.join(run, "pipe"))
        secret = os.path.join(self.folder, "secret")
        shutil.copy(self.rings[0], secret)
        for target in (os.path.join(run, "pipe"), "pipe", secret, "../../secret", "/dev/zero"):
            os.remove(link)
            os.symlink(target, link)
            before = tree(self.folder)
            error = self.read(run, "report", code=2).err.decode()
            self.assertIn("can't be opened", error)
            self.assertEqual(tree(self.folder), before)

    def test_nobody_else_may_write_where_a_report_does(self):
        home = os.path.join(self.folder, "shared")
        os.mkdir(home)
        for mode in (0o777, 0o770, 0o1777):
            run = os.path.join(home, f"{mode:o}")
            os.mkdir(run)
            os.chmod(run, mode)
            self.left(0, run)
            self.ring_of(run)
            before = self.state(run)
            self.read(run, "report")
            self.check_calls(run)
            self.assertEqual(self.state(run), before)

    def test_a_run_of_ones_own_is_completed(self):
        for uid in (0, USER):
            run = self.left(uid)
            ring = self.ring_of(run)
            env = e2e.clean_environment()
            result = as_user(uid, [e2e.DLHOOK, "report", run], env)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertFalse(os.path.exists(ring))
            self.assertEqual([name for name in os.listdir(run) if name.endswith(".ring")], [])
            self.check_calls(run)

    def test_who_may_not_read_is_told(self):
        run = self.left(0)
        self.ring_of(run)
        result = as_user(USER, [e2e.DLHOOK, "report", run], e2e.clean_environment())
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"Permission denied", result.stderr)

    def test_everything_is_private(self):
        os.umask(0)
        self.addCleanup(os.umask, 0o022)
        run = self.left(0)
        ring = self.ring_of(run)
        self.assertEqual(os.stat(run).st_mode & 0o777, 0o700)
        self.assertEqual(os.stat(ring).st_mode & 0o777, 0o600)
        launched = os.path.join(self.folder, "launched")
        e2e.run([e2e.DLHOOK, "run", "-o", launched, "--", e2e.victim("stepwise")], stdin=b"5\n")
        for path in (run, launched):
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o700)
            for name in os.listdir(path):
                if not name.endswith(".ring"):
                    self.assertEqual(os.stat(os.path.join(path, name)).st_mode & 0o777, 0o600, name)

    def test_ctl_writes_only_its_own(self):
        run = os.path.join(self.folder, "live")
        os.mkdir(run)
        os.chown(run, USER, USER)
        process = subprocess.Popen([e2e.victim("stepwise")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=USER,
                                   group=USER, extra_groups=[],
                                   env=e2e.clean_environment(LD_PRELOAD=e2e.SHIM, DLHOOK_OUT=run))
        try:
            process.stdin.write(b"5\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), b"5 done\n")
            ring = self.ring_of(run)
            with open(ring, "rb") as file:
                before = file.read(512)
            status = e2e.run([e2e.DLHOOK, "ctl", "status", run])
            self.assertEqual((status.code, status.out.split()[-1]), (0, b"recording"))
            stop = e2e.run([e2e.DLHOOK, "ctl", "stop", run])
            self.assertEqual(stop.code, 2)
            self.assertIn(b"of another user", stop.err)
            with open(ring, "rb") as file:
                self.assertEqual(file.read(512), before)
        finally:
            process.communicate(b"5\n", timeout=60)
        self.check_calls(run, 10)


class FoundFiles(TrustCase):
    """Files that dlhook looks for by itself are used only if they are the user's own or root's."""

    def report(self, *words, uid=None, cwd=None):
        result = as_user(os.geteuid() if uid is None else uid, [e2e.DLHOOK, "report", *words],
                         e2e.clean_environment(DLHOOK_CACHE="off"), cwd=cwd or self.folder)
        return result.returncode, result.stdout.decode(), result.stderr.decode()

    def put(self, make, owner=None):
        """A new .dlhook-ignore in the folder where reports are made."""
        path = os.path.join(self.folder, ".dlhook-ignore")
        if os.path.lexists(path):
            os.remove(path)
        make(path)
        if owner is not None:
            os.lchown(path, owner, owner)

    @staticmethod
    def rules(path):
        with open(path, "w", encoding="ascii") as file:
            file.write("# all of them\nfloat64\n\nno-such-rule\n")

    def test_what_is_no_file_of_rules_is_not_opened(self):
        run = self.left(os.geteuid())
        self.ring_of(run)
        code, expected, _ = self.report(run)
        self.assertEqual(code, 0)
        for make, said in ((os.mkfifo, "is a FIFO"), (os.mkdir, "is a folder"),
                           (lambda path: os.symlink("/dev/zero", path), "is a device"),
                           (lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_WRONLY), 1 << 40), "is larger than")):
            self.put(make)
            path = os.path.join(self.folder, ".dlhook-ignore")
            for words, refused in (((run,), 0), ((run, "--ignore-file", path), 2)):
                code, out, err = self.report(*words)
                self.assertEqual(code, refused, err)
                self.assertIn(said, err)
                self.assertEqual(out, "" if refused else expected)
            if os.path.isdir(path):
                os.rmdir(path)

    def test_others_rules_and_runs_are_used_only_if_named(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to act as other users")
        run = self.left(USER)
        self.ring_of(run)
        home = os.path.dirname(run)
        self.put(self.rules, owner=USER)
        for uid, code, said in ((0, 0, "belongs to another user; its rules are not used"), (USER, 2, "no-such-rule")):
            self.assertEqual((self.report(run, uid=uid)[0], said in self.report(run, uid=uid)[2]), (code, True))
        self.put(self.rules)  # root's
        self.assertEqual(self.report(run, uid=USER)[0], 2)
        self.put(lambda path: os.symlink(os.path.join(self.folder, "rules"), path), owner=USER)
        self.rules(os.path.join(self.folder, "rules"))
        self.assertIn("belongs to another user", self.report(run)[2])
        self.assertIn("those of other users must be named", self.report(cwd=home)[2])
        self.assertEqual(self.report(uid=USER, cwd=home)[0], 0)


class Copies(TrustCase):
    def test_a_copy_leaves_the_original_what_is_its(self):
        run = self.left(os.geteuid())
        ring = self.ring_of(run)
        copy = os.path.join(self.folder, "copy")
        shutil.copytree(run, copy, symlinks=True)
        error = self.read(copy, "report", code=2).err.decode()  # its file is empty
        self.assertIn("a copy: what its process left in memory", error)
        self.assertTrue(os.path.exists(ring))
        self.check_calls(run)
        self.assertFalse(os.path.exists(ring))

    def trace_in(self, run):
        (trace,) = [name for name in os.listdir(run) if name.endswith(".dlh")]
        return os.path.join(run, trace)

    def killed(self):
        """A process that drained itself for a while, then was killed with a full ring."""
        process = e2e.start([e2e.victim("stepwise")], env=self.environment("writer"))
        for _ in range(5):
            process.stdin.write(b"2000\n")
            process.stdin.flush()
            process.stdout.readline()
            time.sleep(0.15)
        process.kill()
        process.communicate()
        self.ring_of(self.run_path)
        return self.run_path

    def test_the_copys_report_says_what_it_lacks(self):
        run = self.killed()
        copy = os.path.join(self.folder, "copy")
        shutil.copytree(run, copy, symlinks=True)
        text = self.read(copy, "report").out.decode()
        self.assertIn("a copy: what its process left in memory", " ".join(text.split()))
        self.check_calls(run, 10000)

    def test_the_trace_is_cut_only_between_packets(self):
        run = self.killed()
        ring = self.rings[0]
        with open(ring, "rb") as file:
            header = file.read(1 << 17)
        trace = self.trace_in(run)
        with open(trace, "rb") as file:
            bytes_before = file.read()
        size = self.ends(bytes_before)
        at = [i for i in range(0, len(header), 8) if struct.unpack_from("<Q", header, i)[0] in size]
        self.assertTrue(at, "the checkpoint was not found")
        with open(ring, "r+b") as file:
            for i in at:
                file.seek(i)
                file.write(struct.pack("<Q", struct.unpack_from("<Q", header, i)[0] - 1))
        error = self.read(run, "report", code=2).err.decode()
        self.assertIn("where no packet ends", error)
        with open(trace, "rb") as file:
            self.assertEqual(file.read(), bytes_before)
        self.assertTrue(os.path.exists(ring))

    def ends(self, data):
        """Where packets end, skipping small numbers that other fields also contain."""
        found, at = set(), 0
        while at < len(data) and data[at] == 0x0a:
            length = shift = 0
            at += 1
            while True:
                length |= (data[at] & 0x7f) << shift
                shift += 7
                at += 1
                if data[at - 1] < 0x80:
                    break
            at += length
            found.add(at)
        return {end for end in found if end > 5000}


@unittest.skipUnless(os.geteuid() == 0, "needs root to act as other users")
class Launchers(TrustCase):
    def launched(self, run):
        process = e2e.start([e2e.DLHOOK, "run", "-o", run, "--", e2e.victim("stepwise")])
        process.stdin.write(b"5\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), b"5 done\n")
        return process

    def shared(self):
        run = os.path.join(self.folder, "shared")
        os.mkdir(run)
        os.chmod(run, 0o1777)
        return run

    def test_planted_rings_are_not_taken(self):
        run = self.shared()
        target = os.path.join(self.folder, "target")
        with open(target, "w", encoding="ascii") as file:
            file.write("roots own\n")
        launcher = self.launched(run)
        with open(f"/proc/{launcher.pid}/task/{launcher.pid}/children", encoding="ascii") as file:
            program = file.read().split()[0]
        with open(f"/proc/{program}/environ", encoding="utf-8") as file:
            (name,) = [entry.split("=", 1)[1] for entry in file.read().split("\0") if entry.startswith("DLHOOK_COLLECTOR=")]
        # It claims that the launcher drains it, like its own processes.
        name = name.replace(":0:", f":{USER}:", 1)
        planted = subprocess.Popen([e2e.victim("stepwise")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=USER,
                                   group=USER, extra_groups=[],
                                   env=e2e.clean_environment(LD_PRELOAD=e2e.SHIM, DLHOOK_OUT=run, DLHOOK_DRAIN="collector",
                                                             DLHOOK_COLLECTOR=name))
        planted.stdin.write(b"50\n")
        planted.stdin.flush()
        planted.stdout.readline()
        (link,) = [link for link in os.listdir(run) if link.endswith(".ring") and os.lstat(os.path.join(run, link)).st_uid == USER]
        ring = os.readlink(os.path.join(run, link))
        self.rings.append(ring)
        trace = os.path.join(run, link[:-5] + ".dlh")
        time.sleep(0.5)  # several polls of the launcher, which sleeps 100 ms at most; asserts nothing
        self.assertEqual(os.path.getsize(trace), 0)
        os.remove(trace)
        os.symlink(target, trace)
        planted.kill()
        planted.communicate()
        out, error = launcher.communicate(b"5\n", timeout=60)
        self.assertEqual((launcher.returncode, out), (0, b"5 done\n"), error)
        with open(target, encoding="ascii") as file:
            self.assertEqual(file.read(), "roots own\n")
        self.assertTrue(os.path.exists(ring))
        self.assertIn(b"10 calls recorded", error)

    def test_processes_that_become_others_drain_themselves(self):
        run = self.shared()
        command = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", e2e.victim("stepwise")]
        if shutil.which("setpriv") is None:
            self.skipTest("no setpriv")
        result = e2e.run([e2e.DLHOOK, "run", "-o", run, "--", *command], stdin=b"20000\n" * 5)
        self.assertEqual(result.code, 0, result.err)
        traces = e2e.Run(run).traces()
        self.assertEqual(sum(len(trace.calls) + trace.loss_count() for trace in traces), 100000)
        self.assertEqual([name for name in os.listdir(run) if name.endswith(".ring")], [])
        self.assertIn(b" calls recorded", result.err)

    def test_a_run_file_of_another_user_keeps_out(self):
        run = self.shared()
        path = os.path.join(run, "dlhook.run")
        with open(path, "w", encoding="ascii") as file:
            file.write("0-0\n")
        os.chown(path, USER, USER)
        result = e2e.run([e2e.DLHOOK, "run", "-o", run, "--", e2e.victim("stepwise")], stdin=b"5\n")
        self.assertEqual((result.code, result.out), (2, b""))
        self.assertIn(b"of another user", result.err)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    e2e.main()
