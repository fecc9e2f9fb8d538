"""Shared by the tests of Python frames: interpreters, and traces decoded with stacks and modules. Standard library
only."""

import glob
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "preload_e2e"))
import e2e  # pylint: disable=wrong-import-position

VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15")


def interpreter(version):
    """A program of this version, or None. DLHOOK_TEST_PYTHONS: more folders with bin/python3.N, separated by colons."""
    places = os.environ.get("DLHOOK_TEST_PYTHONS", "").split(":") + os.environ.get("PATH", "").split(":")
    places += sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin")))
    for place in filter(None, places):
        program = os.path.join(place, "python" + version)
        # pyenv's shims are shell scripts that start the program of another version.
        if os.access(program, os.X_OK) and "shims" not in place:
            return program
    return None


def victim(name):
    return os.path.join(HERE, "victims", name + ".py")


class PythonTrace(e2e.Trace):
    """A trace whose calls know their Python stacks: tuples of (file, function, line, object), innermost first."""

    def __init__(self):
        super().__init__()
        self._strings = {}
        self._stacks = {}
        self._entries = {}  # of a stack: for each frame, whether it is one where a call of the interpreter's loop begins
        self.is_cut = set()  # stacks
        self.modules = {}  # number -> its most complete record
        self.stack_of = {}  # (thread, sequence) -> stack, () if none is known
        self.entries_of = {}  # (thread, sequence) -> a flag for each frame of the stack
        self.scopes = []  # (thread, start, name, stack)

    def add(self, packet):
        (kind, (data,)), = packet.items()
        if kind == "reset":
            self._strings, self._stacks, self._entries = {}, {}, {}
        elif kind == "interned":
            for string in data.get("string", []):
                self._strings[e2e.one(string, "iid")] = e2e.one(string, "value", "")
            for stack in data.get("python_stack", []):
                frames = tuple(self._frame(frame) for frame in stack.get("frame", []))
                self._stacks[e2e.one(stack, "iid")] = frames
                self._entries[e2e.one(stack, "iid")] = tuple(e2e.one(frame, "is_entry", False) for frame in stack.get("frame", []))
                if e2e.one(stack, "is_cut", False):
                    self.is_cut.add(frames)
        elif kind == "python_module":
            # Through the rings of several threads: the more complete one may come first.
            known = self.modules.setdefault(e2e.one(data, "object"), data)
            if (len(data.get("name", [])), "." in e2e.one(data, "type")) >= (len(known.get("name", [])), "." in e2e.one(known, "type")):
                self.modules[e2e.one(data, "object")] = data
        elif kind == "scope_batch":
            self._add_scopes(data)
        super().add(packet)

    def _frame(self, frame):
        return (self._strings.get(e2e.one(frame, "file_iid"), ""), self._strings.get(e2e.one(frame, "function_iid"), ""),
                e2e.one(frame, "line", 0), e2e.one(frame, "object", 0))

    def stack(self, iid):
        return self._stacks[iid] if iid else ()

    def _add_calls(self, batch):
        first = len(self.calls)
        super()._add_calls(batch)
        added = self.calls[first:]
        iids = batch.get("python_stack_iid") or [0] * len(added)
        for call, iid in zip(added, iids, strict=True):
            self.stack_of[call[:2]] = self.stack(iid)
            self.entries_of[call[:2]] = self._entries[iid] if iid else ()

    def _add_scopes(self, batch):
        end = e2e.one(batch, "base_end_ticks", 0)
        iids = batch.get("python_stack_iid") or [0] * len(batch["name_iid"])
        columns = zip(batch["name_iid"], batch["end_delta_ticks"], batch["duration_ticks"], iids, strict=True)
        for name, end_delta, duration, iid in columns:
            end += end_delta
            self.scopes.append((e2e.one(batch, "thread_id"), end - duration, self._strings[name], self.stack(iid)))

    def modules_of(self, stack):
        """The modules whose calls a stack's frames are, innermost first."""
        return [frame[3] for frame in stack if frame[3]]

    def names(self, module):
        return self.modules[module].get("name", [])

    def type(self, module):
        return e2e.one(self.modules[module], "type", "")

    def calls_of(self, function):
        """Outermost calls of a function, in the order in which each thread began them."""
        calls = [call for call in self.calls if call.parent is None and e2e.one(call.op, "function") == function]
        return sorted(calls, key=lambda call: (call.thread_id, call.sequence))

    def tid(self, thread_id):
        return e2e.one(self.threads[thread_id], "tid")

    def frame_state(self):
        """(state, reason) of the capability."""
        found = [c for c in self.capabilities if e2e.one(c, "name") == "python-frames"]
        return [(e2e.one(c, "state"), e2e.one(c, "reason", "")) for c in found]


def traces(run, trace_type=PythonTrace):
    return run.traces(trace_type)
