"""More calls than the drain takes: tight loops, a drain that stands still, threads by the thousand, signals, forks,
kills. The report's calls (single, in totals, lost) equal the victim's count, and times
of ops are between those that the victim measured inside of its calls and around them.
"""

import collections
import os
import struct

import e2e

SMALL = {"DLHOOK_RING_KIB": 64, "DLHOOK_GROWTH_KIB": 4096}  # soon full; a quarter of the growth is for totals
CALLS = 60000

Counted = collections.namedtuple("Counted", "calls inside_ns around_ns")


class Full(e2e.Case):
    def flood(self, host, mode, threads, calls, expected_code=0, **environment):
        """The victim's counts, and the loaded run."""
        path = os.path.join(self.folder, "counters")
        run = self.recorded(host, [e2e.victim("flood"), mode, str(threads), str(calls), path], expected_code, **environment)
        with open(path, "rb") as file:
            columns = zip(*(row[:3] for row in struct.iter_unpack("<8q", file.read())))
        os.remove(path)
        return Counted(*map(sum, columns)), run

    def known(self, traces):
        """(single calls, calls in totals, lost calls)"""
        totals = [aggregate for trace in traces for aggregate in trace.aggregates]
        for aggregate in totals:
            self.assertEqual(e2e.one(aggregate, "cause"), "RING_FULL")
            self.assertLessEqual(e2e.one(aggregate, "min"), e2e.one(aggregate, "max"))
        return (sum(len(trace.calls) for trace in traces), sum(e2e.one(total, "count") for total in totals),
                sum(trace.loss_count() for trace in traces))

    def check(self, host, mode, threads, calls, wants_totals=None, wants_loss=False, **environment):
        with self.subTest(host=host, mode=mode, **environment):
            counted, run = self.flood(host, mode, threads, calls, expected_code=137 if mode == "kill" else 0, **environment)
            single, in_totals, lost = self.known(run.traces())
            slack = threads if mode == "kill" else 0  # calls that ended before they were counted
            self.assertGreaterEqual(single + in_totals + lost, counted.calls)
            self.assertLessEqual(single + in_totals + lost, counted.calls + slack)
            if wants_totals is not None:
                self.assertEqual(in_totals > 0, wants_totals)
            if not wants_loss:
                self.assertEqual(lost, 0)
            self.check_tables(run, counted, single, in_totals, lost, slack)
            return single, in_totals, lost

    def check_tables(self, run, counted, single, in_totals, lost, slack):
        summary = {row["metric"]: row for row in run.table("summary")}
        self.assertEqual(summary["calls"]["value"], single + in_totals)
        self.assertEqual(summary.get("aggregated_calls", {"value": 0})["value"], in_totals)
        if lost == 0:
            rows = [row for row in run.table("ops") if row["calls"] is not None]
            self.assertEqual(sum(row["calls"] for row in rows), single + in_totals)
            total_ns = sum(row["total_time"] for row in rows)
            self.assertGreaterEqual(total_ns, 0.999 * counted.inside_ns)
            if slack == 0:
                self.assertLessEqual(total_ns, 1.001 * counted.around_ns)

    def test_nobody_drains(self):
        """On any machine: rings grow, then there are totals; the report reads them from the rings."""
        for threads in (1, 4):
            self.check("rings", "plain", threads, CALLS, wants_totals=True, **SMALL)
        self.check("rings", "plain", 1, CALLS, wants_totals=False)

    def test_a_tight_loop(self):
        for host in ("launcher", "writer"):
            self.check(host, "plain", 2, CALLS, **SMALL)

    def test_a_stopped_launcher(self):
        self.check("launcher", "stop", 3, CALLS, wants_totals=True, **SMALL)

    def test_many_short_threads(self):
        for host in ("launcher", "writer"):
            self.check(host, "short", 100, 600)

    def test_many_threads_at_once(self):
        self.check("rings", "plain", 100, 3000, wants_totals=True, DLHOOK_RING_KIB=64, DLHOOK_GROWTH_KIB=32 * 1024)

    def test_handlers_interrupt_totals(self):
        # Calls by a handler inside of a record being written are refused: counted, not kept.
        single, in_totals, lost = self.check("rings", "handler", 1, CALLS, wants_totals=True, wants_loss=True, **SMALL)
        self.assertLess(lost, (single + in_totals) / 10)

    def test_a_fork_in_between(self):
        for host in e2e.HOSTS:
            self.check(host, "fork", 1, CALLS, **SMALL)

    def test_killed_while_totals_are_kept(self):
        for calls in (CALLS, CALLS + 777):
            self.check("rings", "kill", 3, calls, wants_totals=True, **SMALL)


if __name__ == "__main__":
    e2e.main()
