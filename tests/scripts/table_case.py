"""Shared by the tests of the generator and of the tables."""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = sorted(str(path) for path in (ROOT / 'preload/api').glob('*.api'))
COMPILER = os.environ.get('CXX', 'c++')

sys.path.insert(0, str(ROOT / 'scripts'))
import gen_hooks  # noqa: E402

HEAD = '''family blas
family pack
decoder gemm header=preload/decode/gemm.h function=DecodeGemm record=kGemmCall words=kWords<GemmShape>
  addresses=3 fields=order?,m,n?,trans_a? constants=a_type:DataType,kind:GemmKind=gemm ignore=alpha
library test
soname i32 libtest.so.1 libtest.so
soname i64 libtest64.so
spelling fortran i32 {}_ i64 {}_64_
spelling cblas i32 cblas_{}
spelling c i32 {}
section blas
'''
HEAD_LINES = HEAD.count('\n')


def run(argv, **options):
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300, **options)


class TableTest(unittest.TestCase):
    """Runs the generator on small tables."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_on(self, text, *options):
        """(exit code, stderr) of the generator on a table with that text."""
        table = self.folder / 'test.api'
        table.write_text(text)
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            code = gen_hooks.main(['--out', str(self.folder), *options, str(table)])
        return code, errors.getvalue()

    def generate(self, lines, *options):
        code, errors = self.run_on(HEAD + lines, *options)
        self.assertEqual((code, errors), (0, ''))

    def output(self, name):
        return (self.folder / name).read_text()

    def wrappers(self):
        """The parts of the wrappers, in order."""
        return ''.join(self.output(f'hooks_{part}.cc') for part in range(gen_hooks.PARTS))

    def assert_error(self, text, line, *parts):
        code, errors = self.run_on(text)
        self.assertEqual(code, 2)
        self.assertIn(f'test.api:{line}: ', errors)
        for part in parts:
            self.assertIn(part, errors)

    def assert_line_error(self, line, *parts):
        self.assert_error(HEAD + line + '\n', HEAD_LINES + 1, *parts)


class SkipReporter(unittest.TextTestResult):
    """Prints every skipped test on a line that scripts/test.sh counts."""

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.stream.write(f'\nSKIPPED: {test.id()}: {reason}\n')


def main():
    unittest.main(testRunner=unittest.TextTestRunner(verbosity=2, resultclass=SkipReporter))
