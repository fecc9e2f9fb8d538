"""dlhook's record of GPUs, decoded from `dlhook dump` according to the comments of proto/call.proto. Shares no code
with the analyzer."""

import bisect
import collections

import e2e
from e2e import one

# Times are CLOCK_REALTIME. `kernel`: the mangled name, "" if there is none. `call`: (thread_id, sequence) of the
# requesting call, None: not known; for a graph's nodes that of the launch.
Activity = collections.namedtuple(
    "Activity", "kind source device stream start_ns end_ns correlation kernel grid block bytes direction "
    "host_memory graph_node graph call")  # fmt: skip
Node = collections.namedtuple("Node", "node original call")
DIRECTIONS = ("unknown", "HtoD", "DtoH", "DtoD", "HtoH", "peer", "set")
HOST_MEMORY = ("none", "unknown", "pageable", "pinned", "managed")


class GpuTrace(e2e.TraceWithOperands):
    """`activities`, in the order of the trace; `links`: {correlation: [(ticks, call or None)]}; `nodes`; `devices`;
    `windows`."""

    def __init__(self):
        super().__init__()
        self._activities = []
        self.links = {}
        self.nodes = []
        self.devices = {}
        self.windows = []
        self._strings = {}
        self._kernels = {}

    def add(self, packet):
        (kind, (data,)), = packet.items()
        if kind == "interned":
            self._strings.update((one(text, "iid"), one(text, "value", "")) for text in data.get("string", []))
            self._kernels.update((one(kernel, "iid"), kernel) for kernel in data.get("gpu_kernel", []))
        elif kind == "reset":
            self._strings, self._kernels = {}, {}
        if kind == "gpu_activity":
            self._add_activities(data)
        elif kind == "gpu_link":
            self._add_links(data)
        elif kind == "gpu_graph_node":
            self._add_nodes(data)
        elif kind == "gpu_device":
            self.devices[one(data, "ordinal", 0)] = data
        elif kind == "gpu_window":
            self.windows.append((one(data, "ticks", 0), one(data, "source", "GPU_TIME_NONE"), one(data, "reason", "")))
        else:
            super().add(packet)

    def _add_activities(self, data):
        source = one(data, "source", "GPU_TIME_NONE")
        count = len(data.get("kind", []))

        def column(name):
            values = data.get(name, [])
            if len(values) not in (0, count):
                raise ValueError(f"{name}: {len(values)} of {count}")
            return values or [0] * count

        names = ("device", "stream", "start_delta_ns", "duration_ns", "correlation_delta", "kernel_iid",
                 "bytes", "direction", "host_memory", "graph_node", "graph", "thread_id", "sequence")  # fmt: skip
        start, correlation = one(data, "base_start_ns", 0), 0
        for kind, row in zip(data.get("kind", []), zip(*map(column, names), strict=True), strict=True):
            row = dict(zip(names, row, strict=True))
            start += row["start_delta_ns"]
            correlation += row["correlation_delta"]
            kernel = self._kernels.get(row["kernel_iid"], {})
            grid, block = (tuple(one(kernel, f"{what}_{axis}", 0) for axis in "xyz") for what in ("grid", "block"))
            self._activities.append(Activity(
                kind, source, row["device"], row["stream"], start, start + row["duration_ns"],
                correlation, self._strings.get(one(kernel, "name_iid", 0), ""), grid, block, row["bytes"],
                DIRECTIONS[row["direction"]], HOST_MEMORY[row["host_memory"]],
                row["graph_node"], row["graph"],
                (row["thread_id"], row["sequence"]) if row["thread_id"] else None))  # fmt: skip

    def _add_links(self, data):
        thread = one(data, "thread_id", 0)
        ticks = correlation = sequence = 0
        for deltas in zip(data["tick_delta"], data["correlation_delta"], data["sequence_delta"], strict=True):
            before = (ticks, correlation, sequence)
            ticks, correlation, sequence = (value + delta for value, delta in zip(before, deltas, strict=True))
            self.links.setdefault(correlation, []).append((ticks, (thread, sequence) if sequence else None))

    def _place_links(self):
        """Links without a time (ticks 0: from external correlation) are where their call begins."""
        starts = {call[:2]: call.end_ticks - call.duration for call in self.calls}
        for links in self.links.values():
            links[:] = sorted(((ticks or starts.get(call, 0), call) for ticks, call in links), key=lambda link: link[0])

    def _add_nodes(self, data):
        thread = one(data, "thread_id", 0)
        node = sequence = 0
        for node_delta, original, delta in zip(data["node_delta"], data["original"], data["sequence_delta"],
                                               strict=True):
            node += node_delta
            sequence += delta
            self.nodes.append(Node(node, original, (thread, sequence) if sequence else None))

    @property
    def activities(self):
        """With the call of the last link before the work (1 ms of the clocks' error allowed)."""
        self._place_links()
        return [activity._replace(call=activity.call or self._call_of(activity)) for activity in self._activities]

    def _call_of(self, activity):
        links = self.links.get(activity.correlation, [])
        if len(links) < 2:
            return links[0][1] if links else None
        at = bisect.bisect_right([self.realtime_ns(ticks) for ticks, _ in links], activity.start_ns + 1_000_000)
        return links[max(at - 1, 0)][1]

    def realtime_ns(self, ticks):
        """Piecewise linear between neighbouring clock samples, extrapolated beyond the outermost ones."""
        samples = [(one(sample, "ticks", 0), one(sample, "realtime_ns", 0)) for sample in self.clock_samples]
        if len(samples) == 1:
            rate = one(one(self.header, "clock", {}), "ticks_per_second", 10**9)
            return samples[0][1] + (ticks - samples[0][0]) * 1e9 / rate
        at = min(max(bisect.bisect_right(samples, (ticks,)), 1), len(samples) - 1)
        (t0, r0), (t1, r1) = samples[at - 1], samples[at]
        return r0 + (ticks - t0) * (r1 - r0) / (t1 - t0)


class GpuRun(e2e.Run):
    trace_type = GpuTrace
