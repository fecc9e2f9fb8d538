"""The hosts in docs/reliability.md: rings of the kernel, own page faults, faked clocks, refused system calls,
containers, a browser's sandbox, Erlang, sudo. Each behaves as without dlhook, leaves only traces in the run, and its
calls are known.
"""

import errno
import os
import shutil
import struct
import subprocess
import sys

import e2e

HOSTS = ("launcher", "writer")
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]

# Those that shim and launcher make in addition to a small program's, and those that sandboxes are known to refuse.
SYSTEM_CALLS = {
    "madvise": 28, "mincore": 27, "nanosleep": 35, "ftruncate": 77, "getcwd": 79, "symlink": 88, "readlink": 89, "sysinfo": 99,
    "prctl": 157, "sigaltstack": 131, "statfs": 137, "mlock": 149, "munlock": 150, "flock": 73, "fallocate": 285, "unshare": 272,
    "membarrier": 324, "memfd_create": 319, "mlock2": 325, "statx": 332, "rseq": 334, "clone3": 435, "close_range": 436,
    "openat2": 437, "pidfd_open": 434, "faccessat2": 439, "futex_waitv": 449, "clock_nanosleep": 230, "getrusage": 98,
    "perf_event_open": 298, "process_vm_readv": 310, "kcmp": 312, "renameat2": 316, "sched_getaffinity": 204}


class Host(e2e.Case):
    def known(self):
        """The number of recorded calls, and of those known to be lost; None: no trace."""
        run = e2e.Run(self.run_path)
        if not any(name.endswith(".dlh") for name in run.files()):
            return None
        return sum(len(trace.calls) + trace.loss_count() for trace in run.traces())

    def check(self, argv, calls, hosts=HOSTS, wrap=(), **variables):
        """Behaves under each host as without dlhook; `wrap` is the command that starts the program, also under
        dlhook."""
        argv = [*wrap, *argv]
        plain = e2e.run(argv, env=e2e.clean_environment(**variables), cwd=self.folder)
        if plain.code == 77:
            self.skipTest("the kernel has not what it takes")
        for host in hosts:
            with self.subTest(argv=argv, host=host):
                self.fresh_run()
                self.assert_same_behaviour(plain, self.under(host, argv, **variables), host)
                self.assertEqual(self.known(), calls)
                self.assertEqual([name for name in e2e.Run(self.run_path).files() if name.endswith(".ring")], [])
        return plain


class Odd(Host):
    MODES = ("at_exit", "quick", "destructors", "threads_that_leave", "jumps", "nested", "fibres", "many_threads", "clones",
             "forks", "spawns", "overflow", "undumpable", "daemon")

    def test_modes(self):
        for mode in self.MODES:
            argv = [e2e.victim("odd_hosts"), mode]
            self.check(argv, int(e2e.run(argv).out))


class ForeignLibc(Host):
    """Children whose loader is musl's: it takes libdlhook.so for a C library, and goes on without it."""

    def setUp(self):
        super().setUp()
        if not shutil.which("musl-gcc"):
            self.skipTest("no musl-gcc")
        self.program = os.path.join(self.folder, "musl")
        source = self.program + ".c"
        with open(source, "w", encoding="ascii") as file:
            file.write("#include <stdio.h>\nint main(void) { puts(\"musl\"); return 3; }\n")
        subprocess.run(["musl-gcc", source, "-o", self.program], check=True)

    def test_child(self):
        script = f"{self.program}; echo $?; exec {self.program}"
        plain = self.check(["/bin/sh", "-c", script], None)
        self.assertEqual((plain.code, plain.out), (3, b"musl\n3\nmusl\n"))
        stripped = os.path.join(self.folder, "libdlhook.so")
        subprocess.run(["strip", e2e.SHIM, "-o", stripped], check=True)
        env = e2e.clean_environment(LD_PRELOAD=stripped)
        self.assertEqual(e2e.run(["/bin/sh", "-c", script], env=env), plain)

    def test_as_the_program_itself(self):
        result = e2e.run([e2e.DLHOOK, "run", "-o", self.run_path, "--", self.program])
        self.assertEqual((result.code, result.out), (2, b""))
        self.assertIn(b"uses musl, not glibc, so libdlhook.so can't be loaded into it", result.err)

    def test_the_names_that_do_it_are_none_of_glibc(self):
        script = "import ctypes; print(bool(ctypes.c_void_p.in_dll(ctypes.CDLL(None), 'stdin').value))"
        self.assertEqual(self.check([sys.executable, "-c", script], None).out, b"True\n")


class Kernel(Host):
    def test_io_uring(self):
        for arguments in ([], ["poll"]):
            plain = self.check([e2e.victim("uring"), "file", *arguments], 250)
            self.assertEqual((plain.code, plain.out), (3, b"0 bad\n"))

    def test_userfaultfd(self):
        for mode, calls in (("missing", 201), ("protected", 101)):
            plain = self.check([e2e.victim("faults"), mode], calls, DLHOOK_STACKS="native")
            self.assertEqual((plain.code, plain.out), (3, b"1\n"))

    def test_refused_system_calls(self):
        program = [e2e.victim("storm"), "child"]
        for error in (errno.ENOSYS, errno.EPERM):
            for name, number in SYSTEM_CALLS.items():
                with self.subTest(refused=name, error=error):
                    self.refused(program, error, [number])

    def test_refused_together(self):
        calls = [number for name, number in SYSTEM_CALLS.items() if name not in ("prctl", "sched_getaffinity")]
        for error in (errno.ENOSYS, errno.EPERM):
            with self.subTest(error=error):
                self.refused([e2e.victim("storm"), "child"], error, calls)

    def refused(self, program, error, numbers):
        """As without dlhook. Less is recorded if memory can't be shared: then children that leave by _exit have no
        trace."""
        argv = [e2e.victim("refused"), str(error), ",".join(map(str, numbers)), *program]
        plain = e2e.run(argv, cwd=self.folder)
        if plain.code == 77:
            self.skipTest("no seccomp")
        for host in HOSTS:
            self.fresh_run()
            self.assert_same_behaviour(plain, self.under(host, argv), host)


class Clocks(Host):
    def test_faked(self):
        """Preloaded before the shim, or after it: times may be anything."""
        faked = e2e.library("faked_clock")
        for order in ("{0}:{1}", "{1}:{0}"):
            for clock in ("tsc", "monotonic"):
                with self.subTest(order=order, clock=clock):
                    self.fresh_run()
                    env = e2e.clean_environment(LD_PRELOAD=order.format(e2e.SHIM, faked), DLHOOK_OUT=self.run_path,
                                                DLHOOK_CLOCK=clock)
                    self.assertEqual(e2e.run([e2e.victim("storm"), "child"], env=env).code, 0)
                    summary = {row["metric"]: row["value"] for row in e2e.Run(self.run_path).table("summary")}
                    self.assertGreater(summary["thread_time"], 0)
                    self.assertLess(summary["wall"], 1000 * 10**9)
                    self.assertNotIn("oddity", summary)

    def test_time_namespace(self):
        wrap = ["unshare", "--time", "--fork", "--monotonic", "100000", "--boottime", "100000"]
        if e2e.run([*wrap, "/bin/true"]).code != 0:
            self.skipTest("no time namespaces here")
        for clock in ("tsc", "monotonic"):
            self.check([e2e.victim("small_stacks"), "40"], 40, wrap=wrap, DLHOOK_CLOCK=clock)


class Containers(Host):
    def inside(self, flags, script=""):
        wrap = ["unshare", *flags, "/bin/sh", "-c", script + ' exec "$@"', "sh"]
        if e2e.run([*wrap, "/bin/true"]).code != 0:
            self.skipTest(f"unshare {' '.join(flags)}: not here")
        return wrap

    def test_namespaces(self):
        for flags in (["-U"], ["-Ur"], ["-n", "-i", "-u"], ["-C"], ["-m"], ["-p", "-f"], ["-Urpf", "--mount-proc"]):
            with self.subTest(flags=flags):
                self.check([e2e.victim("storm"), "child"], 5, wrap=self.inside(flags))

    def test_devices_of_its_own(self):
        """As in Docker: /dev/shm is small, unusable, or another user's."""
        for options in ("size=64k", "size=2m", "ro", "nr_inodes=1"):
            with self.subTest(options=options):
                mount = f"mount -t tmpfs -o {options} none /dev/shm || exit 99;"
                self.check([e2e.victim("small_stacks"), "40"], 40, wrap=self.inside(["-m"], mount))

    def test_memory_that_goes_away_with_it(self):
        """A good /dev/shm that is invisible outside, and processes that leave by _exit: their rings are with the
        launcher."""
        wrap = self.inside(["-m", "-p", "-f"], "mount -t tmpfs none /dev/shm || exit 99;")
        self.check([e2e.victim("storm"), "child"], 5, hosts=["launcher"], wrap=wrap)

    def test_no_links(self):
        """If no link can be made other processes can't find the rings: the process drains itself."""
        symlink = "88,266"  # and symlinkat
        argv = [e2e.victim("refused"), str(errno.EPERM), symlink, e2e.victim("small_stacks"), "40"]
        self.check(argv, 40)


class Privileged(Host):
    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("needs root")

    def test_sudo(self):
        """It does not pass on LD_PRELOAD: nothing is recorded, nothing changed."""
        if not shutil.which("sudo"):
            self.skipTest("no sudo")
        self.check(["sudo", "-u", "nobody", e2e.victim("storm"), "child"], None)

    def test_su(self):
        os.chmod(self.folder, 0o777)
        self.check(["runuser", "-u", "nobody", "--", "/bin/true"], None)


class Bystanders(Host):
    """Programs without calls of their own: a preloaded library calls in each of their processes, and counts."""

    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o777)
        self.counts = os.path.join(self.folder, "counts")

    def watched(self, host, argv, prefix=(), calls=True):
        """The result, and the number of calls begun and completed."""
        with open(self.counts, "wb") as file:
            file.write(bytes(4096))
        os.chmod(self.counts, 0o666)
        self.fresh_run()
        os.mkdir(self.run_path)
        os.chmod(self.run_path, 0o777)
        env = self.environment(host, BYSTANDER_COUNTS=self.counts if calls else "", HOME=self.folder)
        env["LD_PRELOAD"] = ":".join(filter(None, [env.get("LD_PRELOAD"), e2e.library("bystander")]))
        result = subprocess.run([*prefix, *self.command(host, argv)], env=env, cwd=self.folder, stdin=subprocess.DEVNULL,
                                capture_output=True, timeout=120, check=False)
        with open(self.counts, "rb") as file:
            return result, struct.unpack("<qq", file.read(16))

    def test_chromium(self):
        """Also in its own sandbox, of namespaces and seccomp. No calls are made there: its zygotes insist on one
        thread, and a process in another pid namespace than the launcher's has a writer."""
        if not shutil.which("chromium"):
            self.skipTest("no chromium")
        page = os.path.join(self.folder, "page.html")
        with open(page, "w", encoding="ascii") as file:
            file.write("<p><script>document.write(6 * 7)</script></p>")
        argv = ["chromium", "--headless", "--disable-gpu", "--no-first-run", "--user-data-dir=" + self.folder + "/profile",
                "--dump-dom", "file://" + page]
        alone = ["--no-sandbox", "--single-process", "--no-zygote"]
        for host, prefix, options in (("launcher", NOBODY, []), ("writer", NOBODY, []), ("launcher", [], ["--no-sandbox"]),
                                      ("writer", [], alone)):
            with self.subTest(options=options, host=host):
                result, (begun, done) = self.watched(host, argv + options, prefix, calls=bool(options))
                self.assertEqual(result.returncode, 0, result.stderr[-2000:])
                self.assertIn(b"42", result.stdout)
                self.assertEqual(done > 0, bool(options))
                self.assertTrue(done - 10 <= (self.known() or 0) <= begun, (begun, done, self.known()))


if __name__ == "__main__":
    e2e.main()
