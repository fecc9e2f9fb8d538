#!/usr/bin/env python3
"""One name, one thing: finds C++ types and inline functions of one qualified name that two files define.

Objects of one program share what is inline, so of two structs of one name the linker keeps the destructor of either, without a
word. GCC says so only with -flto over the whole program (minutes); this reads the sources in a second, and knows nothing of
which of them are linked together: all of analyzer/ and preload/ counts as one program, and each file of tests/ as one with them.
Anonymous namespaces and functions' own types are private to their file.

    check_odr.py [FOLDER]      the repository's root; default: that of this script
"""

import collections
import re

import checks

PRODUCT = ("analyzer", "preload", "proto")
TESTS = ("tests/analyzer", "tests/preload", "tests/fuzz", "tests/golden", "tests/bench")
SUFFIXES = {".h", ".cc"}

# What is none of the code's structure: comments, literals, lines of the preprocessor (continued ones, too).
NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\''
    r"|^[ \t]*\#(?:[^\n\\]|\\.)*", re.DOTALL | re.MULTILINE)
NAMESPACE = re.compile(r"(?:inline\s+)?namespace\b\s*(?P<name>[\w:\s]*)$")
TYPE = re.compile(r"\b(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(?:alignas\s*\([^)]*\)\s*|\[\[[^]]*\]\]\s*|"
                  r"__attribute__\s*\(\(.*?\)\)\s*)*(?P<name>[A-Za-z_][\w:]*(?:\s*<.*>)?)\s*(?:final\s*)?(?::[^:].*)?$", re.DOTALL)
FUNCTION = re.compile(r"^.*?\b(?:inline|constexpr|template)\b.*?\b(?P<name>[A-Za-z_]\w*)\s*\((?P<parameters>.*)\)[^()]*$", re.DOTALL)


def without_noise(text):
    return NOISE.sub(lambda match: "\n" * match[0].count("\n") + " ", text)


def opened(head):
    """What `{` behind these words opens: (kind, name)."""
    head = head.strip()
    if match := NAMESPACE.search(head):
        return "namespace", re.sub(r"\binline\s|\s", "", match["name"])
    if head.endswith("=") or head.endswith(","):
        return "block", ""
    if (match := TYPE.search(head)) and "(" not in head[:match.start()].split(">")[-1]:
        return "type", re.sub(r"\s+", "", match["name"])
    if match := FUNCTION.match(head):
        parameters = re.sub(r"\s+", " ", match["parameters"]).strip()
        return "function", f"{match['name']}({parameters})"
    return "linkage" if head.startswith("extern") and "(" not in head else "block", ""


def definitions(text):
    """[(qualified name, line)] of what other files may see: types, and inline functions at namespace scope."""
    text = without_noise(text)
    found, scopes, start = [], [], 0
    for match in re.finditer(r"[{};]", text):
        head, start = text[start:match.start()], match.end()
        if match[0] == "{":
            kind, name = opened(head)
            # Private: an anonymous namespace, a function's own.
            visible = all(k == "linkage" or (k in ("namespace", "type") and n) for k, n in scopes)
            in_namespace = all(k != "type" for k, _ in scopes)
            if visible and name and (kind == "type" or (kind == "function" and in_namespace and "static" not in head)):
                path = "::".join([n for k, n in scopes if n] + [name])
                found.append((path, text.count("\n", 0, match.start()) + 1))
            scopes.append((kind, name))
        elif match[0] == "}" and scopes:
            scopes.pop()
    return found


def collect(root, folders):
    """{qualified name: {file: line}}"""
    result = collections.defaultdict(dict)
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES:
                for name, line in definitions(path.read_text(encoding="utf-8")):
                    result[name].setdefault(path.relative_to(root), line)
    return result


def violations(root):
    product, tests = collect(root, PRODUCT), collect(root, TESTS)
    for name, places in sorted(product.items()):
        if len(places) > 1:
            yield name, places
    for name, places in sorted(tests.items()):
        headers = {path for path in places if path.suffix == ".h"}
        if name in product or (headers and len(places) > 1):
            yield name, {**places, **product.get(name, {})}


def sentences(root):
    for name, places in violations(root):
        yield f"{name} is defined in " + " and ".join(f"{path}:{line}" for path, line in places.items())


if __name__ == "__main__":
    checks.run(sentences)
