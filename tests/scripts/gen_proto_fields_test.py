"""scripts/gen_proto_fields.py: its headers, of what protoc says of a schema.

Run: python3 tests/scripts/gen_proto_fields_test.py
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

SCRIPTS = os.path.join(os.path.dirname(__file__), "..", "..", "scripts")
PROTOC = os.environ.get("PROTOC", "protoc")
sys.path.insert(0, SCRIPTS)
import gen_proto_fields


def describe(folder, text):
    """The file of descriptors of a schema."""
    pathlib.Path(folder, "a.proto").write_text('syntax = "proto3";\npackage dlhook.trace;\n' + text, encoding="utf-8")
    out = pathlib.Path(folder, "a.descriptors")
    subprocess.run([PROTOC, f"--descriptor_set_out={out}", f"-I{folder}", "a.proto"], check=True)
    return out


def generated(text):
    """The contents of the namespaces in the headers of fields, enums and values: lines without their indentation."""
    with tempfile.TemporaryDirectory() as folder:
        headers = gen_proto_fields.generate(describe(folder, text).read_bytes())
    bodies = [header.split(" {\n\n", 1)[1].rsplit("\n}  // namespace", 1)[0] for header in headers]
    return [[line.strip() for line in body.split("\n") if line] for body in bodies]


class Generated(unittest.TestCase):
    def test_numbers_of_fields(self):
        text = """
            message Gemm { uint32 dims = 1; }
            message Other {  // message Gemm { uint32 x = 1; }
              reserved 3 to 6;
              uint32 thread_id = 1;
              repeated sint64 f8_delta = 20;
              repeated string name = 22;
              oneof op { Gemm gemm = 7; string copy = 8; }
            }"""
        lines = generated(text)[0]
        self.assertEqual([line for line in lines if line.endswith(",")],
                         ["kDims = 1,", "kThreadId = 1,", "kF8Delta = 20,", "kName = 22,", "kGemm = 7,", "kCopy = 8,"])
        self.assertIn("constexpr format::MessageForm kForm = {0x400100, 0x100000, 0x80, {&fields::Gemm::kForm}};", lines)
        self.assertEqual(lines[-1], "}  // namespace Other")

    def test_a_writer_takes_every_field_that_holds_one_value(self):
        text = """
            message Packet { Loss loss = 7; }
            message Loss {
              enum Reason { UNKNOWN = 0; }
              Reason reason = 1; uint32 calls = 2; sint32 rank = 3; string detail = 4; repeated uint32 number = 5;
              int64 m = 6; bytes id = 8;
            }"""
        lines = generated(text)[0]
        values = lines[lines.index("struct Values {") : lines.index("struct Rows {")]
        self.assertEqual(values[:8], [
            "struct Values {", "fields::Loss::Reason reason;", "uint32_t calls;", "int32_t rank;", "format::TextSpan detail;", "int64_t m;",
            "format::TextSpan id;", "};",
        ])
        self.assertEqual([line.split(") ", 1)[1] for line in values if line.startswith("if constexpr")], [
            "writer->UInt(kReason, from.reason);", "writer->UInt(kCalls, static_cast<uint32_t>(from.calls));",
            "writer->SInt32(kRank, from.rank);", "writer->Text(kDetail, from.detail);", "writer->Int(kM, from.m);",
            "writer->Bytes(kId, from.id);",
        ])
        self.assertIn("format::PacketScope packet(out, 7);", values)

    def test_a_batch_takes_rows(self):
        text = """
            message Packet { Batch batch = 7; }
            message Batch {
              uint32 thread_id = 1; uint64 base_end_ticks = 2; repeated sint64 end_delta_ticks = 3; repeated uint32 stack_iid = 4;
              repeated uint32 kind = 5; repeated sint64 tick_delta = 6;
            }"""
        with mock.patch.object(gen_proto_fields, "RARE", {"Batch": ("stack_iid",)}):
            lines, _, readers = generated(text)
        rows = lines[lines.index("struct Rows {") :]
        self.assertEqual(rows[1], "static constexpr uint32_t kPacket = 7;")
        self.assertEqual([line.split(") ", 1)[1] for line in rows if line.startswith("if constexpr")], [
            "to->Begin(kBaseEndTicks, kEndDeltaTicks, static_cast<uint64_t>(from.end_ticks));",
            "to->PutDelta(kEndDeltaTicks, static_cast<uint64_t>(from.end_ticks));",
            "to->PutRare(kStackIid, static_cast<uint64_t>(from.stack_iid));",
            "to->Put(kKind, static_cast<uint64_t>(from.kind));", "to->PutDelta(kTickDelta, static_cast<uint64_t>(from.ticks));",
        ])
        self.assertEqual(readers[readers.index("void Next() {") + 1 :][:5], [
            "end_ticks += static_cast<uint64_t>(from.end_delta_ticks(i));",
            "stack_iid = i < from.stack_iid_size() ? from.stack_iid(i) : 0;",
            "kind = from.kind(i);", "ticks += static_cast<uint64_t>(from.tick_delta(i));", "++i;",
        ])
        self.assertIn("end_ticks = from.base_end_ticks();", readers)

    def test_enums_lose_the_words_of_their_name(self):
        for enum, name, expected in (
            ("Kind", "KERNEL", "kKernel"), ("Kind", "KIND_UNKNOWN", "kUnknown"), ("DataType", "DATA_TYPE_UNKNOWN", "kUnknown"),
            ("HostMemory", "HOST_UNKNOWN", "kUnknown"), ("GpuTimeSource", "GPU_TIME_NONE", "kNone"), ("Kind", "KIND", "kKind"),
            ("DataType", "F8_E4M3", "kF8E4m3"), ("Direction", "HOST_TO_DEVICE", "kHostToDevice"),
        ):
            with self.subTest(name):
                fields, enums, _ = generated(f"enum {enum} {{ {name} = 0; }}")
                self.assertEqual(fields, [])
                self.assertEqual(enums[:3], [f"enum class {enum} : uint8_t {{", f"{expected} = 0,", "};"])

    def test_enumerators_have_names(self):
        self.assertEqual(generated("enum Cause { TRACE_LIMIT = 0; RING_FULL = 1; }")[1][4:11], [
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
        fields, enums, _ = generated(text)
        self.assertEqual(fields[:11], [
            "namespace Plan {", "enum Number : uint32_t {", "kKnob = 3,", "};",
            "namespace Knob {", "enum Number : uint32_t {", "kType = 1,", "};",
            "constexpr format::MessageForm kForm = {0x0, 0x0, 0x0, {}};", "struct Values {", "int32_t type;",
        ])
        self.assertEqual(enums[:4], ["namespace Plan {", "enum class Cut : uint8_t {", "kWhole = 0,", "};"])

    def test_values_copy_a_message(self):
        values = {"Load": gen_proto_fields.Values(more=("int64_t time_ns = 0",), left_out=("ticks",), is_signed=True)}
        text = """
            message Load { enum Kind { NONE = 0; } uint64 ticks = 1; uint64 cpu_ns = 2; Kind kind = 3; string text = 4;
                           repeated uint32 number = 5; bool is_on = 6; }"""
        with mock.patch.object(gen_proto_fields, "VALUES", values):
            self.assertEqual(generated(text)[2], [
                "struct Load {", "int64_t time_ns = 0;", "int64_t cpu_ns{};", "fields::Load::Kind kind{};", "std::string text;",
                "bool is_on{};", "auto operator<=>(const Load&) const = default;", "};",
                "template <typename Message>", "void Read(const Message& from, Load* to) {",
                "to->cpu_ns = static_cast<int64_t>(std::min(from.cpu_ns(), uint64_t{1} << 62));",
                "to->kind = fields::FromProto<fields::Load::Kind>(from.kind());",
                "to->text = from.text().substr(0, 16384);", "to->is_on = from.is_on();", "}",
            ])

    def test_as_a_program_it_leaves_equal_files_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            outs = [pathlib.Path(folder, f"{name}.h") for name in ("fields", "enums", "values")]
            command = [sys.executable, "-B", os.path.join(SCRIPTS, "gen_proto_fields.py")]
            for out in outs:
                command += [f"--{out.stem}", str(out)]
            command.append(str(describe(folder, "message A { string b_c = 2; }")))
            subprocess.run(command, check=True)
            self.assertIn("kBC = 2,", outs[0].read_text(encoding="utf-8"))
            self.assertIn("namespace dlhook::fields", outs[1].read_text(encoding="utf-8"))
            for out in outs:
                os.utime(out, (1, 1))
            subprocess.run(command, check=True)
            self.assertEqual([out.stat().st_mtime for out in outs], [1, 1, 1])


if __name__ == "__main__":
    unittest.main()
