#!/usr/bin/env python3
"""Checks that the analyzer decides by typed facts, not by the text that it shows.

    check_facts.py [REPOSITORY]

Rules:
  tables   Cells of a table are read only where tables are made or written (TABLE_ROOMS).
  kinds    Op kinds are compared as OpKind (analyzer/model/op_kind.h); strings only in analyzer/ops, which decides them.
  roles    What the name of a scope means stands in analyzer/model/scope_role.* alone: no other file has these texts.
  labels   What rows are called ("[data loading]", "optimizer (SGD)") is not parsed.
  parts    The page chooses by the `kind` of a part of a step, not by its name.
KEPT says how often a file may still violate a rule, and why; the number follows when it falls.
Prints each violation as FILE:LINE: sentence; exit code 1 if there are any.
"""
import re

import checks

TABLE_ROOMS = ("table", "tables", "render", "export", "page", "cli", "doctor")
JUDGES = ("work", "diff", "findings", "answer")
ROWS = "compares tables row by row, whatever they are about"
TEXT = "the rows of work are text still: what kind of layer each has is not kept with it"
KEPT = {
    ("tables", "analyzer/diff/changes.cc"): (5, ROWS),
    ("tables", "analyzer/diff/measured_run.cc"): (4, ROWS),
    ("labels", "analyzer/diff/changes.cc"): (1, ROWS),
    ("tables", "analyzer/diff/contributions.cc"): (3, TEXT),
    ("tables", "analyzer/diff/differences.cc"): (1, TEXT),
    ("tables", "analyzer/diff/divide_change.cc"): (4, TEXT),
    ("labels", "analyzer/diff/contributions.cc"): (1, TEXT),
    ("labels", "analyzer/diff/differences.cc"): (1, TEXT),
    ("labels", "analyzer/diff/divide_change.cc"): (1, TEXT),
    ("labels", "analyzer/work/step_facts.cc"): (2, "a layer's kind is not kept with its group"),
    ("tables", "analyzer/findings/findings_table.cc"): (1, "takes rows out of the table findings"),
    ("tables", "analyzer/answer/layer_rows.cc"): (5, "the answer's layers are rows of the table layers, folded"),
    ("labels", "analyzer/answer/layer_rows.cc"): (1, "the answer's layers are rows of the table layers, folded"),
    ("kinds", "analyzer/xla/hlo_layers.cc"): (1, "XLA's kinds of fusions"),
}
READS_CELLS = re.compile(r'\bMake(?:Run)?Table\(|\b(?:FindColumn|ColumnOf)\(|\b(?:TextOf|NumberOf)\(\*?\w+, \*?\w+, |\.Text\("')
COMPARES_KIND = re.compile(r'\bkind\s*[!=]=\s*"|"\s*[!=]=\s*[\w.>-]*\bkind\b|(?<!>\()\bkind,\s*\{"')  # NameIn<…>(kind, {"…"}) names it
PARSES_LABEL = re.compile(r'(?:StartsWith|StrContains|EndsWith|ConsumePrefix|find)\([^;]*?["\'](?::?\[|optimizer \(|others \()')
PARSES_PART = re.compile(r'\bpart\.name\s*(?:[!=]==?|\.(?:endsWith|startsWith|includes))|\[part\.name\]')
PATTERN = re.compile(r'\{Where::\w+, "([^"]+)"')
PREFIX = re.compile(r'constexpr char k\w+\[\] = "([^"]+)"')
LEAST = 8  # characters: a shorter text ("XLA ") is part of others


def roles(root):
    """The texts by which roles are decided; [] in a repository without them."""
    files = [root / "analyzer/model" / name for name in ("scope_role.cc", "scope_role.h")]
    text = "".join(file.read_text() for file in files if file.is_file())
    return sorted({found for found in PATTERN.findall(text) + PREFIX.findall(text) if len(found) >= LEAST})


def rules(name, role_texts):
    """(rule, regular expression, sentence) for a file."""
    room = name.split("/")[1]
    if name.startswith("web/"):
        yield "parts", PARSES_PART, "chooses by the name of a part of a step, which may change: use its kind"
        return
    if room not in TABLE_ROOMS:
        yield "tables", READS_CELLS, "reads a table's cells: use the typed facts that the table is made of"
    if room != "ops":
        yield "kinds", COMPARES_KIND, "compares a kind with a string: use an enumerator (analyzer/model/op_kind.h)"
    if room in JUDGES:
        yield "labels", PARSES_LABEL, "parses the label of a row: use what the label is made of"
    if role_texts and not name.startswith("analyzer/model/scope_role."):
        texts = "|".join(map(re.escape, role_texts))
        yield "roles", re.compile(f'"(?:{texts})'), "decides what a scope's name means: use TraceModel::roles"


def code(line):
    """Without comments."""
    return re.sub(r"(?:^|\s)//.*", "", line)


def violations(root):
    role_texts = roles(root)
    files = [path for folder in ("analyzer", "web/src") for path in (root / folder).rglob("*")]
    for path in sorted(files):
        if path.suffix not in (".cc", ".h", ".js"):
            continue
        name = path.relative_to(root).as_posix()
        lines = [code(line) for line in path.read_text(errors="replace").splitlines()]
        for rule, pattern, sentence in rules(name, role_texts):
            found = [number for number, line in enumerate(lines, 1) if pattern.search(line)]
            may, _ = KEPT.get((rule, name), (0, ""))
            if len(found) > may:
                yield from (f"{name}:{number}: {sentence}" for number in found)
            elif len(found) < may:
                yield f"{name}:1: violates the rule `{rule}` {len(found)} times, no longer {may}: say so in KEPT"


if __name__ == "__main__":
    checks.run(violations)
