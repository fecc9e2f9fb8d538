"""Native stacks with Python frames in place of the interpreter's: the C library's functions that call back are between
the Python functions that called them and those that they call, nested as the program was told. For each interpreter of
the machine."""

import collections
import os
import random
import re

import stacks
from stacks import e2e

LIBRARY = os.environ.get("DLHOOK_TEST_BLAS", "libopenblas.so.0")
# The frames of each way in, outermost first. C functions by the names that the C library exports.
FRAMES = {
    "plain": ["by_plain"],
    "sorted": ["by_sorted", "<lambda>"],
    "partial": ["by_partial"],
    "generator": ["by_generator", "<genexpr>"],
    "class": ["by_class", "__init__"],
    "slot": ["by_slot", "__add__"],
    "qsort": ["by_qsort", "qsort_r", "<lambda>"],
    "bsearch": ["by_bsearch", "bsearch", "<lambda>"],
    "lfind": ["by_lfind", "lfind", "<lambda>"],
}
C_FUNCTIONS = {"qsort_r", "bsearch", "lfind"}


def expected(ways):
    frames = ["<module>"]
    for way in ways:
        frames += ["down"] + FRAMES[way]
    return frames + ["down", "call"]


def shown(stack):
    """From a cell of the table, outermost first, the frames known to the test."""
    frames = []
    for entry in reversed(stack.split(" < ")):
        python = re.fullmatch(r"(.*) \(woven\.py:\d+\)", entry)
        if python:
            frames.append(python[1].rsplit(".", 1)[-1])
        elif entry.split(" (")[0] in C_FUNCTIONS:  # with a line if the C library's debug information is installed
            frames.append(entry.split(" (")[0])
    return frames


class Woven(e2e.Case):
    def stacks_of(self, program, ways, **variables):
        words = [",".join(way) for way in ways]
        run = self.recorded("launcher", [program, stacks.victim("woven"), LIBRARY, *words], **variables)
        found = collections.Counter()
        for row in run.table("stacks", "--only", "library"):
            found[row["stack"]] += row["calls"]
        return found

    def check(self, version):
        program = stacks.interpreter(version)
        if program is None:
            self.skipTest(f"no Python {version}")
        choose = random.Random(7)
        ways = [(way,) for way in FRAMES] + [tuple(choose.choices(list(FRAMES), k=choose.randrange(2, 6))) for _ in range(40)]
        found = self.stacks_of(program, ways, DLHOOK_STACKS="all")
        seen = collections.Counter()
        for stack, calls in found.items():
            seen[tuple(shown(stack))] += calls
            self.assertNotIn("_PyEval", stack)
            self.assertNotIn("[Python]", stack)
        self.assertEqual(seen, collections.Counter(tuple(expected(way)) for way in ways))

    def test_cut(self):
        """More Python frames than are recorded: the outer ones are unknown, and nothing replaces them."""
        program = stacks.interpreter("3.11")
        (stack, _), = self.stacks_of(program, [("plain",) * 40 + ("qsort",)], DLHOOK_STACKS="all").items()
        frames = shown(stack)
        self.assertEqual(frames, expected(("plain",) * 40 + ("qsort",))[-len(frames):])
        self.assertEqual(len(frames) - 1, 64)  # and qsort_r
        self.assertTrue(stack.endswith(" < […]"), stack)


def add(version):
    setattr(Woven, f"test_{version.replace('.', '_')}", lambda self: self.check(version))


for each in stacks.VERSIONS:
    add(each)

if __name__ == "__main__":
    e2e.main()
