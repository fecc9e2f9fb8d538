"""Shared by the tests of this folder: victims on the fake vendor libraries, and their own reports.

A victim prints a line "call FUNCTION KEY=VALUE…" before each call that should be recorded (victims/tell.h), counted by
hand. Two sources are compared with dlhook's record: these lines, and the log of the fakes (tests/fakes/fake_log.py).
"""

import collections
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "preload_e2e"), os.path.join(HERE, "..", "fakes")]
import e2e  # pylint: disable=wrong-import-position
import fake_log  # pylint: disable=wrong-import-position

FAKES = os.environ.get("DLHOOK_TEST_FAKES", "")

Call = collections.namedtuple("Call", "thread_id sequence parent function family facts addresses")
Told = collections.namedtuple("Told", "function facts")

REPEATED = ("tensor", "node", "knob", "candidate")

# If a victim reports one member of these, it reports all that are set.
COMPLETE = ("copy", "launch", "allocation", "collective", "captured", "status")


def flatten(message, path=""):
    """{"copy.bytes": "4096", …}; repeated numbers are joined by x, tensors are named by their roles."""
    facts = {}
    for name, values in message.items():
        key = path + name
        if isinstance(values[0], dict):
            for index, value in enumerate(values):
                which = f"[{e2e.one(value, 'role', index)}]" if name in REPEATED else ""
                facts.update(flatten(value, f"{key}{which}."))
        else:
            facts[key] = "x".join(str(value).lower() if isinstance(value, bool) else str(value) for value in values)
    return facts


class Trace(e2e.Trace):
    """With statuses and operand addresses of calls."""

    def _add_calls(self, batch):
        before = len(self.calls)
        super()._add_calls(batch)
        plain, self.calls[before:] = self.calls[before:], []
        statuses = dict(zip(batch.get("status_index", []), batch.get("status", []), strict=True))
        addresses = iter(batch.get("address_iid", []))
        for index, call in enumerate(plain):
            facts = flatten(call.op)
            facts.update({"status": str(statuses[index])} if index in statuses else {})
            operands = [self.addresses.get(next(addresses), 0) for _ in range(e2e.one(call.op, "address_count", 0))]
            self.calls.append(Call(call.thread_id, call.sequence, call.parent, facts.pop("function"),
                                   facts.pop("family"), facts, operands))


class Run(e2e.Run):
    trace_type = Trace


def in_order(calls):
    """In the order of their beginnings; for one thread."""
    return sorted(calls, key=lambda call: call.sequence)


def told(out):
    """The calls reported by a victim, in order."""
    calls = []
    for line in out.decode().splitlines():
        if line.startswith("call "):
            _, function, *facts = line.split()
            calls.append(Told(function, dict(fact.split("=", 1) for fact in facts)))
    return calls


def differences(call, expected):
    """The differences between a recorded call and the reported one."""
    found = []
    if call.function != expected.function:
        return [f"{call.function} instead of {expected.function}"]
    tops = {key.split(".")[0] for key in expected.facts}
    for key, value in expected.facts.items():
        if call.facts.get(key, "0") != value:
            found.append(f"{key}={call.facts.get(key)} instead of {value}")
    for key, value in call.facts.items():
        top = key.split(".")[0]
        known = top in COMPLETE and (top in tops or top in ("captured", "status"))
        if known and key not in expected.facts:
            found.append(f"{key}={value}, which was not told")
    return found


class Case(e2e.Case):
    def environment(self, host, generation="cuda13", **extra):
        env = super().environment(host, **extra)
        env["LD_LIBRARY_PATH"] = os.path.join(FAKES, generation)
        env["DLHOOK_FAKE_LOG"] = self.log_path
        return env

    def setUp(self):
        super().setUp()
        self.log_path = os.path.join(self.folder, "fakes.log")

    def plain(self, argv, generation="cuda13", **extra):
        """Without dlhook."""
        env = self.environment("launcher", generation, **extra)
        return e2e.run(argv, env=env, cwd=self.folder)

    def cuda(self, argv, host="writer", generation="cuda13", expected_code=0, **extra):
        """Runs a victim under dlhook; (Run, result)."""
        self.fresh_run()
        result = e2e.run(self.command(host, argv), env=self.environment(host, generation, **extra), cwd=self.folder,
                         timeout=60)
        self.assertEqual(e2e.shell_code(result.code), e2e.shell_code(expected_code), result.err.decode()[-2000:])
        return Run(self.run_path), result

    def log(self, depth=0):
        """Calls in the fakes' log, by default without those that they made of each other."""
        return [call for call in fake_log.read(self.log_path) if depth is None or call.depth <= depth]

    def assert_calls(self, calls, expected):
        """Recorded calls (of one thread, in order) are the reported ones, with every reported fact."""
        self.assertEqual([call.function for call in calls], [call.function for call in expected])
        wrong = [f"{index}, {call.function}: {', '.join(found)}" for index, call in enumerate(calls)
                 if (found := differences(call, expected[index]))]
        self.assertEqual(wrong, [])

    def assert_logged(self, calls):
        """The fakes' log contains exactly the recorded calls, in this order and with the recorded status. (dlhook's own
        queries of the libraries are getters that none of the victims calls.)"""
        names = {call.function for call in calls}
        logged = [(call.function, call.status if call.status else "0") for call in self.log() if call.function in names]
        self.assertEqual([(call.function, call.facts.get("status", "0")) for call in calls], logged)

    def check_victim(self, argv, host="writer", **extra):
        """All checks, for victims with one thread; (Run, calls)."""
        plain = self.plain(argv, **extra)
        run, result = self.cuda(argv, host, **extra)
        self.assertEqual(result.out, plain.out, "the victim saw something else than without dlhook")
        trace = run.trace()
        calls = in_order(trace.top_calls())
        expected = told(result.out)
        self.assertTrue(expected, "the victim told nothing")
        self.assert_calls(calls, expected)
        self.assert_logged(calls)
        self.assert_no_loss(trace)
        return run, calls


def main():
    if not os.path.isdir(FAKES):
        sys.exit("DLHOOK_TEST_FAKES is not set to a folder of fake libraries; run this through ctest")
    e2e.main()
