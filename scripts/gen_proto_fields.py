#!/usr/bin/env python3
"""Turns proto/*.proto into headers that name fields and enums without libprotobuf, for the shim and the analyzer's tables.

    gen_proto_fields.py --out HEADER --enums HEADER FILE.proto...

In namespace dlhook::fields, a namespace for each message. --out: the number of each field (CallBatch.thread_id:
CallBatch::kThreadId). --enums, which the other header includes: each enum as an enum class, and EnumName() of it: the enumerator as
the schema spells it, in lower case; "" for other numbers. As in protobuf's style an enumerator may begin with the words of its enum,
which C++ doesn't repeat (HostMemory.HOST_UNKNOWN: HostMemory::kUnknown).

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
        """The next token, which must match `pattern` (a token, or a compiled regular expression)."""
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


class Lines:
    """Lines of a header; a namespace is opened when the first line in it is written."""

    def __init__(self):
        self.lines = []
        self.open = []  # namespaces that are open

    def add(self, namespaces, *lines):
        common = 0
        while common < min(len(self.open), len(namespaces)) and self.open[common] == namespaces[common]:
            common += 1
        while len(self.open) > common:
            name = self.open.pop()
            self.lines.append("  " * len(self.open) + f"}}  // namespace {name}")
        for name in namespaces[common:]:
            self.lines.append("  " * len(self.open) + f"namespace {name} {{")
            self.open.append(name)
        self.lines.extend("  " * len(namespaces) + line for line in lines)

    def text(self):
        self.add([])
        return "\n".join(self.lines)


class Headers:
    def __init__(self):
        self.fields = Lines()
        self.enums = Lines()
        self.messages = []  # the enclosing messages
        self.names = [set()]  # of each of these

    def check(self, tokens, name):
        if name in self.names[-1]:
            raise ProtoError(f"{tokens.path}:{tokens.tokens[-1][1]}: a second {name}")
        self.names[-1].add(name)

    def enum(self, tokens):
        name = tokens.take(NAME, "a name")
        self.check(tokens, name)
        self.names.append(set())
        tokens.symbol("{")
        values = []
        names = []
        while not tokens.take_if("}"):
            spelled = tokens.take(NAME, "an enumerator")
            value = enumerator(name, spelled)
            tokens.symbol("=")
            values.append(f"  {value} = {tokens.number(MAX_VALUE)},")
            self.check(tokens, value)
            names.append(f'    case {name}::{value}: return "{spelled.lower()}";')
            tokens.symbol(";")
        self.names.pop()
        self.enums.add(self.messages, f"enum class {name} : uint8_t {{", *values, "};",
                       f"constexpr const char* EnumName({name} value) {{", "  switch (value) {", *names, "  }", '  return "";', "}")

    def field(self, tokens):
        tokens.take_if("repeated")
        tokens.take(TYPE, "a field")
        name = constant(tokens.take(NAME, "a field's name"))
        tokens.symbol("=")
        number = tokens.number(MAX_FIELD)
        self.check(tokens, name)
        self.fields.add(self.messages, f"constexpr uint32_t {name} = {number};")
        tokens.symbol(";")

    def message(self, tokens):
        name = tokens.take(NAME, "a name")
        self.check(tokens, name)
        self.messages.append(name)
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
        self.messages.pop()

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


def header(guard, include, body):
    return f"""// Generated by scripts/gen_proto_fields.py: do not edit.
#ifndef {guard}
#define {guard}

#include <cstdint>
{include}
namespace dlhook::fields {{

{body}

}}  // namespace dlhook::fields

#endif  // {guard}
"""


def generate(files):
    """The headers of fields and of enums of these [(path, text)]."""
    headers = Headers()
    for path, text in files:
        headers.file(Tokens(path, text))
    return (header("DLHOOK_PRELOAD_PROTO_FIELDS_H_", '\n#include "proto/enums.h"\n', headers.fields.text()),
            header("DLHOOK_PROTO_ENUMS_H_", "", headers.enums.text()))


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--out", required=True)
    parser.add_argument("--enums", required=True)
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    files = []
    for path in arguments.files:
        with open(path, encoding="utf-8") as file:
            files.append((path, file.read()))
    try:
        fields, enums = generate(files)
    except ProtoError as error:
        return str(error)
    for path, text in ((arguments.out, fields), (arguments.enums, enums)):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
