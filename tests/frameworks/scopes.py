"""Scopes of a trace, decoded from `dlhook dump` according to the comments of proto/call.proto; shares no code with the
analyzer."""

import collections

from frameworks import e2e

# depth: scopes around it on its thread. Times in ticks. first_sequence: 0 if it was only reported after its end.
Scope = collections.namedtuple("Scope", "name kind thread start end link depth first_sequence")


class ScopeTrace(e2e.Trace):
    def __init__(self):
        super().__init__()
        self.strings = {}
        self.scopes = []

    def add(self, packet):
        (kind, (data,)), = packet.items()
        if kind == "interned":
            self.strings.update((e2e.one(s, "iid"), e2e.one(s, "value", "")) for s in data.get("string", []))
        elif kind == "reset":
            self.strings = {}
        elif kind == "scope_batch":
            self._add_scopes(data)
        super().add(packet)

    def _add_scopes(self, batch):
        end, link, first_sequence = e2e.one(batch, "base_end_ticks", 0), 0, e2e.one(batch, "base_first_sequence", 0)
        columns = zip(batch["name_iid"], batch["kind"], batch["end_delta_ticks"], batch["duration_ticks"],
                      batch["link_delta"], batch["first_sequence_delta"], strict=True)
        for name, kind, end_delta, duration, link_delta, sequence_delta in columns:
            end += end_delta
            link += link_delta
            first_sequence += sequence_delta
            self.scopes.append(Scope(self.strings[name], kind, e2e.one(batch, "thread_id"), end - duration, end, link, None,
                                     first_sequence))

    @property
    def ticks_per_second(self):
        samples = [(e2e.one(s, "ticks"), e2e.one(s, "monotonic_ns")) for s in self.clock_samples]
        (first, first_ns), (last, last_ns) = samples[0], samples[-1]
        return (last - first) / (last_ns - first_ns) * 1e9

    def in_order(self):
        """The scopes of each thread in the order in which they began, outer ones first, with their depth."""
        threads = collections.defaultdict(list)
        # They were written as they ended: of two that began at the same time the one written later is the outer one.
        for _, scope in sorted(enumerate(self.scopes), key=lambda pair: (pair[1].start, -pair[0])):
            threads[scope.thread].append(scope)
        return {thread: with_depth(scopes) for thread, scopes in threads.items()}

    def capability(self, name):
        """Its last (state, reason)."""
        words = [c for c in self.capabilities if e2e.one(c, "name") == name]
        return (e2e.one(words[-1], "state"), e2e.one(words[-1], "reason", "")) if words else None


def with_depth(scopes):
    result, open_ends = [], []
    for scope in scopes:
        while open_ends and open_ends[-1] <= scope.start and open_ends[-1] < scope.end:
            open_ends.pop()
        result.append(scope._replace(depth=len(open_ends)))
        open_ends.append(scope.end)
    return result


def traces(run):
    """All process traces of the run, with their scopes."""
    return run.traces(ScopeTrace)


def trace(run):
    found = traces(run)
    if len(found) != 1:
        raise AssertionError(f"{len(found)} process traces instead of one: {run.files()}")
    return found[0]
