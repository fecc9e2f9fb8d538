#!/usr/bin/env python3
"""Prints the end of scripts/test.sh: where the time went and what failed, short enough for the tail of a log.

    test_report.py STAGES PRESET=JUNIT…

STAGES has a line "SECONDS NAME" for each stage; JUNIT is the output of `ctest --output-junit` for that preset.
"""

import sys
import xml.etree.ElementTree

SLOWEST = 10
LINES_OF_A_FAILURE = 30
BYTES_OF_ALL_FAILURES = 6000
LEAST_BYTES_OF_A_FAILURE = 400


def why_failed(case):
    """None if it did not fail."""
    failure = case.find("failure")
    if failure is not None:
        return failure.get("message") or "failed"
    skipped = case.find("skipped")
    message = skipped.get("message") if skipped is not None else ""
    # A missing program; a test that skips itself does so by a rule with that prefix.
    return message if message and not message.startswith("SKIP_") else None


def read_tests(path):
    """[(name, seconds, reason of failure or None, output)]; [] if ctest did not complete."""
    try:
        suite = xml.etree.ElementTree.parse(path).getroot()
    except (OSError, xml.etree.ElementTree.ParseError):
        return []
    return [(case.get("name").split("  #")[0], float(case.get("time", 0)), why_failed(case),
             case.findtext("system-out") or "") for case in suite.iter("testcase")]


def last_lines(output, budget):
    lines = [line[:300] for line in output.strip().splitlines()[-LINES_OF_A_FAILURE:]]
    return "\n".join("    " + line for line in lines).encode()[-budget:].decode(errors="ignore")


def main(stages, *presets):
    tests = []
    for preset, path in (argument.split("=", 1) for argument in presets):
        found = read_tests(path)
        if not found:
            print(f"{preset}: ctest left no results")
        tests += [(preset, *test) for test in found]

    print(f"\nThe {SLOWEST} slowest tests:")
    for preset, name, seconds, *_ in sorted(tests, key=lambda test: -test[2])[:SLOWEST]:
        print(f"{seconds:7.0f} s  {name} ({preset})")
    print("\nStages:")
    with open(stages, encoding="utf-8") as lines:
        for line in lines:
            seconds, name = line.rstrip("\n").split(" ", 1)
            print(f"{int(seconds):7d} s  {name}")

    failures = [(f"{name} ({preset}): {why}", output) for preset, name, _, why, output in tests if why]
    if not failures:
        return
    print(f"\n{len(failures)} failed:")
    for title, _ in failures[:100]:
        print(f"  {title}")
    shown = failures[:BYTES_OF_ALL_FAILURES // LEAST_BYTES_OF_A_FAILURE]
    for title, output in shown:
        print(f"\n  {title}; the end of what it printed:")
        print(last_lines(output, BYTES_OF_ALL_FAILURES // len(shown)))


if __name__ == "__main__":
    main(*sys.argv[1:])
