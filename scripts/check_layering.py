#!/usr/bin/env python3
"""Checks that includes go one way only.

    check_layering.py [REPOSITORY]

Rules:
  analyzer/  each room may use itself and those before it in ANALYZER; of the shim only what FROM_SHIM names (plain data, names of
             counters, and what is linked by both: the drain, pure functions about stacks, the reader of variables).
  preload/   each room may use itself and those before it in PRELOAD; nothing of the analyzer, no Abseil, no libprotobuf: the shim
             brings nothing into a process.
  proto/     nothing of dlhook's.
  APART      rooms that judge by the same facts do not use each other.
  libprotobuf stays inside the rooms of PROTOBUF: outside of them only the files named there include it, and no header leads to it that
             another room includes.
Prints each violation as FILE:LINE: sentence; exit code 1 if there are any.
"""
import re

import checks

# Bottom to top. A folder inside another one is a separate room if it is named here, otherwise a part of the outer one.
ANALYZER = ["model", "io", "import/kineto", "import/nsight", "import", "names", "xla", "ops", "reader", "peaks", "symbols", "stacks",
            "table", "calls", "layers",
            "steps", "time", "layers/structure", "layers/functions", "layers/framework", "analysis", "gpu", "profile",
            "tables", "tables/network", "tables/calls", "tables/counters", "tables/gpu", "tables/ranks", "tables/run",
            "work", "diff", "findings", "whatif", "render", "answer", "doctor", "calibrate", "export", "page", "cli"]
PRELOAD = ["base", "format", "abi", "runtime", "link", "counters", "drain", "unwind", "python", "sample", "track", "decode", "tap", "gpu",
           "process"]
APART = {("findings", "diff")}  # (user, used); the other way is against the order
ROOMS = {"analyzer": ANALYZER, "preload": PRELOAD}
FROM_SHIM = {"base/function_table.h", "format", "abi", "counters", "drain", "unwind", "python", "runtime/config.h"}
PROTOBUF = {"io",                    # finds the header of a trace
            "import/kineto",         # writes packets of what others recorded
            "xla",                   # XLA's own messages
            "ops", "reader",
            "symbols",               # what its child process tells, and its cache
            "analyzer/cli/dump.cc",  # prints packets as they are
            "analyzer/export/perfetto.cc", "analyzer/export/pprof.cc"}  # write other tools' formats
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')
SOURCES = {".h", ".cc", ".c", ".S"}


def room_of(path):
    """The room of "analyzer/layers/structure/pass.h": "layers/structure"; None: in no room."""
    top, *folders = path.split("/")[:-1]
    for depth in range(len(folders), 0, -1):
        if "/".join(folders[:depth]) in ROOMS[top]:
            return "/".join(folders[:depth])
    return None


def order_violation(top, room, target):
    """Why TOP/ROOM must not include `target` of the same top folder, or None."""
    rooms = ROOMS[top]
    target_room = room_of(target)
    if (room, target_room) in APART:
        return f"{top}/{room} and {top}/{target_room} do not use each other"
    if target_room is None or room is None or rooms.index(target_room) <= rooms.index(room):
        return None
    return f"{top}/{room} must not use {top}/{target_room} (order: {' -> '.join(rooms)})"


def analyzer_violation(room, target):
    """Why analyzer/ROOM must not include `target`, or None."""
    parts = target.split("/")
    if parts[0] == "preload" and FROM_SHIM.isdisjoint({parts[1], "/".join(parts[1:])}):
        return f"the analyzer uses only {', '.join(sorted(FROM_SHIM))} of preload/"
    if parts[0] == "tests":
        return "tests are not part of the program"
    return order_violation("analyzer", room, target) if parts[0] == "analyzer" else None


def preload_violation(room, target):
    """Why preload/ROOM must not include `target`, or None."""
    if target.startswith(("analyzer/", "tests/")):
        return "the shim uses nothing of the analyzer"
    if target.startswith(("absl/", "google/protobuf/")) or target.endswith(".pb.h"):
        return "the shim brings no library into the process"
    return order_violation("preload", room, target) if target.startswith("preload/") else None


def includes_of(path):
    """(line, file) of what a file includes."""
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match.group(1)


def is_protobuf(target):
    return target.endswith(".pb.h") or target.startswith("google/protobuf/")


def way_to_protobuf(root, target, known):
    """Headers from `target` to libprotobuf, each including the next; None where there is no way."""
    if is_protobuf(target):
        return [target]
    if target not in known:
        known[target] = None  # also while it is looked at: a circle is no way
        path = root / target
        ways = (way_to_protobuf(root, inner, known) for _, inner in includes_of(path)) if path.is_file() else ()
        if way := next(filter(None, ways), None):
            known[target] = [target, *way]
    return known[target]


def protobuf_violations(root):
    known = {}
    for path in sorted((root / "analyzer").rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.suffix not in SOURCES:
            continue
        for number, target in includes_of(path):
            if is_protobuf(target):
                may = name in PROTOBUF or room_of(name) in PROTOBUF
            else:
                may = target.startswith("analyzer/") and room_of(target) == room_of(name)
            if not may and (way := way_to_protobuf(root, target, known)):
                yield f"{name}:{number}: includes {' -> '.join(way)}: libprotobuf stays inside a room of PROTOBUF"


def violations(root):
    yield from protobuf_violations(root)
    for top, check in (("analyzer", analyzer_violation), ("preload", preload_violation)):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            name = path.relative_to(root).as_posix()
            room = room_of(name)
            if room is None and name.count("/") > 1:
                yield f"{name}:1: its folder has no place in {top.upper()}"
                continue
            for number, target in includes_of(path):
                if reason := check(room, target):
                    yield f"{name}:{number}: includes {target}: {reason}"


if __name__ == "__main__":
    checks.run(violations)
