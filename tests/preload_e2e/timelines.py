"""Timelines of `dlhook export`, read by other rules than those that wrote them: Perfetto's protobuf as protoc decodes it, Chrome's
JSON. Both give the same Timeline."""

import collections
import json
import os

import e2e
import exports

SCHEMA = os.path.join(exports.ROOT, "analyzer", "export", "third_party", "perfetto")
CALLS = ("library", "waiting")

# `track`: (process, name of the track); `around`: the slice that it is directly in, None for the outermost.
Slice = collections.namedtuple("Slice", "track name kind start_ns end_ns args around")


class Timeline:
    def __init__(self):
        self.slices = []  # by track, in the order of their starts, outer ones first
        self.instants = []
        self.counts = collections.defaultdict(list)  # by track: (time, value)
        self.flows = collections.defaultdict(lambda: ([], []))  # by id: the slices that it starts from, and that it ends in

    def of_kind(self, *kinds):
        return [one for one in self.slices if one.kind in kinds]

    def plain(self):
        """For comparing two of them."""
        return sorted((one.track, one.start_ns, -one.end_ns, one.name, one.kind, sorted(one.args.items()))
                      for one in self.slices + self.instants)  # fmt: skip


def duration(one):
    """As recorded: a slice may be cut to the one around it."""
    return one.args.get("duration_ns", one.end_ns - one.start_ns)


def thread_time(timeline):
    """As in the table summary: calls that are in no other call, and those of which only totals are kept."""
    outermost = [one for one in timeline.of_kind(*CALLS) if one.around is None or one.around.kind not in CALLS]
    return sum(map(duration, outermost)) + sum(at.args["total_ns"] for at in timeline.instants)


def decoded(data):
    """Perfetto's packets, after protoc has read them by the schema."""
    result = e2e.run(["protoc", f"--proto_path={SCHEMA}", "--decode=perfetto.protos.Trace", "trace.proto"], stdin=data)
    assert result.code == 0, result.err.decode()
    return e2e.parse_textproto(result.out.decode())["packet"]


class PerfettoReader:
    """Rules: interned texts are defined before their use, in the same sequence; events count by time, equal ones in the order of the
    file; slices of a track are a stack."""

    def __init__(self, packets):
        self.timeline = Timeline()
        self.texts = collections.defaultdict(dict)
        self.tracks = {}
        self.names = {}
        self.events = []
        for packet in packets:
            self.packet(packet)
        self.open = collections.defaultdict(list)
        for time_ns, event in sorted(self.events, key=lambda item: item[0]):
            self.event(time_ns, event)
        assert not any(self.open.values()), "slices without an end"
        self.timeline.slices.sort(key=lambda one: one.track)

    def packet(self, packet):
        assert e2e.one(packet, "trusted_packet_sequence_id") == 1
        for kind, entries in e2e.one(packet, "interned_data", {}).items():
            for entry in entries:
                assert e2e.one(entry, "iid") not in self.texts[kind]
                self.texts[kind][e2e.one(entry, "iid")] = e2e.one(entry, "name", e2e.one(entry, "str"))
        if "track_descriptor" in packet:
            self.describe(e2e.one(packet, "track_descriptor"))
        if "track_event" in packet:
            self.events.append((e2e.one(packet, "timestamp", 0), self.with_texts(e2e.one(packet, "track_event"))))

    def describe(self, track):
        uuid = e2e.one(track, "uuid")
        assert uuid not in self.tracks
        if "process" in track:
            self.names[uuid] = e2e.one(e2e.one(track, "process"), "pid")
            return
        if "thread" in track:
            thread = e2e.one(track, "thread")
            self.tracks[uuid] = (e2e.one(thread, "pid"), e2e.one(thread, "thread_name", ""))
        else:
            self.tracks[uuid] = (self.names[e2e.one(track, "parent_uuid")], e2e.one(track, "name", ""))

    def with_texts(self, event):
        args = {}
        for arg in event.get("debug_annotations", []):
            value = e2e.one(arg, "int_value")
            if value is None:
                value = self.texts["debug_annotation_string_values"][e2e.one(arg, "string_value_iid")]
            args[self.texts["debug_annotation_names"][e2e.one(arg, "name_iid")]] = value
        if "name_iid" in event:
            event["name"] = self.texts["event_names"][e2e.one(event, "name_iid")]
            event["kind"] = self.texts["event_categories"][e2e.one(event, "category_iids")]
        event["args"] = args
        return event

    def event(self, time_ns, event):
        track = self.tracks[e2e.one(event, "track_uuid")]
        kind = e2e.one(event, "type")
        stack = self.open[e2e.one(event, "track_uuid")]
        if kind == "TYPE_COUNTER":
            self.timeline.counts[track].append((time_ns, e2e.one(event, "double_counter_value")))
            return
        if kind == "TYPE_SLICE_END":
            place = stack.pop()
            self.timeline.slices[place] = self.timeline.slices[place]._replace(end_ns=time_ns)
            return
        around = self.timeline.slices[stack[-1]] if stack else None
        one = Slice(track, event["name"], event["kind"], time_ns, time_ns, event["args"], around)
        if kind == "TYPE_INSTANT":
            self.timeline.instants.append(one)
            return
        assert kind == "TYPE_SLICE_BEGIN"
        stack.append(len(self.timeline.slices))
        self.timeline.slices.append(one)
        for side, field in enumerate(("flow_ids", "terminating_flow_ids")):
            for flow in event.get(field, []):
                self.timeline.flows[flow][side].append((track, time_ns))


def perfetto(run, *options):
    return PerfettoReader(decoded(exports.export(run, "--format", "perfetto", *options))).timeline


class ChromeReader:
    """Rules: complete events (X) of a thread nest by their times; metadata names processes and threads."""

    def __init__(self, document):
        self.timeline = Timeline()
        events = document["traceEvents"]
        self.names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events
                      if event["name"] == "thread_name"}
        self.open = collections.defaultdict(list)
        for event in events:
            self.event(event)

    def event(self, event):
        if event["ph"] == "M":
            return
        start_ns = round(event["ts"] * 1000)
        if event["ph"] == "C":
            self.timeline.counts[event["pid"], event["name"]].append((start_ns, event["args"]["value"]))
            return
        track = (event["pid"], self.names[event["pid"], event["tid"]])
        if event["ph"] in "sf":
            self.timeline.flows[event["id"]]["sf".index(event["ph"])].append((track, start_ns))
            return
        end_ns = start_ns + round(event.get("dur", 0) * 1000)
        one = Slice(track, event["name"], event["cat"], start_ns, end_ns, event.get("args", {}), None)
        if event["ph"] == "i":
            self.timeline.instants.append(one)
            return
        assert event["ph"] == "X"
        stack = self.open[event["pid"], event["tid"]]
        while stack and not (stack[-1].start_ns <= start_ns and end_ns <= stack[-1].end_ns):
            assert stack[-1].end_ns <= start_ns, (stack[-1], one)
            stack.pop()
        stack.append(one._replace(around=stack[-1] if stack else None))
        self.timeline.slices.append(stack[-1])


def chrome(run, *options):
    return ChromeReader(json.loads(exports.export(run, "--format", "chrome", *options))).timeline


def check(case, run):
    """Both formats say the same, and their sums are the tables'. The timeline."""
    timeline, other = perfetto(run), chrome(run)
    case.assertEqual(timeline.plain(), other.plain())
    case.assertEqual(dict(timeline.flows), dict(other.flows))
    case.assertEqual({track: len(counts) for track, counts in timeline.counts.items()},
                     {track: len(counts) for track, counts in other.counts.items()})
    for starts, ends in timeline.flows.values():
        case.assertEqual((len(starts), len(ends)), (1, 1))
    summary = {row["metric"]: row["value"] for row in run.table("summary")}
    case.assertEqual(thread_time(timeline), summary["thread_time"])
    case.assertEqual(thread_time(other), summary["thread_time"])
    case.assertEqual(len(timeline.of_kind("framework", "data loading")), summary.get("scopes") or 0)
    case.assertEqual(len(timeline.of_kind("step")), summary.get("steps") or 0)
    return timeline
