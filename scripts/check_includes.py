#!/usr/bin/env python3
"""Finds sources that use what they do not include, and compile only because a unity build puts another file before them.

    check_includes.py [FOLDER]      the repository's root; default: that of this script

Knows, in two seconds, the names that are safe to judge by their spelling: `Name::` of a type and `Name(` of a function that headers of
the product declare in a namespace. It says nothing of names that a file, or a header that it reaches, declares in any other way,
of methods' names, and of those that generated headers may declare.
"""

import re

import check_odr
import checks

FOLDERS = check_odr.PRODUCT + check_odr.TESTS
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
TYPE = re.compile(r"^(?:template <[^\n]*>\s*)?(?:struct|class|union|enum(?: class)?)\s+(\w+)[^;\n]*(?:\{|$)", re.MULTILINE)
FUNCTION = re.compile(r"^(?!return\b|using\b|extern\b|typedef\b)(?=\w)[\w:<>,&* ]+?[ &*](\w+)\(", re.MULTILINE)
METHOD = re.compile(r"^\s+(?:\[\[\w+\]\] )?(?!return\b|else\b|co_)(?:[\w:<>,&*]+ )+[&*]*(\w+)\(", re.MULTILINE)
DECLARED = re.compile(r"\b(?:struct|class|union|enum(?: class)?|using|namespace|typename)\s+(\w+)")
USED = re.compile(r"(?<![\w.>:])([A-Z]\w+)(::|\()")
GENERATED = re.compile(r"^\s*(?:message|enum)\s+(\w+)", re.MULTILINE)


class Tree:
    def __init__(self, root):
        paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.suffix in check_odr.SUFFIXES]
        raw = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}
        self.included = {name: INCLUDE.findall(text) for name, text in raw.items()}
        self.text = {name: check_odr.without_noise(text) for name, text in raw.items()}
        self.declared = {name: set(DECLARED.findall(text) + FUNCTION.findall(text)) for name, text in self.text.items()}
        protos = (path.read_text(encoding="utf-8") for path in (root / "proto").rglob("*.proto"))
        self.generated = {name for text in protos for name in GENERATED.findall(text)}
        self.reached = {}
        methods = {name for text in self.text.values() for name in METHOD.findall(text)}
        self.headers = {"::": {}, "(": {}}  # {name: headers that declare it}
        for name, text in self.text.items():
            if name.endswith(".h"):
                for found, kind in [(one, "::") for one in TYPE.findall(text)] + [(one, "(") for one in FUNCTION.findall(text)]:
                    if kind == "::" or found not in methods:
                        self.headers[kind].setdefault(found, []).append(name)

    def reach(self, name):
        """The file and all that it includes, also what is not in the tree."""
        if name not in self.reached:
            self.reached[name] = {name}  # also while it is looked at: a circle ends
            for target in self.included.get(name, ()):
                self.reached[name] |= self.reach(target)
        return self.reached[name]

    def violations(self):
        for name, text in self.text.items():
            reached = self.reach(name)
            known = set().union(*(self.declared.get(one, ()) for one in reached))
            if not reached <= self.text.keys():
                known |= self.generated
            for match in USED.finditer(text):
                used, kind = match.groups()
                if used in known or used not in self.headers[kind]:
                    continue
                known.add(used)
                yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: uses {used} without {' or '.join(self.headers[kind][used])}"


if __name__ == "__main__":
    checks.run(lambda root: Tree(root).violations())
