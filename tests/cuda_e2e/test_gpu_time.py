"""GPU times from CUPTI: the fakes' own, to the nanosecond, and the behaviour if CUPTI is not available or
misbehaves."""

import collections
import errno
import glob
import os
import time

import cuda_e2e
import e2e
import gpu_trace

MUCH_KIB = 65536  # rings that lose nothing even on a busy machine

KINDS = {"K": "KERNEL", "C": "COPY", "S": "SET"}

# A piece of work as reported by both witnesses.
Work = collections.namedtuple("Work", "start_ns end_ns kind device stream bytes name asked_by node")


class Case(cuda_e2e.Case):
    def work(self, *arguments, victim="gpu_work", mode="cupti", **extra):
        """Runs the victim; its trace."""
        run, _ = self.cuda([e2e.victim(victim), *map(str, arguments)], DLHOOK_GPU=mode, **extra)
        (self.trace,) = run.traces(gpu_trace.GpuTrace)
        return self.trace

    def recorded(self):
        functions = {call[:2]: call.op["function"][0] for call in self.trace.calls}
        return sorted(Work(item.start_ns, item.end_ns, item.kind, item.device, item.stream, item.bytes, item.kernel,
                           functions.get(item.call), item.graph_node)
                      for item in self.trace.activities if item.kind != "OVERHEAD")  # fmt: skip

    def ran(self):
        """The same from the fakes' log."""
        found = []
        for call in self.log(depth=None):
            for item in call.gpu:
                if item.kind != "G":
                    name = item.name if item.kind == "K" else ""
                    found.append(Work(item.start_ns, item.end_ns, KINDS[item.kind], item.device, item.stream, item.bytes, name,
                                      call.function, item.node))  # fmt: skip
        return sorted(found)

    def check(self, *arguments, least, **extra):
        trace = self.work(*arguments, **extra)
        ran = self.ran()
        self.assertGreaterEqual(len(ran), least)
        self.assertEqual(self.recorded(), ran)
        self.assert_no_loss(trace)
        self.assertEqual([window[1] for window in trace.windows], ["GPU_TIME_CUPTI"])
        return trace

    def capability(self, name="gpu-time"):
        return next(((e2e.one(item, "state"), e2e.one(item, "reason", "")) for item in self.trace.capabilities
                     if e2e.one(item, "name") == name), None)  # fmt: skip

    def cupti_calls(self):
        return [call.function for call in self.log() if call.library == "cupti"]


class Times(Case):
    def test_one_stream(self):
        trace = self.check("streams", 1, least=37)
        kernel = next(item for item in trace.activities if item.kind == "KERNEL")
        self.assertEqual((kernel.grid, kernel.block), ((7, 3, 2), (32, 4, 1)))
        copies = collections.Counter(
            (item.direction, item.host_memory) for item in trace.activities if item.kind == "COPY")
        self.assertEqual(copies, {("HtoD", "pinned"): 6, ("DtoD", "none"): 6, ("DtoH", "pageable"): 6,
                                  ("HtoD", "pageable"): 1})

    def test_copies_with_attributes(self):
        trace = self.check("attributes", least=2)
        self.assertEqual([(item.direction, item.bytes) for item in trace.activities if item.kind == "COPY"],
                         [("HtoD", 5000), ("HtoD", 600)])

    def test_two_streams_at_once(self):
        for extra in ({}, {"DLHOOK_FAKE_CUPTI_REVERSED": 1}):  # buffers and records arrive in reverse order
            with self.subTest(**extra):
                self.check("streams", 2, least=37, DLHOOK_FAKE_SLOW=100, **extra)
                by_stream = collections.defaultdict(list)
                for work in self.recorded():
                    by_stream[work.stream].append(work)
                one, other = (works for works in by_stream.values() if len(works) > 1)
                self.assertTrue(any(a.start_ns < b.end_ns and b.start_ns < a.end_ns for a in one for b in other))

    def test_two_devices(self):
        trace = self.check("devices", least=3, DLHOOK_FAKE_DEVICES=2)
        self.assertEqual(set(trace.devices), {0, 1})
        for device in trace.devices.values():
            self.assertTrue(e2e.one(device, "name"))
            self.assertGreater(e2e.one(device, "memory_bytes_per_second"), 0)
            self.assertGreater(e2e.one(device, "multiprocessors"), 0)
        self.assertEqual(len([item for item in trace.activities if item.direction == "peer"]), 1)

    def test_kernels_that_outlive_their_call(self):
        self.check("streams", 1, least=37, DLHOOK_FAKE_WAITS=1, DLHOOK_FAKE_SLOW=3)
        ends = {call[:2]: call.end_ticks for call in self.trace.calls}
        late = [item for item in self.trace.activities
                if item.call and item.end_ns > self.trace.realtime_ns(ends[item.call])]
        self.assertTrue(late)

    def test_graph(self):
        trace = self.check("graph", least=9)
        made = {node.node: node for node in trace.nodes}
        functions = {call[:2]: call.op["function"][0] for call in trace.calls}
        replayed = [item for item in trace.activities if item.graph_node]
        self.assertEqual(len(replayed), 9)
        for item in replayed:
            self.assertEqual(functions[item.call], "cudaGraphLaunch")
            origin = made[made[item.graph_node].original]
            self.assertEqual(functions[origin.call], "cudaMemcpyAsync" if item.kind == "COPY" else "cudaLaunchKernel")

    def test_whole_graphs(self):
        trace = self.work("graph", DLHOOK_GPU_GRAPHS="graph")
        functions = {call[:2]: call.op["function"][0] for call in trace.calls}
        ran = [(item.start_ns, item.end_ns) for call in self.log(depth=None) for item in call.gpu if item.kind == "G"]
        graphs = [item for item in trace.activities if item.kind == "GRAPH"]
        self.assertEqual([(item.start_ns, item.end_ns) for item in graphs], ran)
        self.assertEqual({functions[item.call] for item in graphs}, {"cudaGraphLaunch"})
        self.assertEqual([item for item in trace.activities if item.graph_node], [])

    def test_graph_made_by_cudnn(self):
        trace = self.check(least=2, victim="populated")
        functions = {call[:2]: call.op["function"][0] for call in trace.calls}
        made = {node.node: node for node in trace.nodes}
        replayed = [item for item in trace.activities if item.graph_node]
        self.assertEqual([functions[item.call] for item in replayed], ["cudaGraphLaunch"] * 2)
        self.assertEqual({functions[made[made[item.graph_node].original].call] for item in replayed},
                         {"cudnnBackendPopulateCudaGraph"})

    def test_threads(self):
        self.check("threads", 500, least=2000, DLHOOK_RING_KIB=MUCH_KIB)

    def test_older_libraries(self):
        # 12 with other sizes of records; 10.2 without graph ids.
        for generation in ("cuda12", "cuda10"):
            with self.subTest(generation=generation):
                self.check("streams", 1, least=37, generation=generation, victim=f"gpu_work_{generation}")

    def test_another_clock(self):
        trace = self.work("streams", 1, DLHOOK_FAKE_CUPTI_JUMP="0:-5000000000")
        shifts = {abs(seen.start_ns - told.start_ns) for seen, told in zip(self.recorded(), self.ran(), strict=True)}
        self.assertEqual(len(shifts), 1)
        self.assertLess(abs(shifts.pop() - 5_000_000_000), 6_000_000_000)
        self.assertIn("clock", self.capability()[1])
        self.assert_no_loss(trace)


class Ends(Case):
    def test_many_kernels_pending(self):
        # Their records are fetched from CUPTI when the process ends; a ring holds 7 000 of them.
        self.check("many", 10_000, least=10_000, DLHOOK_FAKE_CUPTI_REVERSED=1, DLHOOK_RING_KIB=MUCH_KIB)
        self.fresh_run()
        result = e2e.run([e2e.victim("gpu_work"), "many", "100000"], cwd=self.folder, env=self.environment(
            "writer", DLHOOK_GPU="cupti", DLHOOK_FAKE_CUPTI_REVERSED=1, DLHOOK_GPU_BUFFERS_MIB=64,
            DLHOOK_FAKE_LOG_SKIP="cudaLaunchKernel"))
        self.assertEqual(result.code, 0)
        dump = e2e.run([e2e.DLHOOK, "dump", self.run_path]).out
        self.assertEqual((dump.count(b"KERNEL"), dump.count(b"GPU_BUFFERS_FULL")), (100_000, 0))

    def test_killed(self):
        self.work("killed", expected_code=3)
        self.assertEqual(self.recorded(), self.ran())
        self.assertEqual(len(self.recorded()), 10)

    def test_killed_while_busy(self):
        # CUPTI does not return a buffer with unfinished work: small ones are returned when full.
        self.work("busy", 400, expected_code=3, DLHOOK_FAKE_WAITS=1, DLHOOK_FAKE_SLOW=2000)
        self.assertGreater(len(self.recorded()), 200)
        self.assertLess(len(self.recorded()), 400)

    def test_exit_in_the_middle_of_cupti(self):
        # It ends, and the host's calls are there; CUPTI's pending records are lost.
        trace = self.work(256 << 10, victim="exits_inside", expected_code=7, DLHOOK_GPU_BUFFERS_MIB=1, DLHOOK_RING_KIB=MUCH_KIB)
        self.assertGreater(len(trace.calls), 10)

    def test_reset(self):
        self.check("reset", least=38)

    def test_unfinished_work_is_counted(self):
        self.work("many", 5, DLHOOK_FAKE_WAITS=1, DLHOOK_FAKE_SLOW=10_000_000)
        state, reason = self.capability("gpu-activities")
        self.assertEqual(state, "LOST")
        self.assertEqual(int(reason.split()[0]) + len(self.recorded()), 5)

    def test_fork(self):
        run, result = self.cuda([e2e.victim("gpu_work"), "fork"], DLHOOK_GPU="cupti")
        self.assertIn(b"child 5\n", result.out)
        parent, child = sorted(run.traces(gpu_trace.GpuTrace), key=lambda trace: len(trace.activities), reverse=True)
        self.assertEqual(len([item for item in parent.activities if item.kind == "KERNEL"]), 2)
        self.assertEqual(child.activities, [])
        self.assertEqual(len(child.calls), 3)
        self.assertEqual(child.windows, [])
        (log_of_child,) = set(glob.glob(self.log_path + "*")) - {self.log_path}
        self.assertEqual([call for call in cuda_e2e.fake_log.read(log_of_child) if call.library == "cupti"], [])


class Bad(Case):
    def assert_none(self, *arguments, **extra):
        trace = self.work("streams", 1, *arguments, **extra)
        self.assertEqual(trace.activities, [])
        self.assertGreaterEqual(len(trace.calls), 37)
        return self.capability()

    def test_no_driver(self):
        # The victim's own calls also fail: it ends as without dlhook.
        plain = self.plain([e2e.victim("gpu_work"), "streams", "1"], DLHOOK_FAKE_DEVICES=0)
        for generation, status, victim in (("cuda13", 999, "gpu_work"), ("cuda12", 15, "gpu_work_cuda12")):
            with self.subTest(generation=generation):
                extra = {"generation": generation, "victim": victim, "expected_code": plain.code, "DLHOOK_FAKE_DEVICES": 0}
                self.work("streams", 1, **extra)
                state, reason = self.capability()
                self.assertEqual(state, "REFUSED")
                self.assertIn(f"refuses a subscription: an error of the fake CUPTI {status}", reason)
                self.assertLessEqual(set(self.cupti_calls()), {"cuptiGetVersion", "cuptiSubscribe", "cuptiSubscribe_v2"})
                trace = self.work("streams", 1, mode="auto", **extra)
                self.assertEqual(trace.activities, [])

    def test_cannot_start(self):
        # Like that of CUDA 13.4 with an unsuitable driver: not even the version is available.
        extra = {"DLHOOK_FAKE_FAIL": "cuptiGetVersion:*:999"}
        state, reason = self.assert_none(**extra)
        self.assertEqual(state, "REFUSED")
        self.assertIn("can't start (cuptiGetVersion: an error of the fake CUPTI 999)", reason)
        self.assertEqual(set(self.cupti_calls()), {"cuptiGetVersion"})
        trace = self.work("streams", 1, mode="auto", **extra)
        self.assertEqual([window[1] for window in trace.windows], ["GPU_TIME_EVENTS"])
        self.assertGreaterEqual(len(trace.activities), 36)
        self.assertIn("by pairs of events: CUPTI can't start", self.capability()[1])

    def test_names_of_kernels_without_process_vm_readv(self):
        process_vm_readv = "310"
        argv = [e2e.victim("refused"), str(errno.EPERM), process_vm_readv, e2e.victim("gpu_work"), "streams", "1"]
        run, _ = self.cuda(argv, DLHOOK_GPU="cupti")
        (self.trace,) = run.traces(gpu_trace.GpuTrace)
        self.assertEqual(self.recorded(), self.ran())
        self.assertIsNone(self.capability("gpu-activities"))

    def test_subscriber_taken(self):
        state, reason = self.assert_none(DLHOOK_FAKE_CUPTI_SUBSCRIBER="nsys")
        self.assertEqual(state, "REFUSED")
        self.assertIn("nsys", reason)
        called = self.cupti_calls()
        self.assertEqual(called[called.index("cuptiSubscribe_v2") + 1:], [])

    def test_no_permission(self):
        enable = "cuptiActivityEnable:*:{0},cuptiActivityEnableAndDump:*:{0}"
        for refused, is_subscribed in ((enable.format(35), True), (enable.format(40), True),
                                       ("cuptiSubscribe_v2:*:35", False)):  # fmt: skip
            with self.subTest(refused):
                state, reason = self.assert_none(DLHOOK_FAKE_FAIL=refused)
                self.assertEqual(state, "REFUSED")
                self.assertIn("NVreg_RestrictProfilingToAdminUsers", reason)
                self.assertEqual("cuptiUnsubscribe" in self.cupti_calls(), is_subscribed)

    def test_a_newer_structure_of_subscribers(self):
        trace = self.work("streams", 1, DLHOOK_FAKE_FAIL="cuptiSubscribe_v2:*:1")  # CUPTI_ERROR_INVALID_PARAMETER
        self.assertEqual([window[1] for window in trace.windows], ["GPU_TIME_CUPTI"])
        self.assertEqual(self.recorded(), self.ran())
        self.assertIn("cuptiSubscribe", self.cupti_calls())

    def test_switched_off(self):
        self.work("streams", 1, mode="off")
        self.assertEqual((self.trace.activities, self.trace.windows, self.capability(), self.cupti_calls()),
                         ([], [], None, []))

    def test_events_instead(self):
        trace = self.work("streams", 1, mode="auto", DLHOOK_FAKE_CUPTI_SUBSCRIBER="nsys")
        self.assertEqual([window[1] for window in trace.windows], ["GPU_TIME_EVENTS"])
        self.assertEqual({item.source for item in trace.activities}, {"GPU_TIME_EVENTS"})
        self.assertIn("nsys", self.capability()[1])

    def test_unknown_records(self):
        self.check("streams", 1, least=37, DLHOOK_FAKE_CUPTI_UNKNOWN=1)
        state, reason = self.capability("gpu-activities")
        self.assertEqual(state, "LOST")
        self.assertIn("kinds unknown to dlhook", reason)

    def test_work_without_times(self):
        self.work("streams", 1, DLHOOK_FAKE_CUPTI_ZERO=5)
        state, reason = self.capability("gpu-activities")
        self.assertEqual(state, "LOST")
        self.assertEqual(int(reason.split()[0]) + len(self.recorded()), len(self.ran()))

    def test_nothing_has_times_any_more(self):
        trace = self.work("threads", 60_000, DLHOOK_FAKE_CUPTI_ZERO=1, DLHOOK_RING_KIB=MUCH_KIB)  # longer than the thread looks away
        self.assertEqual([window[1] for window in trace.windows], ["GPU_TIME_CUPTI", "GPU_TIME_NONE"])
        self.assertEqual(self.recorded(), [])
        self.assertIn("without times", trace.windows[-1][2])
        self.assertIn(("LOST", trace.windows[-1][2]),
                      [(e2e.one(item, "state"), e2e.one(item, "reason", "")) for item in trace.capabilities])

    def test_cupti_is_closed_while_recording_is_stopped(self):
        process = e2e.start([e2e.victim("profiled"), "runtime", "0", "3", "4", "5"], cwd=self.folder,
                            env=self.environment("writer", DLHOOK_START="profiler", PROFILED_WAITS=1,
                                                 DLHOOK_FAKE_CUPTI_VERSION=130101))  # fmt: skip
        end = time.monotonic() + 60
        while time.monotonic() < end and not (os.path.exists(self.log_path) and "cuptiUnsubscribe" in self.cupti_calls()):
            time.sleep(0.05)
        process.communicate(b"\n")
        self.assertEqual(process.returncode, 0)
        (self.trace,) = cuda_e2e.Run(self.run_path).traces(gpu_trace.GpuTrace)
        self.assertEqual([item.kind for item in self.trace.activities], ["SET"] * 8)
        self.assertEqual([window[1:] for window in sorted(self.trace.windows)],  # of two threads
                         [("GPU_TIME_CUPTI", ""), ("GPU_TIME_NONE", "recording is stopped"), ("GPU_TIME_CUPTI", "")])

    def test_buffers_lost(self):
        for version in (130000, 26):  # from 27 on a request may be refused
            with self.subTest(version=version):
                trace = self.work("many", 24_000, DLHOOK_GPU_BUFFERS_MIB=1, DLHOOK_FAKE_CUPTI_VERSION=version, DLHOOK_RING_KIB=MUCH_KIB,
                                  DLHOOK_FAKE_CUPTI_REVERSED=1)
                lost = sum(e2e.one(loss, "calls", 0) for loss in trace.losses
                           if e2e.one(loss, "reason") == "GPU_BUFFERS_FULL")
                self.assertGreater(lost, 0)
                # CUPTI also drops records of overhead and devices.
                self.assertIn(lost + len(self.recorded()) - len(self.ran()), range(0, 10))
                self.assertLessEqual(set(self.recorded()), set(self.ran()))


if __name__ == "__main__":
    cuda_e2e.main()
