"""Counters (DLHOOK_COUNTERS) of small programs, compared with the program's own getrusage; and of difficult programs:
they close and reuse descriptors, fork, exec, are killed, have hundreds of threads."""

import collections
import os
import unittest

import e2e

SOFTWARE = ("task-clock", "minor-faults", "major-faults", "voluntary-switches", "involuntary-switches")
Series = collections.namedtuple("Series", "thread_id tid kind source names")


def counters_of(folder):
    """{pid: ({Series: [(ticks, values, enabled, running)]}, {name of a counter: (state, reason)}, losses, threads)}."""
    found = {}
    for path in sorted(os.listdir(folder)):
        if not path.endswith(".dlh"):
            continue
        dump = e2e.run([e2e.DLHOOK, "dump", os.path.join(folder, path)])
        assert dump.code == 0, dump.err
        pid = int(path[:-4].rsplit("-", 1)[1])
        found[pid] = decode(e2e.parse_textproto(dump.out.decode()).get("packet", []))
    return found


def decode(packets):
    strings, series, capabilities, losses, threads = {}, {}, {}, [], {}
    for packet in packets:
        (kind, (data,)), = packet.items()
        if kind == "interned":
            strings.update((e2e.one(s, "iid"), e2e.one(s, "value")) for s in data.get("string", []))
        elif kind == "reset":
            strings = {}
        elif kind == "capability" and e2e.one(data, "name").startswith("counter"):
            told = (e2e.one(data, "state"), e2e.one(data, "reason", ""))
            capabilities[e2e.one(data, "name").partition(":")[2]] = told
        elif kind == "loss":
            losses.append(data)
        elif kind == "thread":
            threads.setdefault(e2e.one(data, "thread_id", 0), {}).update(data)
        elif kind == "counter_batch":
            add_readings(data, strings, series)
    return series, capabilities, losses, threads


def add_readings(batch, strings, series):
    names = tuple(strings[iid] for iid in batch["name_iid"])
    key = Series(e2e.one(batch, "thread_id", 0), e2e.one(batch, "tid", 0), e2e.one(batch, "kind"),
                 e2e.one(batch, "source"), names)
    count, ticks, values, enabled, running = len(names), 0, [0] * len(names), 0, 0
    for i, delta in enumerate(batch["tick_delta"]):
        ticks += delta
        values = [a + b for a, b in zip(values, batch["value_delta"][i * count:(i + 1) * count], strict=True)]
        if "enabled_delta_ns" in batch:
            enabled += batch["enabled_delta_ns"][i]
            running += batch["running_delta_ns"][i]
        series.setdefault(key, []).append((ticks, tuple(values), enabled, running))


class CountersCase(e2e.Case):
    def counted(self, host, *words, code=0, **extra):
        """The record of `counted WORDS`, and the program's own output: {pid: usage}."""
        self.fresh_run()
        result = self.under(host, [e2e.victim("counted"), *words], **{"DLHOOK_COUNTERS": "software", **extra})
        self.assertEqual(e2e.shell_code(result.code), code, result.err.decode()[-2000:])
        lines = [line.split() for line in result.out.decode().splitlines()]
        usage = {int(w[0]): dict(zip(SOFTWARE, map(int, w[1:]))) for w in lines if len(w) == 6}
        self.lines = [line for line in lines if len(line) != 6]
        found = counters_of(self.run_path)
        for series, *_ in found.values():
            self.assert_ascending(series)
        return found, usage

    def assert_ascending(self, series):
        for key, readings in series.items():
            for before, after in zip(readings, readings[1:]):
                self.assertLessEqual(before[0], after[0], key)
                self.assertTrue(all(a <= b for a, b in zip(before[1], after[1])), (key, before, after))

    def assert_close(self, counted, told):
        """The reading at the process's end, against the program's own a moment before."""
        for name in ("task-clock", "minor-faults", "voluntary-switches"):
            self.assertGreaterEqual(counted[name], told[name], name)
        self.assertLessEqual(counted["minor-faults"], told["minor-faults"] + 200)
        self.assertEqual(counted["major-faults"], told["major-faults"])

    @staticmethod
    def last(series, **wanted):
        """The last values of all matching series, summed by name."""
        sums = collections.Counter()
        for key, readings in series.items():
            if all(getattr(key, field) == value for field, value in wanted.items()):
                sums.update(dict(zip(key.names, readings[-1][1])))
        return sums


class Counters(CountersCase):
    def test_process_and_threads_tell_what_getrusage_tells(self):
        for host in ("launcher", "writer"):
            with self.subTest(host=host):
                found, usage = self.counted(host, "plain")
                (pid, (series, capabilities, losses, _)), = found.items()
                self.assertEqual(losses, [])
                self.assertEqual({capabilities[name][0] for name in SOFTWARE}, {"ON"})
                process = self.last(series, thread_id=0, tid=0, kind="BOUNDARY", source="RUSAGE")
                self.assert_close(process, usage[pid])
                self.assertEqual(set(process), set(SOFTWARE))
                # The program's only thread; the drain's is distinguished.
                main = self.last(series, tid=pid, kind="BOUNDARY")
                self.assertLessEqual(main["minor-faults"], process["minor-faults"])
                self.assertGreaterEqual(main["minor-faults"], 200)

    def test_readings_around_calls_see_what_happens_between(self):
        found, _ = self.counted("writer", "plain", DLHOOK_COUNTERS_AT="call")
        (pid, (series, *_)), = found.items()
        (readings,) = [r for key, r in series.items() if key.kind == "BOUNDARY" and key.tid == pid]
        self.assertGreaterEqual(len(readings), 2 * 80)  # two around each of 80 calls
        faults = [b[1][1] - a[1][1] for a, b in zip(readings, readings[1:])]
        self.assertEqual(sum(100 <= f < 200 for f in faults), 2)  # around the call that touches 100 pages, twice

    def test_threads_without_calls_are_sampled(self):
        for host in ("launcher", "writer"):
            with self.subTest(host=host):
                found, _ = self.counted(host, "silent", "3")
                (pid, (series, _, _, threads)), = found.items()
                ours = {e2e.one(t, "tid") for t in threads.values() if e2e.one(t, "name") == "dlhook"}
                self.assertEqual(len(ours), int(host == "writer"))
                silent = {key.tid: readings[-1][1][key.names.index("minor-faults")] for key, readings in series.items()
                          if key.thread_id == 0 and key.tid not in (0, pid) and "minor-faults" in key.names}
                self.assertEqual(len(silent), 3, silent)
                for faults in silent.values():
                    self.assertGreaterEqual(faults, 2000)
                    self.assertLess(faults, 2100)
                for key, readings in series.items():
                    if key.kind == "SAMPLE":
                        is_whole = key.source == "PROC" and key.thread_id == 0  # from the thread's beginning
                        self.assertEqual(set(readings[0][1]) if is_whole else {0}, {0}, key)

    def test_300_threads(self):
        found, usage = self.counted("writer", "threads", "300")
        (pid, (series, *_)), = found.items()
        faults = [r[-1][1][1] - r[0][1][1] for key, r in series.items()
                  if key.kind == "BOUNDARY" and key.thread_id > 1]
        self.assertGreaterEqual(len(faults), 200)  # the number of rings
        self.assertGreaterEqual(min(faults), 100)
        self.assertLessEqual(sorted(faults)[len(faults) // 2], 150)  # a ring's first use has some faults of its own
        self.assert_close(self.last(series, thread_id=0, tid=0, kind="BOUNDARY"), usage[pid])

    def test_a_forked_child_starts_over(self):
        found, usage = self.counted("writer", "fork")
        self.assertEqual(len(found), 2)
        self.assertEqual(set(found), set(usage))
        for pid, (series, *_) in found.items():
            self.assert_close(self.last(series, thread_id=0, tid=0, kind="BOUNDARY"), usage[pid])
        child = max(found)
        begun = [r[0][1][1] for key, r in found[child][0].items() if key.kind == "BOUNDARY" and key.tid == child]
        self.assertGreaterEqual(begun[0], 500)  # the 500 pages before its first call count from its beginning

    def test_exec(self):
        found, usage = self.counted("launcher", "exec")
        self.assertTrue(usage)
        self.assertTrue(all(series for series, *_ in found.values()))

    def test_a_killed_process_leaves_what_was_read(self):
        for host in ("launcher", "writer"):
            with self.subTest(host=host):
                found, _ = self.counted(host, "kill", code=137, DLHOOK_COUNTERS_AT="call")
                (pid, (series, *_)), = found.items()
                self.assertGreaterEqual(self.last(series, tid=pid, kind="BOUNDARY")["minor-faults"], 100)

    def test_an_interval_of_none_takes_no_samples(self):
        found, _ = self.counted("writer", "silent", "1", DLHOOK_COUNTERS_MS="0")
        (_, (series, *_)), = found.items()
        self.assertEqual({key.kind for key in series}, {"BOUNDARY"})

    def test_over_time_only(self):
        found, _ = self.counted("writer", "silent", "1", DLHOOK_COUNTERS_AT="time")
        (_, (series, *_)), = found.items()
        self.assertEqual({key.kind for key in series}, {"SAMPLE"})

    def test_what_can_not_be_counted_is_told(self):
        found, _ = self.counted("writer", "plain", DLHOOK_COUNTERS="task-clock,no-such-thing,r1ffffff")
        (_, (series, capabilities, _, _)), = found.items()
        self.assertIn("no-such-thing", capabilities[""][1])
        self.assertEqual(capabilities["r1ffffff"][0], "REFUSED")
        self.assertTrue(capabilities["r1ffffff"][1])
        self.assertEqual({key.names for key in series}, {("task-clock",)})

    def test_recorded_readings_stand_for_a_processor(self):
        path = os.path.join(self.folder, "readings")
        with open(path, "w", encoding="utf-8") as out:
            out.write("counters cycles instructions\nadd 1000 2000\nadd 500 900 enabled 10 running 5\n")
        found, _ = self.counted("writer", "plain", DLHOOK_COUNTERS="cycles,instructions", DLHOOK_TESTING_COUNTERS=path,
                                DLHOOK_COUNTERS_AT="call")
        (pid, (series, capabilities, _, _)), = found.items()
        self.assertEqual(capabilities["cycles"][0], "ON")
        readings = series[Series(1, pid, "BOUNDARY", "REPLAY", ("cycles", "instructions"))]
        self.assertEqual([r[1:] for r in readings[:4]], [((1000, 2000), 0, 0), ((1500, 2900), 10, 5),
                                                         ((2500, 4900), 10, 5), ((3000, 5800), 20, 10)])

    def test_signal_handlers_that_call_while_counters_are_read(self):
        found, _ = self.counted("writer", "signals", DLHOOK_COUNTERS="software,cpu-clock", DLHOOK_COUNTERS_AT="call")
        (_, (series, *_)), = found.items()
        self.assertTrue(series)  # counted() has checked that all ascend

    def test_signal_handlers_that_fork_while_counters_are_read(self):
        self.counted("writer", "forks", "60", DLHOOK_COUNTERS="task-clock,page-faults", DLHOOK_COUNTERS_AT="call")
        # Those forked while a record is written never leave it, with or without counters: one in fifty.
        self.assertLess(int(self.lines[0][0]), 60 // 4)

    def test_the_collector_has_descriptors_for_all_processes(self):
        self.fresh_run()
        script = 'ulimit -n 64; exec "$@"'
        argv = ["sh", "-c", script, "sh", *self.command("launcher", [e2e.victim("counted"), "family", "5"])]
        result = e2e.run(argv, env=self.environment("launcher", DLHOOK_COUNTERS="software"))
        self.assertEqual(result.code, 0, result.err)
        self.assertNotIn(b"can't be opened", result.err)
        found = counters_of(self.run_path)
        self.assertEqual(len(found), 6)
        parent = min(found)
        for pid, (series, *_) in found.items():
            sampled = {key.tid for key in series if key.kind == "SAMPLE" and key.tid not in (0, pid)}
            self.assertEqual(len(sampled), 0 if pid == parent else 12, pid)

    def papi(self, *words, counters):
        """With a PAPI library of the test's own: Debian's counts nothing on machines without processor counters."""
        os.symlink(e2e.library("papi_counting"), os.path.join(self.folder, "libpapi.so.7"))
        found, _ = self.counted("writer", *words, DLHOOK_COUNTERS=counters, DLHOOK_COUNTERS_AT="call",
                                LD_LIBRARY_PATH=self.folder)
        (pid, (series, capabilities, _, _)), = found.items()
        return pid, series, capabilities

    def test_papi(self):
        pid, series, capabilities = self.papi("plain", counters="task-clock,PAPI_TOT_INS,PAPI_FP_OPS")
        self.assertEqual(capabilities["PAPI_TOT_INS"], ("ON", "PAPI"))
        self.assertEqual(capabilities["PAPI_FP_OPS"], ("REFUSED", "PAPI can't count it here: Event does not exist"))
        readings = series[Series(1, pid, "BOUNDARY", "PAPI", ("PAPI_TOT_INS",))]
        self.assertGreaterEqual(len(readings), 2 * 80)
        self.assertEqual([r[1][0] for r in readings], [7 * (i + 1) for i in range(len(readings))])

    def test_more_threads_than_papi_takes(self):
        _, series, capabilities = self.papi("together", "20", counters="PAPI_TOT_INS")
        self.assertEqual(capabilities["PAPI_TOT_INS"], ("LOST", "Insufficient memory"))
        self.assertTrue(series)

    def test_papi_is_not_used_by_a_forked_child(self):
        os.symlink(e2e.library("papi_counting"), os.path.join(self.folder, "libpapi.so.7"))
        found, usage = self.counted("writer", "fork", DLHOOK_COUNTERS="PAPI_TOT_INS", DLHOOK_COUNTERS_AT="call",
                                    LD_LIBRARY_PATH=self.folder)
        self.assertEqual(set(found), set(usage))  # both ended normally
        parent, child = sorted(found)
        self.assertEqual(found[parent][1]["PAPI_TOT_INS"], ("ON", "PAPI"))
        state, reason = found[child][1]["PAPI_TOT_INS"]
        self.assertEqual(state, "LOST")
        self.assertIn("fork", reason)
        self.assertEqual({key.kind for key in found[child][0]}, set())

    def test_papi_does_not_need_the_threads_stack(self):
        os.symlink(e2e.library("papi_counting"), os.path.join(self.folder, "libpapi.so.7"))
        self.fresh_run()
        result = self.under("writer", [e2e.victim("small_stacks"), "3"], DLHOOK_COUNTERS="PAPI_TOT_INS",
                            DLHOOK_COUNTERS_AT="call", LD_LIBRARY_PATH=self.folder)
        self.assertEqual((result.code, result.out), (0, b"done\n"), result.err)
        (_, (series, *_)), = counters_of(self.run_path).items()
        self.assertEqual(len(series), 3)


class PerfDescriptors(CountersCase):
    """Groups of perf events that are read through descriptors: the kernel's own cpu-clock, which has no cheaper
    source."""

    def perf(self, *words, **extra):
        found, usage = self.counted("writer", *words, DLHOOK_COUNTERS="cpu-clock,task-clock", DLHOOK_COUNTERS_AT="call",
                                    DLHOOK_COUNTERS_MS="0", **extra)
        capabilities = [c for _, c, *_ in found.values()]
        if all(c["cpu-clock"][0] == "REFUSED" for c in capabilities):
            raise unittest.SkipTest("perf_event_open: " + capabilities[0]["cpu-clock"][1])
        return found, usage

    def test_agrees_with_the_clock_of_the_scheduler(self):
        found, _ = self.perf("signals")
        (pid, (series, *_)), = found.items()
        clock = series[Series(1, pid, "BOUNDARY", "PERF_READ", ("cpu-clock",))]
        task = series[Series(1, pid, "BOUNDARY", "RUSAGE", ("task-clock",))]
        counted, told = clock[-1][1][0] - clock[0][1][0], task[-1][1][0] - task[0][1][0]
        self.assertLess(abs(counted - told), 0.05 * told + 1e6)

    def test_a_host_that_reuses_them_keeps_its_data(self):
        self.perf("descriptors")
        self.assertEqual(self.lines, [["1", "taken"]])

    def test_a_host_that_closes_all(self):
        found, usage = self.perf("daemon")
        (pid, (series, *_)), = found.items()
        clock = series[Series(1, pid, "BOUNDARY", "PERF_READ", ("cpu-clock",))]
        self.assertLess(len(clock), 100)  # 80 calls before, none after
        self.assertIn(pid, usage)

    def test_more_threads_than_there_may_be_descriptors(self):
        found, usage = self.perf("threads", "300")
        (pid, (_, capabilities, _, _)), = found.items()
        self.assertIn(pid, usage)
        self.assertIn(capabilities["cpu-clock"][0], ("ON", "LOST"))


if __name__ == "__main__":
    e2e.main()
