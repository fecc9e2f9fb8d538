#!/usr/bin/env python3
"""Checks that includes go one way only.

    check_layering.py [REPOSITORY]

Rules:
  analyzer/  each layer may use itself and those before it in LAYERS; of the shim only drain/ and core/ (plain data,
             and the drain, which is linked by both).
  preload/   nothing of the analyzer, no Abseil, no libprotobuf: the shim brings nothing into a process.
  proto/     nothing of ours.
Prints each violation as FILE:LINE: sentence; exit code 1 if there are any.
"""
import pathlib
import re
import sys

LAYERS = ["io", "model", "symbols", "stacks", "table", "layers", "passes", "diff", "render", "doctor", "export", "cli"]
SHIM_PARTS_FOR_ANALYZER = {"drain", "core"}
SHIM_FILES_FOR_ANALYZER = {"preload/tap/nvtx_abi.h"}  # plain data of NVTX's
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')
SOURCES = {".h", ".cc", ".c", ".S"}


def analyzer_violation(layer, target):
    """Why analyzer/LAYER must not include `target`, or None."""
    parts = target.split("/")
    if target in SHIM_FILES_FOR_ANALYZER:
        return None
    if parts[0] == "preload" and parts[1] not in SHIM_PARTS_FOR_ANALYZER:
        return f"the analyzer uses only {', '.join(sorted(SHIM_PARTS_FOR_ANALYZER))} of preload/"
    if parts[0] == "tests":
        return "tests are not part of the program"
    if parts[0] != "analyzer" or layer is None or len(parts) < 3:
        return None
    if parts[1] not in LAYERS:
        return f"analyzer/{parts[1]} has no place in LAYERS"
    if LAYERS.index(parts[1]) > LAYERS.index(layer):
        return f"analyzer/{layer} must not use analyzer/{parts[1]} (order: {' -> '.join(LAYERS)})"
    return None


def preload_violation(target):
    """Why preload/ must not include `target`, or None."""
    if target.startswith(("analyzer/", "tests/")):
        return "the shim uses nothing of the analyzer"
    if target.startswith(("absl/", "google/protobuf/")) or target.endswith(".pb.h"):
        return "the shim brings no library into the process"
    return None


def violations(root):
    for folder in ("analyzer", "preload"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            parts = path.relative_to(root).parts
            layer = parts[1] if len(parts) > 2 else None
            if folder == "analyzer" and layer is not None and layer not in LAYERS:
                yield f"{path.relative_to(root)}:1: analyzer/{layer} has no place in LAYERS"
                continue
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                target = match.group(1)
                reason = analyzer_violation(layer, target) if folder == "analyzer" else preload_violation(target)
                if reason:
                    yield f"{path.relative_to(root)}:{number}: includes {target}: {reason}"


def main():
    default = pathlib.Path(__file__).resolve().parent.parent
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    found = list(violations(root))
    for violation in found:
        print(violation)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
