"""Shared by the framework tests: the pinned Python, and oneDNN's log read independently of dlhook."""

import collections
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "preload_e2e"))
import e2e  # pylint: disable=wrong-import-position

PYTHON = os.environ.get("DLHOOK_TEST_PYTHON", "")
TENSORFLOW_PYTHON = os.environ.get("DLHOOK_TEST_TENSORFLOW_PYTHON", "")  # with Keras and JAX
DEBIAN_PYTHON = "/usr/bin/python3"
LENET = os.path.join(HERE, "..", "..", "examples", "01_first_profile", "train_lenet.py")
MISSING = "no virtual environment: run scripts/setup.sh --frameworks"

# The fields of an execution or creation line, in the order of the `template:` line of oneDNN 3.x.
FIELDS = ("operation", "engine", "primitive", "implementation", "prop_kind", "memory_descriptors", "attributes",
          "auxiliary", "problem")


def is_numpys_import(call):
    """The product that `import numpy` computes in some releases to see whether its BLAS handles floating-point errors:
    a process that only imports it has a trace, too."""
    return e2e.problem(call.op)[1:4] == (20, 20, 20)


def computes(trace):
    return not all(map(is_numpys_import, trace.calls))


def program(name, *arguments):
    return [PYTHON, os.path.join(HERE, "programs", name + ".py"), *map(str, arguments)]


def log_lines(output):
    """Execution and creation lines of oneDNN's log as tuples of FIELDS, without the time."""
    lines = []
    for line in output.decode().splitlines():
        fields = line.split(",")
        if fields[:3] == ["onednn_verbose", "v1", "primitive"] and fields[3].startswith(("exec", "create")):
            lines.append(tuple(fields[3:-1]))
    return lines


def recorded_lines(trace):
    """The same of a dlhook trace, in the order in which the calls ended."""
    calls = [call for call in trace.calls if "onednn" in call.op]
    calls.sort(key=lambda call: (call.end_ticks, call.sequence))
    return [tuple(e2e.one(e2e.one(call.op, "onednn"), field, "") for field in FIELDS) for call in calls]


def without_times(output):
    """Output whose oneDNN lines have their time (last field) and time stamp (third field, if any) replaced."""
    output = re.sub(rb"(?m)^(onednn_verbose,v1,)\d+\.\d+(e[+-]?\d+)?,", rb"\1STAMP,", output)
    return re.sub(rb"(?m)^(onednn_verbose,.*,(?:exec|create:\w+),.*),[\d.]+(e[+-]?\d+)?$", rb"\1,TIME", output)


Reorder = collections.namedtuple("Reorder", "source target problem")


def reorders(lines):
    """{Reorder: count} of the execution lines."""
    counts = collections.Counter()
    for line in lines:
        named = dict(zip(FIELDS, line))
        if named["operation"] == "exec" and named["primitive"] == "reorder":
            formats = [descriptor.split(":") for descriptor in named["memory_descriptors"].split(" ")]
            # src:f32:p:blocked:aBcd16b::f0 -> aBcd16b
            tags = {fields[0]: fields[4] for fields in formats}
            counts[Reorder(tags["src"], tags["dst"], named["problem"])] += 1
    return counts


class Case(e2e.Case):
    _outputs = {}  # of runs without dlhook, shared by several tests

    def setUp(self):
        if not os.access(PYTHON, os.X_OK):
            self.skipTest(MISSING)
        super().setUp()

    def plain(self, argv, **extra):
        """The program's own result without dlhook. These programs always print the same except for oneDNN's times."""
        key = (tuple(argv), tuple(sorted(extra.items())))
        if key not in self._outputs:
            self._outputs[key] = e2e.run(argv, env=e2e.clean_environment(**extra), cwd=self.folder)
        return self._outputs[key]

    def witness(self, argv, level=1):
        """The log that the program itself prints at `level`, without dlhook."""
        result = self.plain(argv, ONEDNN_VERBOSE=str(level))
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        return log_lines(result.out)
