#!/usr/bin/env python3
"""Turns proto/*.proto into the header by which the shim names fields and enums: what protoc makes would need libprotobuf.

    gen_proto_fields.py --out HEADER FILE.proto...

In namespace dlhook::fields: for each message a namespace with the number of each field (CallBatch.thread_id: CallBatch::kThreadId),
and each enum as an enum class. As in protobuf's style an enumerator may begin with the words of its enum, which C++ doesn't repeat
(HostMemory.HOST_UNKNOWN: HostMemory::kUnknown).

Reads as much of proto3 as these files use; anything else is an error that names its line.
"""

import argparse
import re
import sys

TOKEN = re.compile(r'\s+|//[^\n]*|(?P<token>[A-Za-z_][\w.]*|\d+|"[^"\n]*"|[{}=;])')
NAME = re.compile(r"[A-Za-z_]\w*$")
TYPE = re.compile(r"[A-Za-z_][\w.]*$")
NUMBER = re.compile(r"\d+$")
MAX_FIELD = (1 << 29) - 1
MAX_VALUE = 255  # records keep enums in a byte


class ProtoError(Exception):
    pass


class Tokens:
    def __init__(self, path, text):
        self.path = path
        self.tokens = []  # (token, line)
        at = 0
        while at < len(text):
            match = TOKEN.match(text, at)
            line = text.count("\n", 0, at) + 1
            if match is None:
                raise ProtoError(f"{path}:{line}: unexpected {text[at]!r}")
            if match["token"]:
                self.tokens.append((match["token"], line))
            at = match.end()
        self.tokens.append(("", text.count("\n") + 1))
        self.tokens.reverse()

    def peek(self):
        return self.tokens[-1][0]

    def fail(self, expected):
        token, line = self.tokens[-1]
        raise ProtoError(f"{self.path}:{line}: expected {expected}, found {repr(token) if token else 'the end of the file'}")

    def take(self, pattern, expected):
        """The next token, which `pattern` (a token, or a compiled regular expression) must fit."""
        token = self.peek()
        if token != pattern if isinstance(pattern, str) else not pattern.match(token):
            self.fail(expected)
        self.tokens.pop()
        return token

    def take_if(self, token):
        if self.peek() != token:
            return False
        self.tokens.pop()
        return True

    def symbol(self, symbol):
        self.take(symbol, f"'{symbol}'")

    def number(self, most):
        if NUMBER.match(self.peek()) and int(self.peek()) > most:
            self.fail(f"a number up to {most}")
        return int(self.take(NUMBER, "a number"))


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


class Header:
    def __init__(self):
        self.lines = []
        self.names = [set()]  # of each open namespace

    def add(self, tokens, name, line):
        if name in self.names[-1]:
            raise ProtoError(f"{tokens.path}:{tokens.tokens[-1][1]}: a second {name}")
        self.names[-1].add(name)
        self.lines.append("  " * (len(self.names) - 1) + line)

    def enum(self, tokens):
        name = tokens.take(NAME, "a name")
        self.add(tokens, name, f"enum class {name} : uint8_t {{")
        self.names.append(set())
        tokens.symbol("{")
        while not tokens.take_if("}"):
            value = enumerator(name, tokens.take(NAME, "an enumerator"))
            tokens.symbol("=")
            self.add(tokens, value, f"{value} = {tokens.number(MAX_VALUE)},")
            tokens.symbol(";")
        self.names.pop()
        self.lines.append("  " * (len(self.names) - 1) + "};")

    def field(self, tokens):
        tokens.take_if("repeated")
        tokens.take(TYPE, "a field")
        name = constant(tokens.take(NAME, "a field's name"))
        tokens.symbol("=")
        self.add(tokens, name, f"constexpr uint32_t {name} = {tokens.number(MAX_FIELD)};")
        tokens.symbol(";")

    def message(self, tokens):
        name = tokens.take(NAME, "a name")
        self.add(tokens, name, f"namespace {name} {{")
        self.names.append(set())
        tokens.symbol("{")
        while not tokens.take_if("}"):
            if tokens.take_if("enum"):
                self.enum(tokens)
            elif tokens.take_if("message"):
                self.message(tokens)
            elif tokens.take_if("reserved"):
                while not tokens.take_if(";"):
                    tokens.take(re.compile(r"\d+$|to$"), "numbers")
            elif tokens.take_if("oneof"):
                tokens.take(NAME, "a name")
                tokens.symbol("{")
                while not tokens.take_if("}"):
                    self.field(tokens)
            else:
                self.field(tokens)
        self.names.pop()
        self.lines.append("  " * (len(self.names) - 1) + f"}}  // namespace {name}")

    def file(self, tokens):
        tokens.take("syntax", "'syntax'")
        tokens.symbol("=")
        tokens.take('"proto3"', '"proto3"')
        tokens.symbol(";")
        while tokens.peek():
            if tokens.take_if("package"):
                tokens.take(TYPE, "a package")
                tokens.symbol(";")
            elif tokens.take_if("import"):
                tokens.take(re.compile(r'"'), "a file")
                tokens.symbol(";")
            elif tokens.take_if("enum"):
                self.enum(tokens)
            elif tokens.take_if("message"):
                self.message(tokens)
            else:
                tokens.fail("'package', 'import', 'enum' or 'message'")


def generate(files):
    """The header of these [(path, text)]."""
    header = Header()
    for path, text in files:
        header.file(Tokens(path, text))
    body = "\n".join(header.lines)
    return f"""// Generated by scripts/gen_proto_fields.py: do not edit.
#ifndef DLHOOK_PRELOAD_PROTO_FIELDS_H_
#define DLHOOK_PRELOAD_PROTO_FIELDS_H_

#include <cstdint>

namespace dlhook::fields {{

{body}

}}  // namespace dlhook::fields

#endif  // DLHOOK_PRELOAD_PROTO_FIELDS_H_
"""


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--out", required=True)
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    files = []
    for path in arguments.files:
        with open(path, encoding="utf-8") as file:
            files.append((path, file.read()))
    try:
        header = generate(files)
    except ProtoError as error:
        return str(error)
    with open(arguments.out, "w", encoding="utf-8") as file:
        file.write(header)
    return 0


if __name__ == "__main__":
    sys.exit(main())
