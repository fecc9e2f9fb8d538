"""scripts/gen_proto_fields.py: its output for messages and enums, and its refusals.

Run: python3 tests/scripts/gen_proto_fields_test.py
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = os.path.join(os.path.dirname(__file__), "..", "..", "scripts")
sys.path.insert(0, SCRIPTS)
import gen_proto_fields

HEAD = 'syntax = "proto3";\npackage p;\n'


def generated(text):
    """The contents of namespace fields in the headers of fields and of enums, each line without its indentation."""
    bodies = []
    for header in gen_proto_fields.generate([("a.proto", HEAD + text)]):
        body = header.split("namespace dlhook::fields {\n\n")[1].split("\n\n}  // namespace dlhook::fields")[0]
        bodies.append([line.strip() for line in body.split("\n") if line])
    return bodies


class Fields(unittest.TestCase):
    def test_numbers_of_fields(self):
        text = """
            import "b.proto";
            message CallBatch {  // message Other { uint32 x = 1; }
              reserved 3 to 6;
              uint32 thread_id = 1;
              repeated sint64 f8_delta = 20;
              oneof op { p.Gemm gemm = 7; Copy copy = 8; }
            }"""
        fields, enums = generated(text)
        self.assertEqual(enums, [])
        self.assertEqual(fields, [
            "namespace CallBatch {",
            "constexpr uint32_t kThreadId = 1;",
            "constexpr uint32_t kF8Delta = 20;",
            "constexpr uint32_t kGemm = 7;",
            "constexpr uint32_t kCopy = 8;",
            "}  // namespace CallBatch",
        ])

    def test_enums_lose_the_words_of_their_name(self):
        for enum, name, expected in (
            ("Kind", "KERNEL", "kKernel"), ("Kind", "KIND_UNKNOWN", "kUnknown"), ("DataType", "DATA_TYPE_UNKNOWN", "kUnknown"),
            ("HostMemory", "HOST_UNKNOWN", "kUnknown"), ("GpuTimeSource", "GPU_TIME_NONE", "kNone"), ("Kind", "KIND", "kKind"),
            ("DataType", "F8_E4M3", "kF8E4m3"), ("Direction", "HOST_TO_DEVICE", "kHostToDevice"),
        ):
            with self.subTest(name):
                fields, enums = generated(f"enum {enum} {{ {name} = 3; }}")
                self.assertEqual(fields, [])
                self.assertEqual(enums[:3], [f"enum class {enum} : uint8_t {{", f"{expected} = 3,", "};"])

    def test_enumerators_have_names(self):
        self.assertEqual(generated("enum Cause { TRACE_LIMIT = 0; RING_FULL = 1; }")[1][4:], [
            "constexpr const char* EnumName(Cause value) {",
            "switch (value) {",
            'case Cause::kTraceLimit: return "trace_limit";',
            'case Cause::kRingFull: return "ring_full";',
            "}",
            'return "";',
            "}",
        ])

    def test_inner_types_stand_in_their_message(self):
        text = "message Plan { message Knob { sint32 type = 1; } enum Cut { WHOLE = 0; } repeated Knob knob = 3; }"
        fields, enums = generated(text)
        self.assertEqual(fields, [
            "namespace Plan {",
            "namespace Knob {", "constexpr uint32_t kType = 1;", "}  // namespace Knob",
            "constexpr uint32_t kKnob = 3;",
            "}  // namespace Plan",
        ])
        self.assertEqual(enums[:4], ["namespace Plan {", "enum class Cut : uint8_t {", "kWhole = 0,", "};"])
        self.assertEqual(enums[-1], "}  // namespace Plan")

    def test_what_it_does_not_understand_is_named_with_its_line(self):
        for text, expected in (
            ("message A {\n  map<string, int32> x = 1;\n}", "a.proto:4: unexpected '<'"),
            ("message A {\n  string x = 1 [deprecated = true];\n}", "a.proto:4: unexpected '['"),
            ("message A {\n  string x;\n}", "a.proto:4: expected '=', found ';'"),
            ("message A {\n  string x = 536870912;\n}", "a.proto:4: expected a number up to 536870911, found '536870912'"),
            ("message A {\n  optional string x = 1;\n}", "a.proto:4: expected '=', found 'x'"),
            ("message A {\n  option (o) = 1;\n}", "a.proto:4: unexpected '('"),
            ("enum A {\n  B = 256;\n}", "a.proto:4: expected a number up to 255, found '256'"),
            ("enum A {\n  B = -1;\n}", "a.proto:4: unexpected '-'"),
            ("message A {\n  string a_b = 1;\n  string a__b = 2;\n}", "a.proto:5: a second kAB"),
            ("enum Kind {\n  KIND_ON = 0;\n  ON = 1;\n}", "a.proto:5: a second kOn"),
            ("service A {}", "a.proto:3: expected 'package', 'import', 'enum' or 'message', found 'service'"),
            ("message A {", "a.proto:3: expected a field, found the end of the file"),
        ):
            with self.subTest(text):
                with self.assertRaises(gen_proto_fields.ProtoError) as caught:
                    generated(text)
                self.assertIn(expected, str(caught.exception))

    def test_proto2_is_refused(self):
        with self.assertRaisesRegex(gen_proto_fields.ProtoError, "a.proto:1: expected"):
            gen_proto_fields.generate([("a.proto", 'syntax = "proto2";')])

    def test_as_a_program(self):
        with tempfile.TemporaryDirectory() as folder:
            proto = pathlib.Path(folder, "a.proto")
            out, enums = pathlib.Path(folder, "fields.h"), pathlib.Path(folder, "enums.h")
            command = [sys.executable, "-B", os.path.join(SCRIPTS, "gen_proto_fields.py"), "--out", str(out), "--enums", str(enums),
                       str(proto)]
            proto.write_text("syntax = 1;", encoding="utf-8")
            failed = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual((failed.returncode, out.exists()), (1, False))
            self.assertIn("a.proto:1: expected", failed.stderr)
            proto.write_text(HEAD + "message A { string b_c = 2; }", encoding="utf-8")
            subprocess.run(command, check=True)
            self.assertIn("constexpr uint32_t kBC = 2;", out.read_text(encoding="utf-8"))
            self.assertIn("namespace dlhook::fields", enums.read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
