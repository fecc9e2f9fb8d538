"""Processes that run out of a resource, drop a right, take all descriptors, fork without pause: each behaves as without
dlhook, and its calls are recorded or, if that is impossible, counted.
"""

import glob
import os
import resource
import unittest

import e2e


class Hostile(e2e.Case):
    def known(self, traces):
        """The number of recorded calls, and of those known to be lost."""
        return sum(trace.known_count() for trace in traces)

    def traces(self):
        """Of the run folder, if there is one with traces."""
        run = e2e.Run(self.run_path)
        return run.traces() if any(name.endswith(".dlh") for name in run.files()) else []

    def check(self, argv, calls, lost=0, **where):
        """Behaves under each host as without dlhook, with this number of recorded calls and of calls known to be lost
        (None: any)."""
        plain = e2e.run(argv, **where)
        for host in e2e.HOSTS:
            with self.subTest(argv=argv, host=host):
                self.fresh_run()
                self.assert_same_behaviour(plain, self.under(host, argv), host)
                traces = self.traces()
                self.assertEqual(self.known(traces), calls)
                if lost is not None:
                    self.assertEqual(sum(trace.loss_count() for trace in traces), lost)
        return plain


class Limits(Hostile):
    def limit(self, resource, before, later, lost=0):
        """Calls known if the limit exists before the first call, and if it is set later."""
        for when, calls in (("before", before), ("later", later)):
            self.check([e2e.victim("limits"), resource, when], calls, lost)

    def test_descriptors(self):
        self.limit("descriptors", 0, 60)  # without any descriptor there is no trace

    def test_address_space(self):
        self.limit("address_space", 0, 60)

    def test_file_size(self):
        self.limit("file_size", 50, 60, lost=None)  # as much as fits in a file of 4 KiB

    def test_file_size_of_the_launcher(self):
        """It continues if it may not write, and reports the loss."""
        process = e2e.start(self.command("launcher", [e2e.victim("stepwise")]), env=self.environment("launcher"),
                            cwd=self.folder)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        for calls in (10, 20000):
            process.stdin.write(f"{calls}\n".encode())
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), f"{calls} done\n".encode())
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (8192, 8192))
        process.stdin.close()
        self.assertEqual(process.wait(60), 0)
        traces = self.traces()
        self.assertEqual(self.known(traces), 20010)
        self.assertIn("OUTPUT_FULL", traces[0].loss_reasons())

    def test_processes(self):
        self.limit("processes", 50, 60)

    @unittest.skipUnless(os.getuid() == 0, "takes a user who has no other processes")
    def test_the_last_process(self):
        """It is the host's: the rings are drained by a reader of the run."""
        os.chmod(self.folder, 0o777)
        argv = [e2e.victim("limits"), "processes_left", "before"]
        plain = e2e.run(argv, cwd=self.folder)
        self.assertIn(b"5 threads", plain.out)
        self.assert_same_behaviour(plain, self.under("writer", argv), "writer")
        self.assertEqual(self.known(self.traces()), 60)
        for link in glob.glob(os.path.join(self.run_path, "*.ring")):
            os.remove(os.readlink(link))  # a reader may not remove another user's rings

    def test_locked_memory(self):
        self.limit("locked", 50, 60)

    def test_little_locked_memory(self):
        self.limit("locked_little", 50, 60)

    def test_small_stacks(self):
        self.check([e2e.victim("small_stacks"), "40"], 40)
        script = f"ulimit -s 100; exec {e2e.victim('small_stacks')} 40"
        self.check(["/bin/sh", "-c", script], 40)

    def test_small_alternate_stacks(self):
        sizes = range(2048, 16384, 256)
        least = next(size for size in sizes if e2e.run([e2e.victim("small_stacks"), "4", str(size)]).code == 0)
        self.check([e2e.victim("small_stacks"), "4", str(least + 2048 + sizes.step)], 4)


class Privileges(Hostile):
    def give_away(self, what, before, later, *arguments):
        for when, calls in (("before", before), ("later", later)):
            if calls is None:
                continue
            plain = self.check([e2e.victim("privileges"), what, when, *arguments], calls)
            if plain.out.startswith(b"-1"):
                self.skipTest(f"{what}: {plain.out.splitlines()[0].decode()} without dlhook, too")

    def test_group(self):
        self.give_away("setgid", None, 30)

    def test_user(self):
        # Not before: then it may not write into this folder, and uses the one tested in test_places.py.
        self.give_away("setuid", None, 30)

    def test_user_namespace(self):
        self.give_away("user_namespace", 20, 30)

    def test_process_namespace(self):
        self.give_away("pid_namespace", 10, 20)  # no more threads: also without dlhook, the last ten calls are not made

    def test_root_directory(self):
        jail = os.path.join(self.folder, "jail")
        os.mkdir(jail)
        self.give_away("chroot", None, 30, jail)
        self.assertEqual(os.listdir(jail), [])

    def test_dump(self):
        self.give_away("undumpable", 20, 30)

    def test_system_calls(self):
        # No system call in the steady state. Before the first call this can't work: it needs some.
        self.give_away("filter", None, 20)


class Descriptors(Hostile):
    def test_all_are_taken(self):
        file = os.path.join(self.folder, "file")
        self.check([e2e.victim("descriptors"), "30", file], 3000)
        self.assertEqual(os.path.getsize(file), 0)


class Storm(Hostile):
    def test_forks(self):
        # Three rounds: 5 calls of a forked child and its grandchild, 1 of vfork's, 5 of a spawned one's, 3 of the
        # parent.
        self.check([e2e.victim("storm"), "4", "12"], 4 * 4 * 14 + 2 * 2000)

    def test_clone(self):
        self.check([e2e.victim("storm"), "clone", "20"], 60)


if __name__ == "__main__":
    e2e.main()
