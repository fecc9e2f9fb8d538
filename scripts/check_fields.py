#!/usr/bin/env python3
"""Checks that each field of proto/*.proto is written by the shim and read by the analyzer: check_fields.py [--protoc PROTOC]

By words: a field counts as written if a file of preload/ (or analyzer/io/, the launcher's) that names its message has the field's
number, or uses the generated Write() or Rows and some file has a member of the field's name; as read if a file of analyzer/ that
names the message calls an accessor of the field, or the message is one of VALUES, or its Rows are read, and a member of that name
is used. A field that shares its name with one of another message in the same file is taken for used. What is not used stands in
UNUSED, with its reason.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from gen_proto_fields import VALUES, constant, read_descriptors

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPARED = "tests/frameworks/genuine_cuda compares it with what the library says of itself"
UNUSED = {
    "Cudnn.convolution_mode": COMPARED,
    "CudnnNode.convolution_mode": COMPARED,
    "CudnnPlan.heuristic_requested": COMPARED,
    "CudnnTensor.vectorized_dim": "completes vector_count: a layout can't be told without it",
    "CudaGemm.scale_type": COMPARED,
    "Gemm.ldc": COMPARED,
    "MatrixOp.ldc": COMPARED,
    "OneDnn.engine": "a line of oneDNN's log is kept whole",
    "Reset.reason": "for `dlhook dump`: whether a second writer took over",
    "Trace.packet": "framing: preload/format/packet_writer.h, analyzer/io/packet_reader.h",
}
# Written field by field in the order of their numbers: drain/describe.cc.
BY_NUMBER = ("OneDnn", "CompiledCode")


class Words:
    """The words of source files by what stands around them."""

    PATTERNS = {
        "name": r"\w+",
        "call": r"(\w+)\(",  # accessors of libprotobuf's messages
        "member": r"(?:\.|->|::)(\w+)\b(?!\()",
        "written": r"\.(\w+) \+?= |(?<=[\w>\],]) (\w+)(?=[;,]|\[\w+\][;,\[])",  # a designator, or a struct's member
        "writer": r"\b(\w+)(?=::(?:Write(?:Packet)?|Rows)\b)",
        "whole": r"\b(\w+)::Write(?:Packet)?\(\s*\{[^.]",  # with a list of all fields
    }

    def __init__(self, text):
        self.words = {kind: {word for found in re.findall(pattern, text) for word in ((found,) if isinstance(found, str) else found)}
                      for kind, pattern in self.PATTERNS.items()}

    def __getitem__(self, kind):
        return self.words[kind]


def sources(*folders):
    files = [path for folder in folders for pattern in ("**/*.cc", "**/*.h") for path in sorted((ROOT / folder).glob(pattern))]
    return [Words(re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))) for path in files]


def is_written(message, field, writers):
    naming = [words for words in writers if message.name in words["name"] and "fields" in words["name"]]
    if message.name in BY_NUMBER or any(constant(field.name) in words["name"] for words in naming):
        return True
    if message.name == "Packet":
        return any(field.type_name in words["writer"] for words in writers)
    if any(words["whole"] & {message.name} for words in naming):
        return True
    has_writer = any(words["writer"] & {message.name, "f"} for words in naming)
    is_key = any(one.is_column for one in message.fields) and (field.number == 1 or field.name.startswith("base_"))  # of a batch
    members = {member.split("[")[0] for member in field.members}
    return has_writer and (is_key or any(members & words["written"] for words in writers))


def is_read(message, field, readers, getters):
    if message.name == "Packet":
        return any(constant(field.name) in words["name"] for words in readers)
    by_rows = [words for words in readers if f"{message.name}Rows" in words["name"]]
    if by_rows and (field.name.startswith("base_") or any(words["member"] & set(field.members) for words in by_rows)):
        return True
    naming = [words for words in readers if message.name in words["name"] or words["call"] & getters.get(message.name, set())]
    if any(words["call"] & {field.name, f"{field.name}_size"} for words in naming):
        return True
    return message.name in VALUES and any(field.name in words["member"] for words in readers)


def unused_fields(descriptors, writers, readers):
    """{"Message.field": what it lacks}"""
    messages, _ = read_descriptors(descriptors)
    messages += [inner for message in messages for inner in message.messages]
    getters = {}  # {message: fields that hold one}
    for field in (field for message in messages for field in message.fields):
        getters.setdefault(field.type_name.split("::")[-1], set()).add(field.name)
    lacking = {}
    for message in messages:
        for field in message.fields:
            lacks = [word for word, is_there in (("written in preload", is_written(message, field, writers)),
                                                 ("read in analyzer", is_read(message, field, readers, getters))) if not is_there]
            if lacks:
                lacking[f"{message.name}.{field.name}"] = " nor ".join(lacks)
    return lacking


def problems(lacking, allowed):
    return [f"{field} is not {lacks}: use it, reserve its number, or give a reason in UNUSED"
            for field, lacks in lacking.items() if field not in allowed] + \
           [f"{field} is in UNUSED, but used or gone" for field in allowed if field not in lacking]


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False, description=__doc__)
    parser.add_argument("--protoc", default="protoc")
    arguments = parser.parse_args()
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run([arguments.protoc, f"--descriptor_set_out={out.name}", f"-I{ROOT / 'proto'}",
                        "call.proto", "op.proto", "trace.proto"], check=True)
        lacking = unused_fields(pathlib.Path(out.name).read_bytes(), sources("preload", "analyzer/io"), sources("analyzer"))
    found = problems(lacking, UNUSED)
    print("\n".join(found) or f"each field is written and read, but for {len(UNUSED)} with a reason")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
