#!/usr/bin/env python3
"""Prints the end of scripts/test.sh: where the time went and what failed, short enough for the tail of a log.

    test_report.py STAGES PRESET=JUNIT…

STAGES has a line "SECONDS NAME" for each stage; JUNIT is the output of `ctest --output-junit` for that preset. A folder
units beside JUNIT has a file PROGRAM.xml from each GoogleTest program (tests/README.md): its tests are counted one by one.
JUNIT.again, if it is there, is what failed and ran once more: what passed then is flaky.
"""

import os
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


def read_cases(path):
    """[] if there is no complete file."""
    try:
        return list(xml.etree.ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, xml.etree.ElementTree.ParseError):
        return []


def read_tests(path):
    """[(name, seconds, reason of failure or None, output)]; [] if ctest did not complete."""
    return [(case.get("name").split("  #")[0], float(case.get("time", 0)), why_failed(case),
             case.findtext("system-out") or "") for case in read_cases(path)]


def read_units(path, program):
    """(tests in the program, the failed ones as read_tests); (1, []) if it is no GoogleTest program, or crashed."""
    cases = read_cases(os.path.join(os.path.dirname(path), "units", program + ".xml"))
    failed = [(f"{program}: {case.get('classname')}.{case.get('name')}", float(case.get("time", 0)), "failed",
               "\n".join(failure.text or "" for failure in case.iter("failure")))
              for case in cases if case.find("failure") is not None]
    return len(cases) or 1, failed


def last_lines(output, budget):
    lines = [line[:300] for line in output.strip().splitlines()[-LINES_OF_A_FAILURE:]]
    return "\n".join("    " + line for line in lines).encode()[-budget:].decode(errors="ignore")


def print_outputs(failures):
    for title, output in failures:
        print(f"\n  {title}; the end of what it printed:")
        print(last_lines(output, BYTES_OF_ALL_FAILURES // len(failures)))


def main(stages, *presets):
    tests = []
    failures = []
    flaky = []
    for preset, path in (argument.split("=", 1) for argument in presets):
        found = read_tests(path)
        passed_again = {name: output for name, _, why, output in read_tests(path + ".again") if not why}
        count = 0
        for test in found:
            units, failed = read_units(path, test[0])
            count += units
            tests.append((preset, *test))
            passed = passed_again.get(test[0])
            if passed is not None:
                flaky += [(f"FLAKY: {test[0]} ({preset})", test[3]), ("the same, alone, passed", passed)]
                continue
            failures += [(f"{name} ({preset}): {why}", output) for name, _, why, output in failed or [test] if why]
        print(f"{preset}: {count} tests in {len(found)} programs" if found else f"{preset}: ctest left no results")

    print(f"\nThe {SLOWEST} slowest tests:")
    for preset, name, seconds, *_ in sorted(tests, key=lambda test: -test[2])[:SLOWEST]:
        print(f"{seconds:7.0f} s  {name} ({preset})")
    print("\nStages:")
    with open(stages, encoding="utf-8") as lines:
        for line in lines:
            seconds, name = line.rstrip("\n").split(" ", 1)
            print(f"{int(seconds):7d} s  {name}")

    print_outputs(flaky)
    if not failures:
        return
    print(f"\n{len(failures)} failed:")
    for title, _ in failures[:100]:
        print(f"  {title}")
    print_outputs(failures[:BYTES_OF_ALL_FAILURES // LEAST_BYTES_OF_A_FAILURE])


if __name__ == "__main__":
    main(*sys.argv[1:])
