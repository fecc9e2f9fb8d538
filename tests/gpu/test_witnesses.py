"""The comparison of run.py on samples: the log of genuine cuDNN 9.24 without a device, and dlhook's record of the same
program. The profile is written by hand in Kineto's format, as no GPU was available to write one."""

import copy
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import cudnn_log  # pylint: disable=wrong-import-position
import witnesses  # pylint: disable=wrong-import-position
from e2e import Trace, parse_textproto  # pylint: disable=wrong-import-position
from witnesses import Copied, Product  # pylint: disable=wrong-import-position

# A convolution with bias and ReLU, planned twice with engine 41 and executed once each.
TENSORS = frozenset({
    (120, (8, 64, 32, 32), (65536, 1, 2048, 64)), (119, (128, 64, 3, 3), (576, 1, 192, 64)),
    (121, (8, 128, 32, 32), (131072, 1, 4096, 128)), (98, (1, 128, 1, 1), (128, 1, 128, 128)),
    (501, (8, 128, 32, 32), (131072, 1, 4096, 128)), (111, (8, 128, 32, 32), (131072, 1, 4096, 128)),
})  # fmt: skip
OPERATIONS = ("convolution_forward", "pointwise", "pointwise")

PROFILE = [
    {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "args": {"bytes": 4096}},
    {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "args": {"bytes": 128}},
    {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "args": {"bytes": 72}},
    {"cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)", "args": {"bytes": 4}},
    {"cat": "gpu_memcpy", "name": "Memcpy DtoD (Device -> Device)", "args": {"bytes": 16}},
    {"cat": "gpu_memset", "name": "Memset (Device)", "args": {"bytes": 1000}},
    {"cat": "cpu_op", "name": "aten::addmm", "args": {"Input Dims": [[7], [3, 5], [5, 7], [], []]}},
    {"cat": "cpu_op", "name": "aten::mm", "args": {"Input Dims": [[7, 3], [3, 5]]}},
    {"cat": "cpu_op", "name": "aten::bmm", "args": {"Input Dims": [[2, 7, 3], [2, 3, 5]]}},
    {"cat": "cpu_op", "name": "aten::linear", "args": {"Input Dims": [[3, 5], [7, 5], [7]]}},
    {"ph": "M", "name": "process_name"},
]


def sample(name):
    with open(os.path.join(HERE, "samples", name), encoding="utf-8") as file:
        return file.read()


def sample_trace():
    trace = Trace()
    for packet in parse_textproto(sample("recorded.textproto"))["packet"]:
        trace.add(packet)
    return trace


class CudnnLog(unittest.TestCase):
    def setUp(self):
        self.entries = cudnn_log.entries(sample("cudnn_log.txt"))

    def test_executions(self):
        first, second = cudnn_log.executions(self.entries).items()
        for execution, count in (first, second):
            self.assertEqual(count, 1)
            self.assertEqual(execution.operations, OPERATIONS)
            self.assertEqual(execution.tensors, TENSORS)
            self.assertEqual(execution.engine, 41)
        self.assertNotEqual(first[0].knobs, second[0].knobs)

    def test_knobs_are_numbers(self):
        knobs = {knob for execution in cudnn_log.executions(self.entries) for knob, _ in execution.knobs}
        self.assertEqual(knobs, {2, 13, 18, 25, 27, 28})  # tile size, tile K, index mode, workspace, cluster M and N

    def test_a_call_with_two_entries_is_one_call(self):
        calls = cudnn_log.calls(self.entries)
        self.assertEqual(calls["cudnnBackendExecute"], 2)
        self.assertEqual(calls["cudnnBackendCreateDescriptor"], 1)
        self.assertEqual(calls["cudnnBackendDestroyDescriptor"], 1)

    def test_an_error_is_no_call(self):
        calls = cudnn_log.calls(cudnn_log.entries(sample("legacy_log.txt")))
        self.assertEqual(calls["cudnnActivationForward"], 1)
        self.assertEqual(calls["cudnnBatchNormalizationForwardTraining"], 1)

    def test_a_field_that_skips_a_level_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "indented"):
            cudnn_log.entries("I! CuDNN (v92400 43) function f() called:\ni!             deep: type=int; val=1;\n")


class Plans(unittest.TestCase):
    def setUp(self):
        self.said = cudnn_log.executions(cudnn_log.entries(sample("cudnn_log.txt")))
        self.trace = sample_trace()

    def test_dlhook_recorded_what_the_library_wrote(self):
        self.assertEqual(witnesses.differences(self.said, witnesses.recorded_executions(self.trace)), [])
        self.assertEqual(witnesses.recorded_functions(self.trace), {"cudnnBackendExecute": 2})

    def changed(self, change):
        """The differences after `change` has been applied to one recorded cudnn message."""
        self.trace.ops = copy.deepcopy(self.trace.ops)
        call = self.trace.calls[0]
        op = copy.deepcopy(call.op)
        change(op["cudnn"][0])
        self.trace.calls[0] = call._replace(op=op)
        return witnesses.differences(self.said, witnesses.recorded_executions(self.trace))

    def test_every_part_of_a_plan_counts(self):
        def engine(cudnn):
            cudnn["plan"][0]["engine"] = [40]

        def knob(cudnn):
            cudnn["plan"][0]["knob"][0]["value"] = [77]

        def dimension(cudnn):
            cudnn["tensor"][0]["dim"][0] = 9

        def stride(cudnn):
            cudnn["tensor"][0]["stride"][0] = 9

        def node(cudnn):
            del cudnn["plan"][0]["node"][2]

        for change in (engine, knob, dimension, stride, node):
            with self.subTest(change.__name__):
                self.setUp()
                lines = self.changed(change)
                self.assertEqual(len(lines), 2, lines)

    def test_a_missing_execution_is_named(self):
        del self.trace.calls[0]
        (line,) = witnesses.differences(self.said, witnesses.recorded_executions(self.trace))
        self.assertRegex(line, r"^convolution_forward\+pointwise\+pointwise .*engine 41 k2=")
        self.assertTrue(line.endswith(": 1 by the witness, none recorded"), line)


class Profile(unittest.TestCase):
    def test_products(self):
        self.assertEqual(witnesses.profiled_products(PROFILE), {
            Product(3, 7, 5, 1): 1, Product(5, 7, 3, 1): 1, Product(5, 7, 3, 2): 1})  # fmt: skip

    def test_products_in_either_orientation_are_the_same(self):
        rows = [{"kind": "gemm", "m": 7, "n": 3, "k": 5, "batch": 1, "calls": 1},
                {"kind": "gemm", "m": 5, "n": 7, "k": 3, "batch": 1, "calls": 1},
                {"kind": "gemm", "m": 5, "n": 7, "k": 3, "batch": 2, "calls": 1},
                {"kind": "search", "m": 5, "n": 7, "k": 3, "batch": 1, "calls": 9}]  # fmt: skip
        recorded = witnesses.recorded_products(rows)
        self.assertEqual(witnesses.differences(witnesses.profiled_products(PROFILE), recorded), [])
        rows[0]["k"] = 6
        lines = witnesses.differences(witnesses.profiled_products(PROFILE), witnesses.recorded_products(rows))
        self.assertEqual(lines, ["product 3x7, inner 5, batch 1: 1 by the witness, none recorded",
                                 "product 3x7, inner 6, batch 1: none by the witness, 1 recorded"])  # fmt: skip

    def test_copies(self):
        self.assertEqual(witnesses.profiled_copies(PROFILE), {
            ("HtoD", "pinned"): Copied(1, 4096), ("HtoD", "pageable"): Copied(2, 200),
            ("DtoH", "pageable"): Copied(1, 4), ("DtoD", "none"): Copied(1, 16)})  # fmt: skip

    def test_copies_differ_in_bytes_number_and_memory(self):
        rows = [{"direction": "HtoD", "memory": "pinned", "copies": 1, "bytes": 4096},
                {"direction": "HtoD", "memory": "pageable", "copies": 2, "bytes": 200},
                {"direction": "DtoH", "memory": "pageable", "copies": 1, "bytes": 4},
                {"direction": "DtoD", "memory": "none", "copies": 1, "bytes": 16},
                {"direction": "set", "memory": "none", "copies": 1, "bytes": 1000}]  # fmt: skip
        self.assertEqual(witnesses.differences(witnesses.profiled_copies(PROFILE), witnesses.recorded_copies(rows)), [])
        for column, value in (("bytes", 201), ("copies", 3), ("memory", "pinned")):
            with self.subTest(column):
                other = [dict(row) for row in rows]
                other[1][column] = value
                recorded = witnesses.recorded_copies(other)
                self.assertTrue(witnesses.differences(witnesses.profiled_copies(PROFILE), recorded))


if __name__ == "__main__":
    unittest.main(verbosity=2)
