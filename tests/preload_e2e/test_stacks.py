"""Native stacks (DLHOOK_STACKS): every stack equals the program's own record of it, on stacks of all kinds; according
to the testing shim each equals a complete walk and libunwind's; a program may do anything to its stack without harm.
"""

import collections
import os

import e2e

MAX_FRAMES = 512


class TraceWithStacks(e2e.Trace):
    """A trace whose calls have their native stacks: (addresses innermost first, why it ends, interrupted frames)."""

    def __init__(self):
        super().__init__()
        self.nodes = {}
        self.stack_of = {}  # (thread, sequence) -> stack

    def add(self, packet):
        if "interned" in packet:
            self.nodes.update((e2e.one(node, "iid"), node) for node in packet["interned"][0].get("stack", []))
        if "reset" in packet:
            self.nodes = {}
        super().add(packet)

    def _add_calls(self, batch):
        first = len(self.calls)
        super()._add_calls(batch)
        for call, iid in zip(self.calls[first:], batch.get("stack_iid", []), strict=False):
            self.stack_of[call[:2]] = self._stack(iid)

    def _stack(self, iid):
        addresses, interrupted, cut = [], [], "WHOLE"
        while iid:
            node = self.nodes[iid]
            if e2e.one(node, "is_signal_frame", False):
                interrupted.append(len(addresses))
            addresses.append(self.addresses[e2e.one(node, "address_iid")])
            cut = e2e.one(node, "cut", "WHOLE")
            iid = e2e.one(node, "parent_iid", 0)
        return addresses, cut, interrupted


def expected(output):
    """The victim's output: {pid: [[address or None]]}, and which of them are interrupted."""
    stacks = collections.defaultdict(list)
    for line in output.decode().splitlines():
        pid, *words = line.split()
        addresses = [None if word == "-" else int(word.lstrip("!"), 16) for word in words]
        interrupted = [i + 1 for i, word in enumerate(words) if word.startswith("!")]
        stacks[int(pid)].append((addresses, interrupted))
    return stacks


class Stacks(e2e.Case):
    def traces_of(self, host, *arguments, **extra):
        self.fresh_run()
        result = self.under(host, [e2e.victim("stacks"), *arguments], DLHOOK_STACKS="native", **extra)
        self.assertEqual(result.code, 0, result.err)
        return e2e.Run(self.run_path).traces(TraceWithStacks), expected(result.out)

    def assert_begins(self, stack, known):
        """The call itself comes first, followed by the addresses known to the program."""
        addresses, _, interrupted = stack
        known_addresses, known_interrupted = known
        self.assertGreaterEqual(len(addresses), 1 + len(known_addresses))
        for place, (found, wanted) in enumerate(zip(addresses[1:], known_addresses)):
            if wanted is not None:
                self.assertEqual(hex(found), hex(wanted), f"frame {place}")
        self.assertEqual(interrupted[:len(known_interrupted)], known_interrupted)

    def check(self, mode, host="writer", **extra):
        """Every call's stack is known, in order. Returns [(stack, the known part of it)]."""
        traces, known = self.traces_of(host, mode, **extra)
        pairs = []
        for trace in traces:
            self.assert_no_loss(trace)
            calls = sorted(trace.calls, key=lambda call: call.end_ticks)
            self.assertEqual(len(calls), len(known[trace.pid]))
            for call, stack in zip(calls, known[trace.pid]):
                self.assert_begins(trace.stack_of[call[:2]], stack)
                pairs.append((trace.stack_of[call[:2]], stack))
        return pairs

    def cuts(self, pairs):
        return {stack[1] for stack, _ in pairs}

    def test_functions_of_all_kinds(self):
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                pairs = self.check("plain", host)
                self.assertEqual(self.cuts(pairs), {"WHOLE"})
                self.assertEqual(len(pairs), 60)

    def test_forked_child(self):
        pairs = self.check("fork")
        self.assertEqual((len(pairs), self.cuts(pairs)), (6, {"WHOLE"}))

    def test_fork_inside_a_call(self):
        """The child ends a call of its parent's: not recorded there, and without its parent's session."""
        counters = {"DLHOOK_COUNTERS": "task-clock", "DLHOOK_COUNTERS_AT": "call"}
        for extra in ({}, {"DLHOOK_TESTING_STACKS": os.path.join(self.folder, "agreement")}, counters):
            with self.subTest(**extra):
                pairs = self.check("fork_inside", **extra)
                self.assertEqual((len(pairs), self.cuts(pairs)), (4, {"WHOLE"}))
        traces, _ = self.traces_of("writer", "fork_inside", DLHOOK_STACKS_MIN_US="1000000")
        self.assertEqual(sum(len(trace.calls) for trace in traces), 4)
        self.assertEqual([trace.stack_of for trace in traces], [{}, {}])

    def test_fork_from_a_thread(self):
        """The child's thread is on its own stack: read directly, so also if copies are refused."""
        pairs = self.check("fork_thread")
        self.assertEqual((len(pairs), self.cuts(pairs)), (3 + 1 + 3 + 3, {"WHOLE"}))

    def test_threads(self):
        (trace,), known = self.traces_of("writer", "threads")
        self.assertEqual(len(trace.calls), 8 * 15)
        wanted = collections.Counter(tuple(addresses) for addresses, _ in known[trace.pid])
        found = collections.Counter()
        for addresses, _, _ in trace.stack_of.values():
            found[max(path for path in wanted if tuple(addresses[1:len(path) + 1]) == path)] += 1
        self.assertEqual(found, wanted)
        self.assertEqual({stack[1] for stack in trace.stack_of.values()}, {"WHOLE"})

    def test_coroutines(self):
        self.assertEqual(self.cuts(self.check("context")), {"WHOLE"})
        self.check("switched")  # by assembly without unwind information: the frames beyond can't be known

    def test_signal_handlers(self):
        for mode in ("signal", "alternate"):
            with self.subTest(mode=mode):
                pairs = self.check(mode)
                self.assertEqual(self.cuts(pairs), {"WHOLE"})
                self.assertEqual(sum(bool(stack[2]) for stack, _ in pairs), 9)

    def test_code_without_tables(self):
        for mode in ("untold", "jit"):
            with self.subTest(mode=mode):
                (trace,), known = self.traces_of("writer", mode)
                stacks = [trace.stack_of[call[:2]] for call in sorted(trace.calls, key=lambda call: call.end_ticks)]
                for stack, wanted in zip(stacks[:6], known[trace.pid]):  # a frame pointer; an epilogue
                    self.assert_begins(stack, wanted)
                    self.assertEqual(stack[1], "WHOLE")
                for stack, (wanted, _) in zip(stacks[6:], known[trace.pid][6:]):  # neither: up to there
                    until = wanted.index(None)
                    self.assertEqual(stack[0][1:until + 1], wanted[:until])
                    self.assertEqual(stack[1], "NO_UNWIND_INFO")

    def test_guessed_frames_cost_no_system_call(self):
        """Checks of an address are cached: stacks are still complete when copies are no longer allowed."""
        pairs = self.check("guessed")
        self.assertEqual((len(pairs), self.cuts(pairs)), (6 * 3, {"WHOLE"}))

    def test_forked_child_does_not_ask_libgcc(self):
        traces, known = self.traces_of("writer", "jit_fork", os.path.join(e2e.VICTIMS, "libgcc", "libgcc_s.so.1"))
        for trace in traces:
            for call, wanted in zip(trace.calls, known[trace.pid], strict=True):
                self.assert_begins(trace.stack_of[call[:2]], wanted)
        self.assertEqual(len(traces), 2)

    def test_depth_is_bounded(self):
        for depth, cut in ((500, "WHOLE"), (5000, "TOO_DEEP")):
            with self.subTest(depth=depth):
                (trace,), known = self.traces_of("writer", "deep", str(depth))
                ((addresses, found_cut, _),) = trace.stack_of.values()
                self.assertEqual(found_cut, cut)
                self.assertLessEqual(len(addresses), MAX_FRAMES)
                self.assertGreater(len(addresses), min(depth, MAX_FRAMES - 8))
                wanted = known[trace.pid][0][0]
                length = min(len(wanted), len(addresses) - 1)
                self.assertEqual(addresses[1:length + 1], wanted[:length])

    def test_smashed_stacks(self):
        (trace,), _ = self.traces_of("writer", "smashed")
        self.assertEqual(len(trace.calls), 3000)
        self.assertEqual(len(trace.stack_of), 3000)
        self.assertGreater(len({stack[1] for stack in trace.stack_of.values()}), 1)

    def test_stripped(self):
        stripped = os.path.join(self.folder, "stripped")
        self.assertEqual(e2e.run(["strip", "-o", stripped, e2e.victim("stacks")]).code, 0)
        self.fresh_run()
        result = self.under("writer", [stripped, "plain"], DLHOOK_STACKS="native")
        trace = e2e.Run(self.run_path).traces(TraceWithStacks)[0]
        for call, known in zip(trace.calls, expected(result.out)[trace.pid], strict=True):
            self.assert_begins(trace.stack_of[call[:2]], known)


class Check(e2e.Case):
    """The testing shim: the two ways and libunwind agree."""

    def test_kinds_of_stacks(self):
        for mode, stacks in (("plain", 60), ("threads", 120), ("context", 20), ("signal", 12), ("alternate", 12)):
            with self.subTest(mode=mode):
                self.assertEqual(self.stack_agreement([e2e.victim("stacks"), mode]), (stacks, stacks, stacks))

    def test_plugins_at_the_same_address(self):
        """Rules and nodes of an unloaded library must not be used for the one in its place: equal code, other frames."""
        rounds = 20
        argv = [e2e.victim("reload"), str(rounds), e2e.library("framed_plugin_8"), e2e.library("framed_plugin_104")]
        # Without libunwind, which keeps rules of unloaded libraries.
        self.assertEqual(self.stack_agreement(argv)[:2], (2 * rounds, 2 * rounds))
        trace = e2e.Run(self.run_path).traces(TraceWithStacks)[0]
        self.assertEqual({stack[1] for stack in trace.stack_of.values()}, {"WHOLE"})
        self.assertEqual(len({tuple(stack[0]) for stack in trace.stack_of.values()}), 1)
        plugins = [m for m in trace.mappings if e2e.one(m, "role") == "CODE" and "framed_plugin" in e2e.one(m, "path")]
        self.assertGreaterEqual(len(plugins), 2)
        frames = {address for stack in trace.stack_of.values() for address in stack[0][:2]}
        ends = [iid for iid, node in trace.nodes.items() if trace.addresses[e2e.one(node, "address_iid")] in frames]
        self.assertEqual(len(ends), 2 * 2 * rounds)  # a separate node in each round for each of the plugin's two frames


class Hostile(e2e.Case):
    def test_handlers_at_any_moment(self):
        """Also in the middle of a walk, and left by longjmp."""
        for mode in ("plain", "alternate", "leave"):
            with self.subTest(mode=mode):
                counts = os.path.join(self.folder, "counts")
                self.fresh_run()
                result = self.under("writer", [e2e.victim("signals"), mode, "300", counts], DLHOOK_STACKS="native")
                self.assertEqual((result.code, result.out), (0, b"done\n"), result.err)

    def test_exceptions_and_cancellations(self):
        for mode in ("throw", "cancel", "exit_thread"):
            with self.subTest(mode=mode):
                argv = [e2e.victim("unwinding"), mode]
                plain = e2e.run(argv)
                self.fresh_run()
                self.assert_same_behaviour(plain, self.under("writer", argv, DLHOOK_STACKS="native"), "writer")

    def test_tiny_stacks(self):
        argv = [e2e.victim("small_stacks")]
        plain = e2e.run(argv)
        self.fresh_run()
        self.assert_same_behaviour(plain, self.under("writer", argv, DLHOOK_STACKS="native"), "writer")


if __name__ == "__main__":
    e2e.main()
