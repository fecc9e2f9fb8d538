"""The output of `dlhook export`, read by its usual tools: callgrind_annotate, protoc. Shares no code with the
exporters."""

import collections
import gzip
import os
import re
import shutil

import e2e

ROOT = os.path.dirname(os.path.dirname(e2e.HERE))
PPROF_SCHEMA = os.path.join(ROOT, "analyzer", "export", "third_party", "pprof")

# In callgrind_annotate: time, calls, FLOPs, bytes, each with its share, then file:function [object]; 0 is a dot.
COST = r"([\d,.]+)(?: \( ?[\d.]+%\))?\s+"

Line = collections.namedtuple("Line", "ns calls name")


def export(run, *options, expected_code=0):
    result = e2e.run([e2e.DLHOOK, "export", run.path, *options])
    if result.code != expected_code:
        raise AssertionError(f"dlhook export: {result.code}: {result.err.decode()}")
    return result.out if expected_code == 0 else result.err.decode()


def folded(run, *options):
    """{stack as a tuple of names: weight}"""
    stacks = {}
    for line in export(run, *options).decode().splitlines():
        names, weight = line.rsplit(" ", 1)
        assert tuple(names.split(";")) not in stacks, line
        stacks[tuple(names.split(";"))] = int(weight)
    return stacks


def encoded(textproto):
    """The bytes of a trace."""
    schema = os.path.join(ROOT, "proto")
    result = e2e.run(["protoc", f"--proto_path={schema}", "--encode=dlhook.trace.Trace", "trace.proto"], stdin=textproto)
    assert result.code == 0, result.err.decode()
    return result.out


def totals(run):
    """(thread time, calls) as in the tables of `dlhook report`."""
    summary = {row["metric"]: row["value"] for row in run.table("summary")}
    return summary["thread_time"], summary["calls"]


def annotate(case, path, *options):
    """[Line] of callgrind_annotate, including "PROGRAM TOTALS"."""
    result = e2e.run(["callgrind_annotate", "--threshold=100", "--auto=no", *options, path])
    case.assertEqual((result.code, result.err), (0, b""))
    lines = []
    for line in result.out.decode().splitlines():
        match = re.match(r"\s*" + 4 * COST + "(?:" + COST + r")?([^\s\d.(].*)$", line)
        if match:
            number = [int(match[i].replace(",", "").replace(".", "0")) for i in (1, 2)]
            lines.append(Line(*number, match[6]))
    return lines


def pprof(case, run, *options):
    """The profile as {field: [values]}, after protoc has read it by pprof's own schema."""
    packed = export(run, "--format", "pprof", *options)
    result = e2e.run(["protoc", f"--proto_path={PPROF_SCHEMA}", "--decode=perftools.profiles.Profile", "profile.proto"],
                     stdin=gzip.decompress(packed))
    case.assertEqual(result.code, 0, result.err.decode())
    # Fields that are not in the schema are decoded as numbers.
    case.assertNotRegex(result.out.decode(), r"(?m)^\s*\d+[:{ ]")
    return e2e.parse_textproto(result.out.decode())


class Profile:
    """A decoded profile: samples as (names from the outermost, [values], labels)."""

    def __init__(self, message):
        self.texts = message["string_table"]
        functions = {e2e.one(f, "id"): self.texts[e2e.one(f, "name")] for f in message["function"]}
        self.mappings = {e2e.one(m, "id"): m for m in message["mapping"]}
        self.locations = {e2e.one(place, "id"): place for place in message["location"]}
        names = {number: [functions[e2e.one(line, "function_id")] for line in place["line"]]
                 for number, place in self.locations.items()}
        self.types = [self.texts[e2e.one(kind, "type")] for kind in message["sample_type"]]
        self.samples = []
        for sample in message["sample"]:
            stack = [name for number in sample["location_id"] for name in names[number]]
            labels = {self.texts[e2e.one(label, "key")]: self.texts[e2e.one(label, "str")]
                      for label in sample.get("label", [])}
            self.samples.append((tuple(reversed(stack)), sample["value"], labels))

    def sum(self, kind):
        return sum(values[self.types.index(kind)] for _, values, _ in self.samples)


def check_tool(case, name, package):
    if not shutil.which(name):
        case.skipTest(f"no {name} (package {package})")


def accounted(run):
    """{activity: time} of all steady steps, as in the table accounting."""
    times = collections.Counter()
    for row in run.table("accounting"):
        times[row["activity"]] += row["wall_share"]
    return times


def check_steps(case, run, *options):
    """Stacks of whole steps add up to accounting; time of GPUs is another weight. Returns the latter."""
    times = collections.Counter()
    profile = Profile(pprof(case, run, *options))
    for _stack, values, labels in profile.samples:
        times[labels["kind"]] += values[profile.types.index("time")]
    case.assertEqual(times.pop("gpu", 0), 0)
    case.assertEqual({kind: time for kind, time in times.items() if time}, accounted(run))
    case.assertEqual(sum(folded(run, *options).values()), profile.sum("time"))
    gpu_ns = profile.sum("gpu_time") if "gpu_time" in profile.types else 0
    case.assertEqual(sum(folded(run, "--only", "gpu", *options).values()), gpu_ns)
    # callgrind_annotate counts what is under an edge without calls for both its ends.
    check_tool(case, "callgrind_annotate", "valgrind")
    path = os.path.join(case.folder, "callgrind.steps")
    export(run, "--format", "callgrind", "--out", path, *options)
    whole, *functions = annotate(case, path)
    case.assertEqual((whole.ns, sum(line.ns for line in functions)), (profile.sum("time"), profile.sum("time")))
    return gpu_ns


def check_totals(case, run, *options):
    """Every format adds up to the tables' values, according to its own reader: whole steps, and library calls alone."""
    if run.table("accounting"):
        check_steps(case, run, *options)
    options = ("--only", "library", *options)
    time_ns, calls = totals(run)
    case.assertEqual(sum(folded(run, *options).values()), time_ns)
    case.assertEqual(sum(folded(run, "--weight", "calls", *options).values()), calls)
    profile = Profile(pprof(case, run, *options))
    case.assertEqual((profile.sum("time"), profile.sum("calls")), (time_ns, calls))
    check_tool(case, "callgrind_annotate", "valgrind")
    path = os.path.join(case.folder, "callgrind.out")
    export(run, "--format", "callgrind", "--out", path, *options)
    whole, *functions = annotate(case, path)
    case.assertEqual(whole, Line(time_ns, calls, "PROGRAM TOTALS"))
    case.assertEqual((sum(line.ns for line in functions), sum(line.calls for line in functions)), (time_ns, calls))
    return profile
