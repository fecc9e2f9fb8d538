"""scripts/check_fields.py finds fields that are not written, or not read.

Run: python3 tests/scripts/check_fields_test.py
"""

import os
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, os.path.dirname(__file__))
import gen_proto_fields_test as schema  # also makes the scripts importable
import check_fields

SCHEMA = """
    message Packet { Loss loss = 1; Loss planted = 2; }
    message Loss { uint32 calls = 1; Knob knob = 2; uint32 unread = 3; uint32 unwritten = 4; string detail = 5; }
    message Knob { uint32 value = 1; uint32 rank = 2; repeated uint32 number = 3; }
    message Load { uint64 cpu_ns = 1; uint32 threads = 2; }"""
SHIM = (
    "struct LossRecord { uint32_t calls; uint32_t unread; }; void Put() { fields::Loss::WritePacket(record, out); }",
    "void Write() { namespace f = fields::Loss; f::Write({.detail = text}, writer); MessageScope knob(writer, f::kKnob); }",
    "fields::Knob::Write({value, rank}, writer); column(fields::Knob::kNumber);",
    "sample.cpu_ns = 1; sample.threads += 2; fields::Load::WritePacket(sample, out);",
)
READER = (
    "void Add(const trace::Loss& loss) { calls += loss.calls(); Read(loss.knob()); detail = loss.detail(); loss.unwritten(); }",
    "for (const uint32_t number : loss.knob().number()) out.push_back(loss.knob().value() + loss.knob().rank());",
    "case trace::Packet::kLoss: return Add(packet.loss()); using LoadSample = values::Load;",
    "sum += load.cpu_ns + load->threads;",
)


def lacking(schema_text=SCHEMA):
    with tempfile.TemporaryDirectory() as folder:
        descriptors = schema.describe(folder, schema_text).read_bytes()
    with unittest.mock.patch.object(check_fields, "VALUES", {"Load": None}):
        return check_fields.unused_fields(
            descriptors, [check_fields.Words(text) for text in SHIM], [check_fields.Words(text) for text in READER]
        )


class CheckFields(unittest.TestCase):
    def test_each_unused_field_is_found(self):
        self.assertEqual(lacking(), {
            "Packet.planted": "read in analyzer",
            "Loss.unread": "read in analyzer",
            "Loss.unwritten": "written in preload",
        })

    def test_a_new_field_is_neither(self):
        grown = SCHEMA.replace("uint64 cpu_ns = 1;", "uint64 cpu_ns = 1; uint32 new_field = 9;")
        self.assertEqual(lacking(grown)["Load.new_field"], "written in preload nor read in analyzer")

    def test_a_reason_must_be_needed(self):
        found = check_fields.problems({"A.b": "read in analyzer"}, {"A.c": "because"})
        self.assertEqual(
            [problem.split(":")[0] for problem in found], ["A.b is not read in analyzer", "A.c is in UNUSED, but used or gone"]
        )
        self.assertEqual(check_fields.problems({"A.b": "read in analyzer"}, {"A.b": "because"}), [])


if __name__ == "__main__":
    unittest.main()
