"""torch.profiler in the unmodified CUDA wheel, started and stopped in the middle of a training under dlhook: Kineto is
a CUPTI client itself. It gets the same as without dlhook, and dlhook gets the rest."""

import bisect
import collections
import json
import os
import re

import fake_gpu
from fake_gpu import e2e, program

import gpu_trace  # tests/preload_e2e

GAP = "GPU_TIME_NONE"
# Kineto has CUPTI take its times from the processor's counter, permanently; dlhook then switches back to the clock. In
# either case times are converted by readings of both clocks.
ERROR_NS = 200


class Profiler(fake_gpu.Case):
    def told(self):
        """The profiler's output, per profile."""
        with open(os.path.join(self.folder, "told.json"), encoding="utf-8") as file:
            return json.load(file)

    def both(self, **settings):
        """The profiler's output without dlhook and under it, the fakes' log and dlhook's trace."""
        argv = program("profiler", os.path.join(self.folder, "told.json"))
        plain, _ = self.plain(argv, **settings)
        without = self.told()
        self.fresh_run()
        result = self.under("launcher", argv, **self.scenario(**settings))
        self.assertEqual(plain.out, result.out)
        said = self.without_times(plain.err)
        self.assertEqual(self.without_times(result.err)[:len(said)], said)
        (log,) = self.logs().values()
        (trace,) = e2e.Run(self.run_path).traces(gpu_trace.GpuTrace)
        return without, self.told(), log, trace

    @staticmethod
    def without_times(text):
        """Kineto prints when it starts and stops, and at times its settings, with date and process."""
        return re.sub(rb"\d+-\d+-\d+ [\d:]+( \d+:\d+ )?|_\d+\.json", b"", text)

    def check(self, log, trace, told):
        """Each activity is in one of the profiles or in the trace, there with its times and the call that requested it.
        """
        ours = [activity for activity in trace.activities if activity.kind != "OVERHEAD"]
        ran = sorted((activity.start_ns, activity.end_ns, call.function)
                     for call in log for activity in call.gpu if activity.kind != "G")
        self.assertEqual(len(ours) + sum(map(len, told)), len(ran))
        functions = {call[:2]: e2e.one(call.op, "function") for call in trace.calls}
        found = collections.Counter()
        for activity in ours:
            at = bisect.bisect_left(ran, (activity.start_ns - ERROR_NS,))
            start_ns, end_ns, function = ran[at]
            self.assertLessEqual(max(abs(start_ns - activity.start_ns), abs(end_ns - activity.end_ns)), ERROR_NS)
            self.assertEqual(functions.get(activity.call), function)
            found[at] += 1
        self.assertEqual(found.most_common(1)[0][1], 1, "told twice")
        self.assertEqual(trace.losses, [])

    def test_started_and_stopped_twice(self):
        without, under, log, trace = self.both()
        self.assertEqual([len(profile) for profile in under], [len(profile) for profile in without])
        for ours, plain in zip(under, without, strict=True):
            self.assertTrue(any(event["category"] == "kernel" for event in plain))
            self.assertEqual([{**event, "us": None} for event in ours], [{**event, "us": None} for event in plain])
            errors = [1000 * abs(mine["us"] - its["us"]) for mine, its in zip(ours, plain, strict=True)]
            self.assertLessEqual(max(errors), ERROR_NS)
        self.check(log, trace, under)
        sources = [source for _, source, _ in trace.windows]
        self.assertEqual(collections.Counter(sources)[GAP], 2)
        self.assertEqual(sources[-1], "GPU_TIME_CUPTI")


if __name__ == "__main__":
    e2e.main()
