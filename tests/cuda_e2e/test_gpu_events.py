"""GPU times from pairs of events (DLHOOK_GPU=events), compared with the cost model of the fakes.

The clock of a fake stream only advances with its own work, so the time between two events is, to the nanosecond, that
of the work submitted between them.
"""

import collections
import re

import cuda_e2e
import e2e
import gpu_trace

# Calls that events need: they are dlhook's, unless the program makes them.
OWN = re.compile(r"cu(Event(Create|Destroy_v2|Record|Query|ElapsedTime)|Stream(Create|Destroy_v2|IsCapturing)|"
                 r"ThreadExchangeStreamCaptureMode|Ctx(GetCurrent|PushCurrent_v2|PopCurrent_v2|GetDevice)|Device\w+|"
                 r"DriverGetVersion|(blas|dnn|sparse)GetStream(_v2)?)$")
# The kinds of dlhook's activities for the devices' work.
KINDS = {"K": "OP", "C": "COPY", "S": "SET"}


def work_of(calls):
    """{index of a call of depth 0: [the devices' work for it]}, including work of calls inside it."""
    work, outer = collections.defaultdict(list), {}
    for index, call in enumerate(calls):
        if call.depth == 0:
            outer[call.thread] = index
        work[outer[call.thread]] += [activity for activity in call.gpu if activity.kind != "G"]
    return {index: done for index, done in work.items() if done}


def nanoseconds(work):
    return sum(done.end_ns - done.start_ns for done in work)


class Case(cuda_e2e.Case):
    def timed(self, victim, *arguments, code=0, **extra):
        """The trace of a run with events, in which the program behaved as without dlhook."""
        argv = [e2e.victim(victim), *map(str, arguments)]
        plain = self.plain(argv, **extra)
        self.cuda(argv, expected_code=code, DLHOOK_GPU="off", **extra)
        before = self.calls_of_the_program()
        run, result = self.cuda(argv, expected_code=code, DLHOOK_GPU="events", **extra)
        self.assertEqual((result.out, result.err), (plain.out, plain.err))
        self.assertEqual(self.calls_of_the_program(), before)
        (trace,) = run.traces(gpu_trace.GpuTrace)
        self.assertEqual([window[1:] for window in trace.windows], [("GPU_TIME_EVENTS", "DLHOOK_GPU=events")])
        return trace

    def calls_of_the_program(self):
        """By thread, in the order of the fakes' log."""
        threads = collections.defaultdict(list)
        for call in self.log():
            if not OWN.match(call.function):
                status = call.status if call.status.lstrip("-").isdigit() else ""
                threads[call.thread].append((call.function, status))
        return sorted(calls for calls in threads.values() if calls)

    def activities(self, trace):
        found = {activity.call: activity for activity in trace.activities}
        self.assertEqual(len(found), len(trace.activities), "a call was timed twice")
        self.assertEqual({activity.source for activity in trace.activities} - {"GPU_TIME_EVENTS"}, set())
        return found

    def rows(self, trace):
        """[(function, the devices' work for the call, its activity or None)] of a victim with one thread."""
        log, activities = self.log(None), self.activities(trace)
        work = work_of(log)
        functions = {log[index].function for index in work}
        named = sorted((call[:2], call.op["function"][0]) for call in trace.top_calls())
        recorded = [(call, function) for call, function in named if function in functions]
        logged = [index for index, call in enumerate(log) if call.depth == 0 and call.function in functions]
        self.assertEqual([function for _, function in recorded], [log[index].function for index in logged])
        rows = [(function, work.get(index, []), activities.pop(call, None))
                for (call, function), index in zip(recorded, logged, strict=True)]  # fmt: skip
        too_many = [item for item in activities.values() if item.end_ns != item.start_ns]
        self.assertEqual(too_many, [], "times of calls that did nothing")
        return rows

    def check(self, victim, *arguments, least, untimed=(), **extra):
        """Every call that submitted GPU work has its time, except calls of `untimed` functions."""
        trace = self.timed(victim, *arguments, **extra)
        rows = [row for row in self.rows(trace) if row[1]]
        self.assertGreaterEqual(len(rows), least)
        for function, work, activity in rows:
            if function in untimed:
                self.assertIsNone(activity)
                continue
            self.assertIsNotNone(activity, (function, work))
            if function.endswith(("_ptsz", "_ptds")):
                continue  # timed on the thread's own stream, while the fakes work on the legacy one
            modelled = nanoseconds(work)  # reported as a float of milliseconds
            self.assertAlmostEqual(activity.end_ns - activity.start_ns, modelled, delta=modelled * 2**-23, msg=function)
            self.assertEqual({activity.device}, {done.device for done in work}, function)
            self.assertIn(activity.kind, {KINDS[done.kind] for done in work} | {"OP"}, function)
        self.assert_no_loss(trace)
        return trace

    def capability(self, trace, name="gpu-events"):
        return [e2e.one(item, "reason", "") for item in trace.capabilities if e2e.one(item, "name") == name]


class Times(Case):
    def test_launches_and_captures(self):
        self.check("launches", least=11)

    def test_copies_of_every_form(self):
        # The stream is at another place in every version.
        trace = self.check("copies", least=30, untimed=("cudaMemcpyBatchAsync",), DLHOOK_FAKE_DEVICES=2)
        self.assertEqual({activity.kind for activity in trace.activities} - {"OP"}, {"COPY", "SET"})

    def test_convolutions(self):
        # Nested: cuDNN launches its kernels through the driver, whose functions are also hooked.
        for nested in (0, 1):
            with self.subTest(nested=nested):
                self.check("legacy", "caffe", least=5, generation="cuda12", DLHOOK_FAKE_NESTED=nested)

    def test_two_streams(self):
        trace = self.check("gpu_work", "streams", 2, least=36)
        by_stream = collections.defaultdict(list)
        for activity in trace.activities:
            by_stream[activity.stream].append(activity)
        self.assertEqual(len(by_stream), 3)
        for activities in by_stream.values():  # in order: nothing else advances the stream's clock
            activities.sort(key=lambda activity: activity.start_ns)
            for before, after in zip(activities, activities[1:], strict=False):
                # The anchor is farther away than floats can represent exactly.
                self.assertAlmostEqual(after.start_ns, before.end_ns, delta=2)

    def test_two_devices(self):
        trace = self.check("gpu_work", "devices", least=3, DLHOOK_FAKE_DEVICES=2)
        self.assertEqual({activity.device for activity in trace.activities}, {0, 1})
        self.assertEqual(set(trace.devices), {0, 1})

    def test_a_launched_graph_is_one_op(self):
        trace = self.check("gpu_work", "graph", least=3)
        self.assertEqual(len(trace.activities), 3)

    def test_threads(self):
        trace = self.timed("gpu_work", "threads", 50)
        log, activities = self.log(None), self.activities(trace)
        launches = [call for call in trace.top_calls() if call.op["function"][0] == "cudaLaunchKernel"]
        self.assertEqual(len(launches), 200)
        self.assertEqual([call[:2] for call in launches if call[:2] not in activities], [])
        # A pair also spans other threads' work on the stream; never less than its own work.
        shortest = min(nanoseconds(work) for work in work_of(log).values())
        self.assertGreaterEqual(min(item.end_ns - item.start_ns for item in activities.values()), shortest)


class BadCases(Case):
    def test_a_device_is_reset(self):
        self.check("gpu_work", "reset", least=38)
        # All events have been returned before that.
        log = self.log()
        reset = next(index for index, call in enumerate(log) if call.function == "cudaDeviceReset")
        before = collections.Counter(call.function for call in log[:reset])
        made, destroyed = before["cuEventCreate"], before["cuEventDestroy_v2"]
        self.assertGreater(made, 0)
        self.assertEqual(made, destroyed)

    def test_a_forked_child_makes_no_pairs(self):
        argv = [e2e.victim("gpu_work"), "fork"]
        run, _ = self.cuda(argv, DLHOOK_GPU="events")
        traces = sorted(run.traces(gpu_trace.GpuTrace), key=lambda trace: len(trace.activities))
        self.assertEqual([len(trace.activities) for trace in traces], [0, 2])

    def test_event_functions_fail(self):
        for function, status in (("cuEventCreate", 2), ("cuEventRecord", 400), ("cuEventElapsedTime", 400),
                                 ("cuEventQuery", 700), ("cuStreamCreate", 2), ("cuCtxPushCurrent_v2", 201),
                                 ("cuStreamIsCapturing", 999)):  # fmt: skip
            with self.subTest(function):
                trace = self.timed("gpu_work", "streams", 2, DLHOOK_FAKE_FAIL=f"{function}:*:{status}")
                self.assertEqual(trace.activities, [])

    def test_one_event_in_the_middle_fails(self):
        trace = self.timed("gpu_work", "streams", 2, DLHOOK_FAKE_FAIL="cuEventRecord:20:400")
        rows = [row for row in self.rows(trace) if row[1]]
        timed = [row for row in rows if row[2] is not None]
        self.assertEqual(len(rows) - len(timed), 1)
        for _, work, activity in timed:
            self.assertEqual(activity.end_ns - activity.start_ns, nanoseconds(work))
        self.assertEqual(self.capability(trace), ["calls without times: 1 (the driver refused an event)"])

    def test_the_programs_last_error_stays(self):
        # The victim prints the result of cudaGetLastError, which must not show failures of dlhook's events.
        failures = "cudaMemcpyAsync:1:700,cudaMemcpy:3:700,cudaLaunchKernel:1:98,cudaDeviceSynchronize:1:700"
        for ours in ("", ",cuEventRecord:*:700", ",cuEventQuery:*:700"):
            with self.subTest(ours):
                self.timed("fails", "copies", DLHOOK_FAKE_FAIL=failures + ours)

    def test_work_is_under_way_at_the_end(self):
        # Each copy takes half a minute of the host's time.
        trace = self.timed("gpu_work", "many", 20, DLHOOK_FAKE_WAITS=1, DLHOOK_FAKE_SLOW=10_000_000)
        self.assertEqual(trace.activities, [])
        self.assertEqual(self.capability(trace), ["calls without times: 20 (under way at the end)"])

    def test_cupti_without_permission(self):
        argv = [e2e.victim("gpu_work"), "streams", "2"]
        run, _ = self.cuda(argv, DLHOOK_FAKE_FAIL="cuptiActivityEnable:*:35")
        (trace,) = run.traces(gpu_trace.GpuTrace)
        self.assertEqual([window[1] for window in trace.windows], ["GPU_TIME_EVENTS"])
        rows = [row for row in self.rows(trace) if row[1]]
        self.assertGreaterEqual(len(rows), 36)
        for function, work, activity in rows:
            self.assertEqual(activity.end_ns - activity.start_ns, nanoseconds(work), function)

    def test_too_many_under_way(self):
        trace = self.timed("gpu_work", "many", 5000, DLHOOK_FAKE_WAITS=1, DLHOOK_FAKE_SLOW=10_000_000)
        expected = "calls without times: 904 (too many were under way), 4096 (under way at the end)"
        self.assertEqual(self.capability(trace), [expected])

    def test_many_more_than_pairs(self):
        trace = self.timed("gpu_work", "bursts", 5)
        self.assertGreater(len(trace.activities), 4096)
        untimed = sum(int(count) for reason in self.capability(trace) for count in re.findall(r"(\d+) \(", reason))
        self.assertEqual(len(trace.activities) + untimed, 10000)


if __name__ == "__main__":
    cuda_e2e.main()
