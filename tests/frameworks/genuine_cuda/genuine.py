"""Shared by the tests with NVIDIA's own libraries: their paths, their headers' numbers, and a victim's lines."""

import collections
import functools
import glob
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "preload_e2e"))
import e2e  # pylint: disable=wrong-import-position

VENV = os.environ.get("DLHOOK_TEST_NVIDIA_VENV", "")
VICTIM = os.environ.get("DLHOOK_TEST_GENUINE", "")
DRIVER = os.environ.get("DLHOOK_TEST_GENUINE_DRIVER", "")  # folder of a libcuda.so.1 without a device
DEVICE = os.path.join(HERE, "device_h100.json")
MISSING = "no NVIDIA libraries: see tests/frameworks/genuine_cuda/README.md"


def inside_wheels(*parts):
    """The path of a file inside the nvidia-* wheels, or None."""
    found = sorted(glob.glob(os.path.join(VENV, "lib", "python3*", "site-packages", "nvidia", *parts)))
    return found[0] if found else None


def cudnn():
    return inside_wheels("cudnn", "lib", "libcudnn.so.9")


def cublaslt():
    return inside_wheels("cu13", "lib", "libcublasLt.so.13")


@functools.lru_cache
def enumerators(*header):
    """{name: number} of a header's enumerators that are written with their number."""
    with open(inside_wheels(*header), encoding="utf-8", errors="replace") as file:
        found = re.findall(r"\b(CU[A-Z0-9_]+)(?:\s+CUDNN_DEPRECATED_ENUM)?\s*=\s*(\d+|0x[0-9a-fA-F]+)\b", file.read())
    return {name: int(number, 0) for name, number in found}


def graph_number(name):
    return enumerators("cudnn", "include", "cudnn_graph_v9.h")[name]


# cudnnDataType_t -> trace::DataType
TYPES = {"CUDNN_DATA_FLOAT": "F32", "CUDNN_DATA_DOUBLE": "F64", "CUDNN_DATA_HALF": "F16", "CUDNN_DATA_BFLOAT16": "BF16"}


Call = collections.namedtuple("Call", "sequence op status addresses")


class Case(e2e.Case):
    def setUp(self):
        if cudnn() is None or cublaslt() is None:
            self.skipTest(MISSING)
        super().setUp()
        self.out = os.path.join(self.folder, "said")

    def lines(self):
        """The victim's output: one message per call."""
        with open(self.out, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def dumped(self):
        result = e2e.run([e2e.DLHOOK, "dump", self.run_path])
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        trace = e2e.TraceWithOperands()
        for packet in e2e.parse_textproto(result.out.decode()).get("packet", []):
            trace.add(packet)
        self.assert_no_loss(trace)
        return trace

    def said_and_recorded(self, host, functions, *arguments, **extra):
        """Runs the victim under dlhook: [(the victim's message, recorded call)] of some functions, in order."""
        self.fresh_run()
        result = self.under(host, [VICTIM, *arguments], **extra)
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        trace = self.dumped()
        calls = [Call(call.sequence, call.op, trace.status_of.get(call[:2], 0), trace.addresses_of[call[:2]])
                 for call in trace.calls if functions(e2e.one(call.op, "function"))]
        said = self.lines()
        self.assertEqual(len(calls), len(said))
        return list(zip(said, sorted(calls, key=lambda call: call.sequence), strict=True))

    def check_fields(self, message, expected):
        """The fields of a parsed message, each with its last value; absent ones count as `expected`'s zero value."""
        zero = {int: 0, str: "", bool: False}
        actual = {name: e2e.one(message, name, zero[type(value)]) for name, value in expected.items()}
        self.assertEqual(actual, expected)
