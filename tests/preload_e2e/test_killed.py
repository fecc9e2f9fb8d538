"""Processes that die at random moments, in every way, under every host of the drain: every committed record is there.

The victims count completed calls in a file mapping that outlives them. A call's record is committed before its function
returns, so the trace must contain calls 1 to n of each thread without a gap, where n is the counted number or, if death
came between commit and count, one more.

DLHOOK_TEST_SEED and DLHOOK_TEST_MOMENTS (200) choose the moments; a failure names its seed.
"""

import itertools
import os
import random
import struct
import sys

import e2e

SEED = int(os.environ.get("DLHOOK_TEST_SEED", random.SystemRandom().randrange(10**6)))
MOMENTS = int(os.environ.get("DLHOOK_TEST_MOMENTS", "200"))
EXIT_CODES = {"kill": 137, "abort": 134, "segv": 139, "_exit": 0, "exec": 0, "os_exit": 0}


class Killed(e2e.Case):
    def counters(self, path):
        """{tid: completed calls}"""
        with open(path, "rb") as file:
            data = file.read(4096)
        return {tid: completed for tid, completed in struct.iter_unpack("<qq", data) if tid}

    def check_thread(self, traces, tid, completed):
        found = [(trace, thread) for trace in traces for thread, info in trace.threads.items()
                 if e2e.one(info, "tid") == tid]
        if not found:
            self.assertEqual(completed, 0, f"no trace of thread {tid}")
            return
        ((trace, thread),) = found
        sequences = sorted(call.sequence for call in trace.calls if call.thread_id == thread)
        # On a very busy machine the drain may not run in time and a ring becomes full: then the missing calls are
        # counted, or in totals.
        lost = sum(e2e.one(loss, "calls", 0) for loss in trace.losses if e2e.one(loss, "thread_id", 0) == thread)
        lost += sum(e2e.one(totals, "count") for totals in trace.aggregates if e2e.one(totals, "thread_id") == thread)
        self.assertLessEqual(trace.loss_reasons(), {"RING_FULL"})
        if lost == 0:
            self.assertEqual(sequences, list(range(1, len(sequences) + 1)), "a gap")
        self.assertEqual(len(set(sequences)), len(sequences), "a call stands twice")
        self.assertIn(len(sequences) + lost, (completed, completed + 1))

    def moment(self, mode, host, delay, threads):
        path = os.path.join(self.folder, "counters")
        if mode == "os_exit":
            argv = [sys.executable, os.path.join(e2e.HERE, "victims", "os_exit.py"), str(delay), path]
        else:
            argv = [e2e.victim("killed"), mode, str(delay), path, str(threads)]
        self.fresh_run()
        # Rings that hold all calls of a usual run: this test is about commits, not about the drain's speed.
        result = self.under(host, argv, DLHOOK_RING_KIB=65536)
        self.assertEqual(e2e.shell_code(result.code), EXIT_CODES[mode], result.err)
        counters = self.counters(path)
        os.remove(path)
        if sum(counters.values()) == 0:  # died before the first call ended
            return 0
        traces = e2e.Run(self.run_path).traces()
        for tid, completed in counters.items():
            self.check_thread(traces, tid, completed)
        return sum(counters.values())

    def test_random_moments(self):
        chance = random.Random(SEED)
        print(f"seed {SEED}", file=sys.stderr)
        ways = itertools.cycle(itertools.product(EXIT_CODES, e2e.HOSTS))
        total = 0
        for number in range(MOMENTS):
            mode, host = next(ways)
            delay, threads = chance.randrange(0, 25000), chance.randrange(1, 4)
            with self.subTest(seed=SEED, number=number, mode=mode, host=host, delay=delay, threads=threads):
                total += self.moment(mode, host, delay, threads)
        self.assertGreater(total, MOMENTS, "hardly any call was made: the test proves nothing")
        print(f"{MOMENTS} moments, {total} calls", file=sys.stderr)


if __name__ == "__main__":
    e2e.main()
