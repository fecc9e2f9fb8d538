"""A program that is a CUPTI client itself, before, between and during dlhook's own use of it. CUPTI exists once per
process: the program must get the same as without dlhook, and dlhook's activities are those that the program does not
get."""

import re

import cuda_e2e
import e2e
import gpu_trace

ON, GAP = "GPU_TIME_CUPTI", "GPU_TIME_NONE"
REASON = "the program uses CUPTI itself"
KINDS = {"K": "KERNEL", "C": "COPY", "S": "SET"}
FIRST_BYTES = {"COPY": 1000, "SET": 5000}  # the i-th has i more
FUNCTIONS = {"KERNEL": "cudaLaunchKernel", "COPY": "cudaMemcpyAsync", "SET": "cudaMemsetAsync"}
PROFILE = ("register", "enable", "work:2", "disable", "flush")  # like Kineto: without a subscription


def blocks_told(out):
    """The program's own kernels, by their numbers of blocks."""
    return [int(blocks) for blocks in re.findall(rb"^record kernel \S+ blocks=(\d+)", out, re.MULTILINE)]


class Others(cuda_e2e.Case):
    """Steps of victims/cupti_client.c."""

    def both(self, *steps, how="linked", generation="cuda13", unseen=(), error_ns=0, **extra):
        """(trace, kernels reported to the program); checks everything that holds for any sequence."""
        argv = [e2e.victim("cupti_client"), how, *steps]
        plain = self.plain(argv, generation, **extra)
        self.assertEqual(plain.code, 0, plain.err)
        run, result = self.cuda(argv, generation=generation, **extra)
        self.assert_same_behaviour(plain, result, "writer")
        (trace,) = run.traces(gpu_trace.GpuTrace)
        told = blocks_told(result.out)
        self.check_activities(trace, {*told, *unseen}, error_ns)
        self.assert_no_loss(trace)
        return trace, told

    def check_activities(self, trace, told, error_ns):
        """Each kernel, copy and memset was reported either to the program or to dlhook; to dlhook with the fakes' times
        and the requesting call."""
        ran, counts = {}, {}
        for activity in cuda_e2e.fake_log.activities(self.log()):
            kind = KINDS[activity.kind]
            counts[kind] = counts.get(kind, 0) + 1
            ran[kind, counts[kind]] = (activity.start_ns, activity.end_ns)
        functions = {call[:2]: call.op["function"][0] for call in trace.calls}
        ours = {}
        for activity in trace.activities:
            if activity.kind == "OVERHEAD":
                continue
            number = activity.grid[0] if activity.kind == "KERNEL" else activity.bytes - FIRST_BYTES[activity.kind]
            self.assertNotIn((activity.kind, number), ours, "told twice")
            ours[activity.kind, number] = (activity.start_ns, activity.end_ns)
            self.assertEqual(functions.get(activity.call), FUNCTIONS[activity.kind], (activity.kind, number))
        expected = {key: times for key, times in ran.items() if key[1] not in told}
        self.assertEqual(ours.keys(), expected.keys())
        wrong = {key: (times, expected[key]) for key, times in ours.items()
                 if any(abs(mine - its) > error_ns for mine, its in zip(times, expected[key], strict=True))}
        self.assertEqual(wrong, {})

    def sources(self, trace):
        return [source for _, source, _ in trace.windows]

    def test_a_profile_in_the_middle_twice(self):
        for how in ("linked", "looked_up"):
            with self.subTest(how=how):
                trace, told = self.both("work:2", *PROFILE, "work:2", *PROFILE, "work:1", how=how)
                self.assertEqual(told, [3, 4, 7, 8])
                self.assertEqual(self.sources(trace), [ON, GAP, ON, GAP, ON])
                self.assertEqual({reason for _, source, reason in trace.windows if source == GAP}, {REASON})

    def test_the_program_comes_first(self):
        trace, told = self.both("subscribe", *PROFILE, "unsubscribe", "work:2")
        self.assertEqual(told, [1, 2])
        self.assertEqual(self.sources(trace)[-1], ON)

    def test_the_program_comes_last(self):
        # Its handler was registered before dlhook's, so it runs after it.
        self.both("at_exit:subscribe", "work:2")

    def test_a_subscription_that_is_never_given_back(self):
        """Kineto of older wheels. dlhook's activities are reported at the same time, joined by external correlation."""
        trace, told = self.both("subscribe", *PROFILE, "work:2", *PROFILE, "work:1")
        self.assertEqual(told, [1, 2, 5, 6])
        reasons = [e2e.one(item, "reason", "") for item in trace.capabilities if e2e.one(item, "name") == "gpu-time"]
        self.assertTrue(any("beside the program's subscription" in reason for reason in reasons), reasons)

    def test_a_subscription_alone(self):
        trace, told = self.both("work:1", "subscribe", "work:2", "unsubscribe", "work:1")
        self.assertEqual(told, [])
        self.assertEqual(self.sources(trace), [ON, GAP, ON, GAP, ON])

    def test_activities_of_a_subscriber(self):
        """CUDA 13.3; PyTorch 2.15's profiler. CUPTI stays the program's until it unsubscribes."""
        for how in ("linked", "looked_up"):
            with self.subTest(how=how):
                trace, told = self.both("work:1", "subscribe", "register", "enable_v2", "work:2", "disable_v2", "flush", "work:1",
                                        "unsubscribe", "work:1", how=how, unseen=(4,))
                self.assertEqual(told, [2, 3])
                self.assertEqual(self.sources(trace), [ON, GAP, ON])

    def test_on_another_thread(self):
        _, told = self.both("work:1", *[f"thread:{step}" for step in PROFILE], "work:1")
        self.assertEqual(told, [2, 3])

    def test_registered_once_for_several_profiles(self):
        """Its buffer functions and its clock are restored after dlhook's. (CUPTI converts times by readings of the
        registered clock.)"""
        again = PROFILE[1:]
        _, told = self.both("work:1", "clock", *PROFILE, "work:2", *again, "work:1", *again, "work:1", error_ns=1000)
        self.assertEqual(told, [2, 3, 6, 7, 9, 10])

    def test_attributes_are_as_it_left_them(self):
        per_thread, zeroed = 9, 5
        self.both("work:1", f"get_attribute:{per_thread}", f"get_attribute:{zeroed}", f"set_attribute:{per_thread}=0",
                  "work:1", "subscribe", f"get_attribute:{per_thread}", f"set_attribute:{zeroed}=1", "unsubscribe", "work:1",
                  "enable", "disable", f"get_attribute:{zeroed}", f"get_attribute:{per_thread}")

    def test_external_correlation_of_its_own(self):
        trace, told = self.both("work:1", "register", "enable", "push", "work:2", "pop", "disable", "flush", "work:1")
        self.assertEqual(told, [2, 3])
        self.assertEqual(self.sources(trace), [ON, GAP, ON])

    def test_buffers_that_do_not_come_back(self):
        """No flush after the last kind is disabled: CUPTI still has the program's buffer, which must not get dlhook's
        records."""
        trace, told = self.both("work:1", "register", "enable", "work:2", "disable", "work:2", "flush", "work:1",
                                unseen=(4, 5))
        self.assertEqual(told, [2, 3])
        self.assertEqual(self.sources(trace), [ON, GAP, ON])

    def test_finalized(self):
        for version in (24, 130001):  # 24 is 12.6
            with self.subTest(version=version):
                _, told = self.both("work:1", "subscribe", *PROFILE, "unsubscribe", "finalize", "work:2", *PROFILE, "work:1",
                                    DLHOOK_FAKE_CUPTI_VERSION=version)
                self.assertEqual(told, [2, 3, 6, 7])

    def test_finalized_where_that_is_the_end(self):
        argv = [e2e.victim("cupti_client"), "linked", "work:1", "subscribe", "unsubscribe", "finalize", "work:2"]
        run, _ = self.cuda(argv, DLHOOK_FAKE_CUPTI_VERSION=23)
        (trace,) = run.traces(gpu_trace.GpuTrace)
        self.assertEqual([window[1:] for window in trace.windows if window[1] == GAP][-1],
                         (GAP, "the program has finalized CUPTI, which this version does not survive"))

    def test_no_call_of_ours_while_it_is_the_programs(self):
        self.both("work:1", *PROFILE[:2], "work:3", *PROFILE[3:], "work:1")
        names = [call.function for call in self.log() if call.library == "cupti"]
        first = names.index("cuptiActivityRegisterCallbacks", names.index("cuptiUnsubscribe"))
        own = ["cuptiActivityRegisterCallbacks", *["cuptiActivityEnable"] * 5, *["cuptiActivityDisable"] * 5,
               "cuptiActivityFlushAll"]
        self.assertEqual(names[first:first + len(own)], own)
        self.assertIn("cuptiSubscribe_v2", names[first + len(own):])

    def test_profiles_while_another_thread_launches(self):
        argv = [e2e.victim("cupti_client"), "linked", "background", *["wait:10", *PROFILE] * 20, "wait:10", "end"]
        run, result = self.cuda(argv)
        (trace,) = run.traces(gpu_trace.GpuTrace)
        told = blocks_told(result.out)
        ours = [activity.grid[0] for activity in trace.activities if activity.kind == "KERNEL"]
        self.assertEqual(len(set(told)), len(told))
        self.assertEqual(len(set(ours)), len(ours))
        self.assertEqual(set(told) & set(ours), set())
        self.assertEqual([blocks for blocks in told if blocks < 1_000_000], list(range(1, 41)))
        self.assertGreater(len(ours), 20 * 5)
        ran = {(activity.start_ns, activity.end_ns) for activity in cuda_e2e.fake_log.activities(self.log())}
        recorded = {(activity.start_ns, activity.end_ns) for activity in trace.activities if activity.kind == "KERNEL"}
        self.assertEqual(recorded - ran, set())
        self.assertIn(b"\n0 buffers not given back", result.out)


if __name__ == "__main__":
    cuda_e2e.main()
