"""Prints the vectors of python_lines_test.cc as the running interpreter compiles them: line tables of all kinds of code, and the
line that it gives each instruction. Standard library only; run once per supported version, in ascending order:

    for v in 3.9 3.10 3.11 3.12 3.13; do python$v python_lines_vectors.py; done > python_lines_vectors.inc
"""

import dis
import sys
import textwrap
import types

SAMPLE = '''
import os

def far(a,
        b=(1,
           2)):
    total = (a +
             b[0]

             * 3)
    for i in range(3):
        try:
            total += i
        except ValueError as error:
            raise RuntimeError(
                "x") from error
        finally:
            total -= 1
    with open(os.devnull) as f, \\
         open(os.devnull) as g:
        return [x
                for x in (f, g)
                if x]

class C:
    """Words."""
    y = 1
    @property
    def p(self): return (lambda:
        self)()

    async def c(self):
        async for x in self:
            await x
        yield 1
''' + "\n" * 300 + '''
def after_a_gap(): return {
    1: 2,
''' + "\n" * 150 + '''    3: 4}
'''


def all_codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from all_codes(constant)


def lines(code):
    """(byte offset from which, line or 0) in ascending order."""
    if not hasattr(code, "co_lines"):
        return list(dis.findlinestarts(code)), len(code.co_code)
    found = []
    for start, end, line in code.co_lines():
        if start < end and (not found or found[-1][1] != (line or 0)):
            found.append((start, line or 0))
    return found, len(code.co_code)


def main():
    version = sys.version_info[:2]
    kind = "kLnotab" if version < (3, 10) else "kLineTable" if version < (3, 11) else "kLocations"
    for code in all_codes(compile(SAMPLE, "sample.py", "exec")):
        table = code.co_lnotab if version < (3, 10) else code.co_linetable
        expected, size = lines(code)
        pairs = ", ".join("{%d, %d}" % pair for pair in expected)
        table = "\n    ".join('"%s"' % table.hex()[i:i + 108] for i in range(0, max(1, 2 * len(table)), 108))
        print('{"%d.%d %s", PythonLines::%s,\n    %s,\n    %d, %d,\n%s},' %
              (*version, code.co_name, kind, table, code.co_firstlineno, size,
               textwrap.fill("{%s}" % pairs, 116, initial_indent="    ", subsequent_indent="     ")))


main()
