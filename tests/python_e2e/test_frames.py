"""Every call's Python stack equals traceback.extract_stack() at the same place: same files, functions, lines, for each
interpreter of the machine; and as many of its frames are entries of the interpreter's loop as glibc's backtrace()
shows."""

import collections
import json
import os
import sys

import stacks
from stacks import e2e

LIBRARY = os.environ.get("DLHOOK_TEST_BLAS", "libopenblas.so.0")
KEPT_FRAMES = 64


def witness(path):
    """{(thread id, process id): [(frames, calls of the interpreter's loop) of each call]}"""
    found = collections.defaultdict(list)
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            tid, pid, frames, loops = json.loads(line)
            found[tid, pid].append(([tuple(frame) for frame in frames], loops))
    return found


def plain(frames):
    """As in extract_stack: co_name instead of co_qualname, no objects."""
    return [(file, function.rsplit(".", 1)[-1], line) for file, function, line, _ in frames]


FORKS = """import ctypes, os, sys
library, numbers = ctypes.CDLL(sys.argv[1]), (ctypes.c_double * 4)()
for _ in range(50):
    library.cblas_dger(101, 1, 1, ctypes.c_double(1), numbers, 1, numbers, 1, numbers, 1)
child = os.fork()
if child != 0:
    sys.exit(os.waitpid(child, 0)[1])
"""


class Frames(e2e.Case):
    def program(self, version):
        program = stacks.interpreter(version)
        if program is None:
            self.skipTest(f"no Python {version}")
        return program

    def check(self, trace, expected):
        seen = collections.defaultdict(list)
        for call in trace.calls_of("cblas_dger"):
            seen[trace.tid(call.thread_id), trace.pid].append((trace.stack_of[call[:2]], trace.entries_of[call[:2]]))
        mine = {key: value for key, value in expected.items() if key[1] == trace.pid}
        self.assertEqual({key: len(value) for key, value in seen.items()}, {key: len(value) for key, value in mine.items()})
        for key, places in mine.items():
            for (frames, entries), (place, loops) in zip(seen[key], places):
                self.assertEqual(plain(frames), place[:KEPT_FRAMES])
                self.assertEqual(frames in trace.is_cut, len(place) > KEPT_FRAMES)
                if len(place) <= KEPT_FRAMES:
                    self.assertEqual(sum(entries), loops, frames)

    def places(self, version, host):
        program = self.program(version)
        path = os.path.join(self.folder, "witness")
        run = self.recorded(host, [program, stacks.victim("places"), path, LIBRARY])
        found = stacks.traces(run)
        expected = witness(path)
        os.remove(path)
        self.assertEqual(len(found), 2)  # including the forked child
        self.assertGreater(sum(map(len, expected.values())), 100)
        for trace in found:
            self.assert_no_loss(trace)
            self.assertEqual([state for state, _ in trace.frame_state()], ["ON"])
            self.check(trace, expected)

    def test_unsupported(self):
        program = self.program("3.8")
        path = os.path.join(self.folder, "witness")
        for trace in stacks.traces(self.recorded("writer", [program, stacks.victim("places"), path, LIBRARY])):
            ((state, reason),) = trace.frame_state()
            self.assertEqual(state, "REFUSED")
            self.assertIn("not supported", reason)
            self.assertEqual(set(trace.stack_of.values()), {()})

    def test_a_forked_child_without_a_call_ends(self):
        for host in e2e.HOSTS:
            with self.subTest(host):
                self.fresh_run()
                self.assertEqual(self.under(host, [sys.executable, "-c", FORKS, LIBRARY]).code, 0)

    def test_switched_off(self):
        program = self.program("3.11")
        for variables in ({"DLHOOK_PYTHON": "off"}, {"DLHOOK_PYTHON": "scopes"}, {"DLHOOK_CAPTURE": "-python"}):
            path = os.path.join(self.folder, "witness")
            for trace in stacks.traces(self.recorded("writer", [program, stacks.victim("places"), path, LIBRARY], **variables)):
                self.assertEqual(set(trace.stack_of.values()), {()})
                self.assertEqual(trace.frame_state()[0][0], "ON" if variables.get("DLHOOK_PYTHON") == "scopes" else "OFF")

    def test_several_interpreters(self):
        for version in ("3.11", "3.12", "3.13"):
            program = stacks.interpreter(version)
            if program is None:
                continue
            run = self.recorded("writer", [program, stacks.victim("subinterpreter"), LIBRARY])
            (trace,) = stacks.traces(run)
            lengths = [len(trace.stack_of[call[:2]]) for call in trace.calls_of("cblas_dger")]
            self.assertEqual(lengths, [2, 0, 2], version)
            self.assertEqual([state for state, _ in trace.frame_state()], ["ON", "LOST", "ON"])


def add(version, host):
    name = f"test_places_{version.replace('.', '_')}_{host}"
    setattr(Frames, name, lambda self: self.places(version, host))


for each in stacks.VERSIONS:
    for drain in e2e.HOSTS:
        add(each, drain)

if __name__ == "__main__":
    e2e.main()
