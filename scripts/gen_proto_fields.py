#!/usr/bin/env python3
"""Turns the schema of proto/*.proto, as protoc describes it, into C++ that does without libprotobuf.

    gen_proto_fields.py --fields HEADER --enums HEADER --values HEADER DESCRIPTOR_SET

DESCRIPTOR_SET is what `protoc --descriptor_set_out` wrote. In namespace dlhook::fields, a namespace for each message:

  --fields  for the shim: the number of each field (CallBatch.thread_id: CallBatch::kThreadId); kForm, which of them are texts,
            columns and messages (of messages with at most three of those); Values, the fields that hold one value, as a struct;
            Write(from, writer), which writes those of which `from`, Values or a record of a ring, has a member (x[0] for x_x);
            WritePacket, the same as a packet of its own. Of a batch: Rows, whose Put(from, columns) adds what `from` has.
  --enums   for both: each enum as an enum class; EnumName() of it, the enumerator as the schema spells it, in lower case, "" for
            other numbers. As in protobuf's style an enumerator may begin with the words of its enum, which C++ doesn't repeat
            (HostMemory.HOST_UNKNOWN: HostMemory::kUnknown).
  --values  for the analyzer: each message of VALUES as a plain struct, and Read(message, struct), which copies all of it; of
            each batch XRows, whose Next() reads the next of `count` rows (a column lacks or has more if `longest` is another number).
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

# Columns that stay empty while all their elements are 0.
RARE = {
    "CallBatch": ("stack_iid", "python_stack_iid"),
    "GpuActivityBatch": ("bytes", "direction", "host_memory", "graph_node", "graph", "thread_id", "sequence"),
    "MemoryBatch": ("device", "allocated", "reserved"),
    "ScopeBatch": ("python_stack_iid",),
}

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
        self.is_column = self.is_repeated and self.type not in (MESSAGE, STRING)
        self.is_one = not self.is_repeated and self.type != MESSAGE
        # ".dlhook.trace.Copy.Direction": Copy::Direction
        self.type_name = "::".join(self.parts[6][0].decode().split(".")[3:]) if self.parts[6] else ""

        # What has its value in the shim: of a column the member in a row.
        self.is_delta = self.is_column and self.type == SINT64 and "_delta" in self.name
        self.members = [{"tick_delta": "ticks"}.get(self.name, self.name.replace("_delta", "")) if self.is_delta else self.name]
        if self.name[-2:] in ("_x", "_y", "_z"):
            self.members.append(f"{self.name[:-2]}[{'xyz'.index(self.name[-1])}]")

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
        for member in field.members:
            value = f"static_cast<uint32_t>(from.{member})" if field.type == UINT32 else f"from.{member}"
            write = f"writer->{WRITERS.get(field.type, 'UInt')}({constant(field.name)}, {value});"
            writes += [f"  if constexpr (requires {{ {write} }}) {write}"]
    lines = ["struct Values {", *(f"  {field.cxx('format::TextSpan')} {field.name};" for field in fields), "};",
             "template <typename From = Values>", "void Write(const From& from, format::PacketWriter* writer) {", *writes, "}"]
    if packet:
        lines += ["template <typename From = Values>", "void WritePacket(const From& from, base::Buffer* out) {",
                  f"  format::PacketScope packet(out, {packet.number});", "  Write(from, &packet.writer);", "}"]
    return lines


def rows_lines(message, packet):
    """Rows of a batch. A column x_delta has the differences of a member x, from the field base_x on."""
    columns = [field for field in message.fields if field.is_column]
    if not packet or not columns or any(field.type == MESSAGE for field in message.fields):
        return []
    names = {field.name for field in message.fields}
    lines = []
    for field in columns:
        member = field.members[0]
        column, value = constant(field.name), f"static_cast<uint64_t>(from.{member})"
        if field.is_delta and f"base_{member}" in names:
            lines.append(f"if constexpr (requires {{ from.{member}; }}) to->Begin({constant(f'base_{member}')}, {column}, {value});")
        put = "PutDelta" if field.is_delta else "PutRare" if field.name in RARE.get(message.name, ()) else "Put"
        lines.append(f"if constexpr (requires {{ from.{member}; }}) to->{put}({column}, {value});")
    return ["struct Rows {", f"  static constexpr uint32_t kPacket = {packet.number};",
            "  static constexpr uint32_t kColumns = kForm.columns;",
            "  template <typename From, typename Columns>", "  static void Put(const From& from, Columns* to) {",
            *(f"    {line}" for line in lines), "  }", "};"]


def form_lines(message, name, forms):
    """`forms`: names of the messages that have one."""
    inner = [field.type_name for field in message.fields if field.type == MESSAGE]
    if max(field.number for field in message.fields) >= 32 or len(inner) > 3 or not forms.issuperset(inner):
        return []
    forms.add(name)
    masks = [mask(filter(is_of, message.fields)) for is_of in
             (lambda field: field.type == STRING, lambda field: field.is_column, lambda field: field.type == MESSAGE)]
    return [f"constexpr format::MessageForm kForm = {{{', '.join(masks)}, {{{', '.join(f'&fields::{one}::kForm' for one in inner)}}}}};"]


def fields_of(message, packets, forms, outer=""):
    if not message.fields:
        return []
    lines = ["enum Number : uint32_t {", *(f"  {constant(field.name)} = {field.number}," for field in message.fields), "};"]
    lines += [line for inner in message.messages for line in fields_of(inner, {}, forms, f"{outer}{message.name}::")]
    lines += form_lines(message, outer + message.name, forms)
    packet = packets.get(message.name)
    return in_namespace(message.name, lines + writer_lines(message, packet) + rows_lines(message, packet))


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


def rows_of(message):
    """What reads the rows of a batch."""
    columns = [field for field in message.fields if field.is_column]
    names = {field.name for field in message.fields}
    members, sizes, begins, reads = [], [], [], []
    for field in columns:
        name, member = field.name, field.members[0]
        is_rare = name in RARE.get(message.name, ())
        value = f"i < from.{name}_size() ? from.{name}(i) : {{}}" if is_rare else f"from.{name}(i)"
        sizes.append(f"from.{name}_size() == 0 ? from.{columns[0].name}_size() : from.{name}_size()" if is_rare else f"from.{name}_size()")
        members.append(f"{'uint64_t' if field.is_delta else field.cxx('')} {member}{{}};")
        if field.is_delta and f"base_{member}" in names:
            begins.append(f"{member} = from.base_{member}();")
        reads.append(f"{member} += static_cast<uint64_t>(from.{name}(i));" if field.is_delta else
                     f"{member} = fields::FromProto<{field.cxx('')}>({value});" if field.type == ENUM else
                     f"{member} = {value.replace('{}', '0')};")
    return ["template <typename Batch>", f"struct {message.name}Rows {{",
            f"  explicit {message.name}Rows(const Batch& batch) : from(batch) {{",
            f"    std::tie(count, longest) = std::minmax({{{', '.join(sizes)}}});", *(f"    {line}" for line in begins), "  }",
            "  void Next() {", *(f"    {line}" for line in reads), "    ++i;", "  }",
            "  const Batch& from;", "  int count = 0, longest = 0, i = 0;", *(f"  {member}" for member in members), "};"]


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
    forms = set()
    batches = [message for message in messages if message.name.endswith("Batch")]
    values += [line for message in batches for line in rows_of(message)]
    packets = {field.type_name: field for message in messages if message.name == "Packet" for field in message.fields}
    return (header(("<cstdint>", '"preload/format/packet_writer.h"', '"proto/enums.h"'),
                   "dlhook::fields", [line for message in messages for line in fields_of(message, packets, forms)]),
            header(("<cstdint>",), "dlhook::fields", [*enum_text, "", FROM_PROTO]),
            header(("<algorithm>", "<compare>", "<cstdint>", "<string>", "<tuple>", '"proto/enums.h"'),
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
