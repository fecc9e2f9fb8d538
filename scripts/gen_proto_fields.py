#!/usr/bin/env python3
"""Turns the schema of proto/*.proto, as protoc describes it, into C++ that does without libprotobuf.

    gen_proto_fields.py --fields HEADER --enums HEADER --values HEADER DESCRIPTOR_SET

DESCRIPTOR_SET is what `protoc --descriptor_set_out` wrote. In namespace dlhook::fields, a namespace for each message:

  --fields  for the shim: the number of each field (CallBatch.thread_id: CallBatch::kThreadId), which of them are columns
            (kRepeated), texts (kTexts) and messages (kMessages); Values, the fields that hold one value, as a struct; and
            Write(from, writer), which writes those of which `from`, Values or a record of a ring, has a member. WritePacket: the
            same as a packet of its own.
  --enums   for both: each enum as an enum class; EnumName() of it, the enumerator as the schema spells it, in lower case, "" for
            other numbers. As in protobuf's style an enumerator may begin with the words of its enum, which C++ doesn't repeat
            (HostMemory.HOST_UNKNOWN: HostMemory::kUnknown).
  --values  for the analyzer: each message of VALUES as a plain struct, and Read(message, struct), which copies all of it.
"""

import argparse
import collections
import dataclasses
import pathlib
import re
import sys


@dataclasses.dataclass(frozen=True)
class Values:
    more: tuple = ()  # members that the schema lacks, before its own
    left_out: tuple = ()
    is_signed: bool = False  # uint64 as int64_t that differences can be made of: at most 2^62


# The messages that the analyzer keeps as they are. Of a message's fields, those that hold one value: others need a meaning.
VALUES = {
    "Capability": Values(left_out=("ticks",)),
    "Collective": Values(),
    "CompiledCode": Values(more=("uint32_t process = 0",), is_signed=True),
    "Copy": Values(),
    "Gemm": Values(more=("bool is_lt = false", "uint32_t heuristic_results = 0")),  # of its CudaGemm
    "GpuDevice": Values(more=("uint32_t process = 0",)),
    "LoadSample": Values(more=("uint32_t process = 0", "int64_t time_ns = 0"), left_out=("ticks",), is_signed=True),
    "Loss": Values(),
    "Mapping": Values(),
    "MatrixOp": Values(),
    "Processor": Values(),
}
MAX_TEXT = 16 << 10  # bytes of a value

# FieldDescriptorProto.Type
INT64, UINT64, INT32, FIXED64, BOOL, STRING, MESSAGE, BYTES = 3, 4, 5, 6, 8, 9, 11, 12
UINT32, ENUM, SINT32, SINT64 = 13, 14, 17, 18
NUMBERS = {INT64: "int64_t", UINT64: "uint64_t", INT32: "int32_t", FIXED64: "uint64_t", BOOL: "bool", UINT32: "uint32_t",
           SINT32: "int32_t", SINT64: "int64_t"}
WRITERS = {INT64: "Int", INT32: "Int", STRING: "Text", BYTES: "Bytes", SINT32: "SInt32", SINT64: "SInt64"}  # of PacketWriter


# --- descriptors (google/protobuf/descriptor.proto) ------------------------------------------------------------------------


def decode(data):
    """{field: [values]} of an encoded message; values are numbers or bytes."""
    fields = collections.defaultdict(list)
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        value = varint()
        if tag & 7 == 2:
            at += value
            value = data[at - value : at]
        fields[tag >> 3].append(value)
    return fields


class Named:
    def __init__(self, data):
        self.parts = decode(data)
        self.name = self.parts[1][0].decode()


class Field(Named):
    def __init__(self, data):
        super().__init__(data)
        self.number, self.type = self.parts[3][0], self.parts[5][0]
        self.is_repeated = self.parts[4][0] == 3
        self.is_one = not self.is_repeated and self.type != MESSAGE
        # ".dlhook.trace.Copy.Direction": Copy::Direction
        self.type_name = "::".join(self.parts[6][0].decode().split(".")[3:]) if self.parts[6] else ""

    def cxx(self, text):
        """The type of a member for it; that of strings is `text`."""
        return f"fields::{self.type_name}" if self.type == ENUM else NUMBERS.get(self.type, text)


class Enum(Named):
    def __init__(self, data):
        super().__init__(data)
        values = [decode(value) for value in self.parts[2]]
        self.values = [(value[1][0].decode(), value[2][0] if value[2] else 0) for value in values]


class Message(Named):
    def __init__(self, data):
        super().__init__(data)
        self.fields = [Field(field) for field in self.parts[2]]
        self.messages = [Message(message) for message in self.parts[3]]
        self.enums = [Enum(enum) for enum in self.parts[4]]


def read_descriptors(data):
    """The messages and enums of the files of a FileDescriptorSet."""
    files = [decode(file) for file in decode(data)[1]]
    return [Message(message) for file in files for message in file[4]], [Enum(enum) for file in files for enum in file[5]]


# --- C++ -------------------------------------------------------------------------------------------------------------------


def constant(name):
    """kThreadId of thread_id, kF8E4m3 of F8_E4M3."""
    return "k" + "".join(word.capitalize() for word in name.lower().split("_"))


def enumerator(enum, name):
    """kUnknown of HOST_UNKNOWN in HostMemory."""
    words = name.split("_")
    for word in re.findall(r"[A-Z][a-z0-9]*", enum):
        if len(words) == 1 or words[0] != word.upper():
            break
        words = words[1:]
    return constant("_".join(words))


def in_namespace(name, lines):
    return [f"namespace {name} {{", *(f"  {line}" for line in lines), f"}}  // namespace {name}"] if lines else []


def enum_lines(enum):
    names = [(enumerator(enum.name, spelled), spelled, value) for spelled, value in enum.values]
    return [f"enum class {enum.name} : uint8_t {{", *(f"  {name} = {value}," for name, _, value in names), "};",
            f"constexpr const char* EnumName({enum.name} value) {{", "  switch (value) {",
            *(f'    case {enum.name}::{name}: return "{spelled.lower()}";' for name, spelled, _ in names),
            "  }", '  return "";', "}"]


def enums_of(message):
    return in_namespace(message.name, [line for enum in message.enums for line in enum_lines(enum)] +
                        [line for inner in message.messages for line in enums_of(inner)])


def mask(fields):
    return hex(sum(1 << field.number for field in fields))


def writer_lines(message, packet):
    """Values and its writers. `packet`: the message's field in Packet, or None."""
    fields = [field for field in message.fields if field.is_one]
    if not fields:
        return []
    writes = []
    for field in fields:
        value = f"static_cast<uint32_t>(from.{field.name})" if field.type == UINT32 else f"from.{field.name}"
        writes += [f"  if constexpr (requires {{ from.{field.name}; }}) "
                   f"writer->{WRITERS.get(field.type, 'UInt')}({constant(field.name)}, {value});"]
    lines = ["struct Values {", *(f"  {field.cxx('format::TextSpan')} {field.name};" for field in fields), "};",
             "template <typename From = Values>", "void Write(const From& from, format::PacketWriter* writer) {", *writes, "}"]
    if packet:
        lines += ["template <typename From = Values>", "void WritePacket(const From& from, base::Buffer* out) {",
                  f"  format::PacketScope packet(out, {packet.number});", "  Write(from, &packet.writer);", "}"]
    return lines


def fields_of(message, packets):
    if not message.fields:
        return []
    lines = ["enum Number : uint32_t {", *(f"  {constant(field.name)} = {field.number}," for field in message.fields), "};"]
    if max(field.number for field in message.fields) < 32:
        for name, is_of in (("kRepeated", lambda field: field.is_repeated and field.type not in (MESSAGE, STRING)),
                            ("kTexts", lambda field: field.type == STRING), ("kMessages", lambda field: field.type == MESSAGE)):
            lines += [f"constexpr uint32_t {name} = {mask(filter(is_of, message.fields))};"]
    lines += [line for inner in message.messages for line in fields_of(inner, {})]
    return in_namespace(message.name, lines + writer_lines(message, packets.get(message.name)))


def values_of(message, values):
    fields = [field for field in message.fields if field.is_one and field.name not in values.left_out]
    members, copies = [f"{member};" for member in values.more], []
    for field in fields:
        cxx, value = field.cxx("std::string"), f"from.{field.name}()"
        if field.type == ENUM:
            value = f"fields::FromProto<{cxx}>({value})"
        elif cxx == "std::string":
            value += f".substr(0, {MAX_TEXT})"
        elif cxx == "uint64_t" and values.is_signed:
            cxx, value = "int64_t", f"static_cast<int64_t>(std::min({value}, uint64_t{{1}} << 62))"
        members.append(f"{cxx} {field.name}{'' if cxx == 'std::string' else '{}'};")
        copies.append(f"to->{field.name} = {value};")
    return [f"struct {message.name} {{", *(f"  {member}" for member in members),
            f"  auto operator<=>(const {message.name}&) const = default;", "};", "template <typename Message>",
            f"void Read(const Message& from, {message.name}* to) {{", *(f"  {copy}" for copy in copies), "}"]


FROM_PROTO = """// A number that this schema does not know (from a newer trace, or a damaged one) becomes `otherwise`.
template <typename Enum>
constexpr Enum FromProto(int value, Enum otherwise = Enum{}) {
  const bool fits = value >= 0 && value <= 255;
  return fits && *EnumName(static_cast<Enum>(value)) != '\\0' ? static_cast<Enum>(value) : otherwise;
}"""


def header(includes, namespace, lines):
    return "\n".join(["// Generated by scripts/gen_proto_fields.py: do not edit.", "#pragma once", "",
                      *(f"#include {include}" for include in includes), "", f"namespace {namespace} {{", "", *lines, "",
                      f"}}  // namespace {namespace}", ""])


def generate(descriptors):
    """The headers of fields, enums and values."""
    messages, enums = read_descriptors(descriptors)
    enum_text = [line for enum in enums for line in enum_lines(enum)] + [line for message in messages for line in enums_of(message)]
    values = [line for message in messages if message.name in VALUES for line in values_of(message, VALUES[message.name])]
    packets = {field.type_name: field for message in messages if message.name == "Packet" for field in message.fields}
    return (header(("<cstdint>", '"preload/format/packet_writer.h"', '"proto/enums.h"'),
                   "dlhook::fields", [line for message in messages for line in fields_of(message, packets)]),
            header(("<cstdint>",), "dlhook::fields", [*enum_text, "", FROM_PROTO]),
            header(("<algorithm>", "<compare>", "<cstdint>", "<string>", '"proto/enums.h"'),
                   "dlhook::values", values))


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for out in ("--fields", "--enums", "--values"):
        parser.add_argument(out, required=True, type=pathlib.Path)
    parser.add_argument("descriptors", type=pathlib.Path)
    arguments = parser.parse_args()
    texts = generate(arguments.descriptors.read_bytes())
    for path, text in zip((arguments.fields, arguments.enums, arguments.values), texts):
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # else what includes it need not be compiled again
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
