"""What is recorded, and when: DLHOOK_CAPTURE, DLHOOK_MAX_BYTES, DLHOOK_CLOCK, DLHOOK_START and `dlhook ctl`."""

import collections
import os

import e2e

CALL = ("cblas_sgemm", 10, 11, 12, "NT")


class Capture(e2e.Case):
    def functions(self, capture):
        self.fresh_run()
        result = self.under("writer", [e2e.victim("linked"), "1", "5"], DLHOOK_CAPTURE=capture)
        self.assertEqual((result.code, result.out, result.err),
                         tuple(e2e.run([e2e.victim("linked"), "1", "5"])))
        if not os.path.exists(self.run_path):
            return {}
        return dict(collections.Counter(e2e.one(c.op, "function") for c in e2e.Run(self.run_path).trace().calls))

    def test_families(self):
        level3 = {"cblas_sgemm": 5, "dgemm_": 5, "cblas_dtrsm": 5}
        level2 = {"cblas_dgemv": 5}
        cases = {"all": {**level3, **level2}, "blas": level3, "blas2": level2, "blas,blas2": {**level3, **level2},
                 "all,-blas2": level3, "all,-blas": level2, "none": {}, "onednn": {}}
        for capture, expected in cases.items():
            with self.subTest(capture=capture):
                self.assertEqual(self.functions(capture), expected)

    def test_an_unknown_family_is_no_reason_to_fail(self):
        # The known names in the list still count.
        self.assertEqual(self.functions("blas2,no-such-family"), {"cblas_dgemv": 5})

    def test_granted_families_are_in_the_header(self):
        self.functions("blas,onednn")
        granted = e2e.one(e2e.Run(self.run_path).trace().header, "capture_families")
        self.assertEqual(set(granted.split(",")), {"blas", "onednn"})


class Bounds(e2e.Case):
    def test_max_bytes(self):
        for host in ("launcher", "writer"):
            with self.subTest(host=host):
                # About 20 bytes per call: 1.6 MB without a limit. Rings of 8 MiB hold all calls, however slow the
                # drain.
                run = self.recorded(host, [e2e.victim("linked"), "2", "10000"], expected_code=3,
                                    DLHOOK_MAX_BYTES=300000, DLHOOK_RING_KIB=15 * 8192)
                (name,) = [name for name in run.files() if name.endswith(".dlh")]
                self.assertLess(os.path.getsize(os.path.join(run.path, name)), 600000)
                trace = run.trace()
                self.assert_no_loss(trace)
                self.assertTrue(trace.aggregates)
                counts = collections.Counter(e2e.problem(call.op) for call in trace.calls)
                for aggregate in trace.aggregates:
                    counts[e2e.problem(e2e.one(aggregate, "op"))] += e2e.one(aggregate, "count")
                self.assertEqual(set(counts.values()), {20000})
                self.assertEqual({row["calls"] for row in run.table("ops") if row["calls"] is not None}, {20000})

    def test_small_rings_lose_nothing_unseen(self):
        run = self.recorded("writer", [e2e.victim("linked"), "2", "20000"], expected_code=3, DLHOOK_RING_KIB=16)
        trace = run.trace()
        self.assertEqual(trace.known_count(), 160000)
        if trace.losses:
            self.assertEqual(trace.loss_reasons(), {"RING_FULL"})


class Clock(e2e.Case):
    def test_monotonic(self):
        trace = self.recorded("writer", [e2e.victim("nested"), "5"], DLHOOK_CLOCK="monotonic").trace()
        clock = e2e.one(trace.header, "clock")
        self.assertEqual((e2e.one(clock, "kind"), e2e.one(clock, "ticks_per_second")), ("MONOTONIC", 10**9))
        self.assertTrue(trace.clock_samples)

    def test_both_clocks_agree(self):
        # Ticks of the trace must be between its first and last clock samples.
        for clock in ("tsc", "monotonic"):
            with self.subTest(clock=clock):
                trace = self.recorded("writer", [e2e.victim("linked"), "1", "50"], expected_code=3,
                                      DLHOOK_CLOCK=clock).trace()
                ticks = [e2e.one(sample, "ticks") for sample in trace.clock_samples]
                loaded = e2e.one(trace.process, "shim_loaded_ticks")
                self.assertTrue(all(loaded <= call.end_ticks <= max(ticks) for call in trace.calls))


class Switch(e2e.Case):
    """The victim follows its standard input, so the test knows what ran while recording was on."""

    def start(self, host, **extra):
        self.fresh_run()
        process = e2e.start(self.command(host, [e2e.victim("stepwise")]), env=self.environment(host, **extra),
                            cwd=self.folder)
        for stream in (process.stdin, process.stdout, process.stderr):
            self.addCleanup(stream.close)
        self.addCleanup(process.kill)
        return process

    def step(self, process, calls):
        process.stdin.write(f"{calls}\n".encode())
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), f"{calls} done\n".encode())

    def ctl(self, verb, *words):
        result = e2e.run([e2e.DLHOOK, "ctl", verb, self.run_path, *words])
        self.assertEqual(result.code, 0, result.err.decode())
        return result.out.decode()

    def finish(self, process):
        process.stdin.close()
        self.assertEqual(process.wait(60), 0)
        return e2e.Run(self.run_path).trace()

    def test_stop_and_start(self):
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                process = self.start(host)
                self.step(process, 10)
                self.ctl("stop")
                self.assertIn("off", self.ctl("status").lower().replace("stopped", "off"))
                self.step(process, 100)
                self.ctl("start")
                self.step(process, 7)
                trace = self.finish(process)
                self.assert_problems(trace.calls, {CALL: 17})
                if host != "rings":  # without a drain the times of the switch are not recorded
                    self.assertEqual([e2e.one(state, "recording", False) for state in trace.capture_states][-2:],
                                     [False, True])

    def test_start_off(self):
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                process = self.start(host, DLHOOK_START="off")
                self.step(process, 30)
                self.ctl("start")
                self.step(process, 5)
                self.ctl("stop")
                self.step(process, 40)
                self.assert_problems(self.finish(process).calls, {CALL: 5})

    def test_one_process_of_a_run(self):
        first = self.start("writer")
        second = e2e.start([e2e.victim("stepwise")], env=self.environment("writer"), cwd=self.folder)
        for end in (second.stdin, second.stdout, second.stderr):
            self.addCleanup(end.close)
        self.addCleanup(second.kill)
        for process in (first, second):
            self.step(process, 1)
        self.assertEqual(self.ctl("stop", "--process", str(second.pid)).count("\n"), 1)
        for process in (first, second):
            self.step(process, 10)
        for process in (first, second):
            process.stdin.close()
            self.assertEqual(process.wait(60), 0)
        calls = {trace.pid: len(trace.calls) for trace in e2e.Run(self.run_path).traces()}
        self.assertEqual(calls, {first.pid: 11, second.pid: 1})
        for number, words in ((str(first.pid), b"does not record into this folder"), ("x", b"expects the number of a process")):
            result = e2e.run([e2e.DLHOOK, "ctl", "stop", self.run_path, "--process", number])
            self.assertEqual(result.code, 2)
            self.assertIn(words, result.err)

    def test_nothing_is_recorded_when_never_started(self):
        result = self.under("writer", [e2e.victim("nested"), "5"], DLHOOK_START="off")
        self.assertEqual(result.code, 0)
        for trace in e2e.Run(self.run_path).traces() if e2e.Run(self.run_path).files() else []:
            self.assertEqual(trace.calls, [])

    def test_ctl_on_a_run_that_is_no_run(self):
        for path in (os.path.join(self.folder, "missing"), self.folder):
            result = e2e.run([e2e.DLHOOK, "ctl", "stop", path])
            self.assertEqual(result.code, 2)
            self.assertIn(path, result.err.decode())

    def test_ctl_on_a_folder_that_may_not_be_listed(self):
        os.chmod(self.folder, 0o755)
        os.mkdir(self.run_path)
        os.chmod(self.run_path, 0o311)
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        for action in ("status", "start", "stop"):
            result = e2e.run([*nobody, e2e.DLHOOK, "ctl", action, self.run_path])
            self.assertEqual(result.code, 2)
            self.assertIn(b"Permission denied; so it is not known whether a process records into it", result.err)


class Verbose(e2e.Case):
    def test_at_most_one_line(self):
        plain = e2e.run([e2e.victim("nested"), "5"])
        result = self.under("writer", [e2e.victim("nested"), "5"], DLHOOK_VERBOSE="1")
        self.assertEqual((result.code, result.out), (plain.code, plain.out))
        self.assertLessEqual(result.err.count(b"\n"), 1)

    def test_names_can_not_speak_to_the_terminal(self):
        out = os.path.join(self.folder, "x\x1b[31m\u202e\u00e9\n")
        result = e2e.run([e2e.victim("nested"), "5"], env=self.environment("writer", DLHOOK_VERBOSE="1", DLHOOK_OUT=out))
        self.assertIn(b"/x\\x1b[31m\\xe2\\x80\\xae\xc3\xa9\\x0a/", result.err)
        self.assertEqual(result.err.count(b"\n"), 1)


if __name__ == "__main__":
    e2e.main()
