"""scripts/gen_hooks.py and the tables in preload/api.

Run: python3 -m unittest tests/scripts/gen_hooks_test.py. DLHOOK_TEST_LIBRARIES: further folders with BLAS libraries.
"""

import contextlib
import glob
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = sorted(str(path) for path in (ROOT / 'preload/api').glob('*.api'))
COMPILER = os.environ.get('CXX', 'c++')

sys.path.insert(0, str(ROOT / 'scripts'))
import api_tables  # noqa: E402
import gen_hooks  # noqa: E402

HEAD = '''family blas
family pack
decoder gemm header=preload/decode/gemm.h function=DecodeGemm args=GemmArgs record=kGemmCall words=kGemmShapeWords
  addresses=3 fields=order?,m,n?,trans_a? constants=a_type:DataType,kind:GemmKind=gemm ignore=alpha
library test
soname i32 libtest.so.1 libtest.so
soname i64 libtest64.so
spelling fortran i32 {}_ i64 {}_64_
spelling cblas i32 cblas_{}
section blas
'''
HEAD_LINES = HEAD.count('\n')


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

    def assert_error(self, text, line, *parts):
        code, errors = self.run_on(text)
        self.assertEqual(code, 2)
        self.assertIn(f'test.api:{line}: ', errors)
        for part in parts:
            self.assertIn(part, errors)

    def assert_line_error(self, line, *parts):
        self.assert_error(HEAD + line + '\n', HEAD_LINES + 1, *parts)


class ExpansionTest(TableTest):
    def names(self):
        return re.findall(r'\{"(\w+)", (\d)\}', self.output('hook_names.cc'))

    def test_letters_and_spellings(self):
        self.generate('fortran void {sd}ger(int* m)\n')
        self.assertEqual(
            self.names(), [('dger_', '0'), ('dger_64_', '0'), ('sger_', '0'), ('sger_64_', '0')]
        )

    def test_names_are_sorted_as_strcmp_does(self):
        self.generate(
            'cblas void sgemm(int m)\nfortran void Za(int* m)\nfortran void {sz}a(int* m)\n'
        )
        names = [name for name, _ in self.names()]
        self.assertEqual(names, ['Za_', 'Za_64_', 'cblas_sgemm', 'sa_', 'sa_64_', 'za_', 'za_64_'])

    def test_family_of_the_line(self):
        self.generate('cblas void a(int m) @family(pack)\ncblas void b(int m)\n')
        self.assertEqual(self.names(), [('cblas_a', '1'), ('cblas_b', '0')])
        self.assertIn('kFamilyNames[] = {"blas", "pack"};', self.output('hook_names.cc'))

    def test_scalars_follow_the_letter(self):
        self.generate('cblas void {sdcz}x(scalar alpha, real beta)\n')
        for letter, parameters in {
            's': 'float alpha, float beta',
            'd': 'double alpha, double beta',
            'c': 'const void* alpha, float beta',
            'z': 'const void* alpha, double beta',
        }.items():
            self.assertIn(f'void cblas_{letter}x({parameters}) {{', self.output('hooks.cc'))

    def test_continuation_and_comment(self):
        self.generate('cblas void a(int m,  # one\n\n# two\n  int n)\n')
        self.assertIn('void cblas_a(int64_t m, int64_t n) {', self.output('hooks.cc'))

    def test_hash_depends_on_names_and_families_only(self):
        def table_hash(lines):
            self.generate(lines)
            return re.search(r'kHookTableHash = (\w+);', self.output('hook_names.cc'))[1]

        first = table_hash('cblas void a(int m)\ncblas void b(int m)\n')
        self.assertEqual(first, table_hash('cblas void b(int m, int n)\ncblas void a(int m)\n'))
        self.assertNotEqual(first, table_hash('cblas void a(int m)\ncblas void c(int m)\n'))
        self.assertNotEqual(
            first, table_hash('cblas void a(int m)\ncblas void b(int m) @family(pack)\n')
        )

    def test_hash_by_hand(self):
        """FNV-1a of "a\\0f\\0", computed step by step."""
        value = 0xCBF29CE484222325
        for byte in b'cblas_a\0blas\0':
            value = ((value ^ byte) * 0x100000001B3) & (2**64 - 1)
        self.generate('cblas void a(int m)\n')
        self.assertIn(f'kHookTableHash = {value:#x};', self.output('hook_names.cc'))


class WrapperTest(TableTest):
    def test_decoded_fortran_function(self):
        self.generate('fortran void {s}x(char* trans_a, int* m, ptr alpha) @decode(gemm)\n')
        place = HEAD_LINES + 1
        self.assertIn(
            f'''// from test.api:{place}
DLHOOK_EXPORT void sx_(const char* trans_a, const int32_t* m, const void* alpha, size_t trans_a_length) {{
  CallFrame frame;
  const auto real = reinterpret_cast<decltype(&sx_)>(
      BeginCall(0, 1u << 0, __builtin_return_address(0), &frame));
  real(trans_a, m, alpha, trans_a_length);
  if (CallRecord* record = EndCall(&frame, RecordType::kGemmCall, kGemmShapeWords, 3)) {{
    DecodeGemm({{.a_type = DataType::kF32, .kind = GemmKind::kGemm, .m = IntegerAt(m), .trans_a = FortranOption(trans_a)}}, record);
    CommitCall(&frame, record);
  }}
}}
''',
            self.output('hooks.cc'),
        )
        self.assertIn('void sx_64_(const char* trans_a, const int64_t* m,', self.output('hooks.cc'))

    def test_timed_function_that_returns(self):
        self.generate('cblas size_t x(enum order, int m) @family(pack)\n')
        self.assertIn(
            '''DLHOOK_EXPORT uint64_t cblas_x(int64_t order, int64_t m) {
  CallFrame frame;
  const auto real = reinterpret_cast<decltype(&cblas_x)>(
      BeginCall(0, 1u << 1, __builtin_return_address(0), &frame));
  const auto result = real(order, m);
  if (CallRecord* record = EndCall(&frame, RecordType::kCall, 0, 0)) {
    CommitCall(&frame, record);
  }
  return result;
}
''',
            self.output('hooks.cc'),
        )

    def test_integers_are_forwarded_whole_and_decoded_in_their_width(self):
        self.generate('cblas void {d}x(enum order, int m) @decode(gemm, kind=gemm3m)\n')
        self.assertIn('(int64_t order, int64_t m)', self.output('hooks.cc'))
        self.assertIn(
            'DecodeGemm({.a_type = DataType::kF64, .kind = GemmKind::kGemm3m, .order = CblasOption(order), '
            '.m = static_cast<int32_t>(m)}, record);',
            self.output('hooks.cc'),
        )

    def test_links_name_the_sonames_of_the_width(self):
        self.generate('fortran void x(int* m)\n')
        source = self.output('hooks.cc')
        self.assertIn('kSonames_test_i32[] = {"libtest.so.1", "libtest.so", nullptr};', source)
        self.assertIn(
            '{reinterpret_cast<void*>(&x_), kSonames_test_i32},\n'
            '    {reinterpret_cast<void*>(&x_64_), kSonames_test_i64},',
            source,
        )

    def test_export_map_is_anonymous(self):
        self.generate('cblas void x(int m)\n', '--export', 'getenv', '--export', 'dlsym')
        self.assertEqual(
            self.output('exports.map'),
            '{\n  global:\n    cblas_x;\n    dlsym;\n    getenv;\n  local:\n    *;\n};\n',
        )

    def test_nothing_is_left_of_an_earlier_run(self):
        self.generate('cblas void x(int m)\n')
        self.generate('cblas void y(int m)\n')
        self.assertNotIn(
            'cblas_x',
            self.output('hooks.cc') + self.output('hook_names.cc') + self.output('exports.map'),
        )


class ErrorTest(TableTest):
    def test_unknown_type(self):
        self.assert_line_error(
            'cblas void x(quad alpha)', "found type 'quad'", 'expected one of: int option'
        )

    def test_unknown_return_type(self):
        self.assert_line_error(
            'cblas complex x(int m)', "found return type 'complex'", 'void, size_t, ptr'
        )

    def test_unknown_decoder(self):
        self.assert_line_error(
            'cblas void x(int m) @decode(conv)', "found decoder 'conv'", 'expected one of: gemm'
        )

    def test_parameter_unknown_to_the_decoder(self):
        self.assert_line_error(
            'cblas void {s}x(int m, int trans_q) @decode(gemm)', "'trans_q'", 'decoder gemm'
        )

    def test_parameter_of_a_type_without_meaning(self):
        self.assert_line_error(
            'cblas void {s}x(float m) @decode(gemm)', "found 'float m'", 'decoder gemm can use'
        )

    def test_missing_field(self):
        self.assert_line_error('cblas void {s}x(int n) @decode(gemm)', "no parameter 'm'")

    def test_missing_type(self):
        self.assert_line_error(
            'cblas void x(int m) @decode(gemm)', "found no 'a_type='", 'DataType'
        )

    def test_unknown_constant(self):
        self.assert_line_error(
            'cblas void {s}x(int m) @decode(gemm, colour=red)', "'colour'", 'a_type, kind'
        )

    def test_unknown_attribute(self):
        self.assert_line_error(
            'cblas void x(int m) @hot(yes)', "found attribute 'hot'", 'decode, family'
        )

    def test_unknown_family(self):
        self.assert_line_error(
            'cblas void x(int m) @family(dnn)', "found family 'dnn'", 'blas, pack'
        )

    def test_unknown_spelling(self):
        self.assert_line_error('pascal void x(int m)', "found spelling 'pascal'", 'fortran, cblas')

    def test_unknown_letter(self):
        self.assert_line_error('cblas void {sq}x(int m)', "found letter 'q'", 's, d, c, z')

    def test_scalar_without_letter(self):
        self.assert_line_error('cblas void x(scalar alpha)', "found type 'scalar'", '{sdcz}')

    def test_function_twice(self):
        self.assert_error(
            HEAD + 'cblas void x(int m)\n\ncblas void x(int n)\n',
            HEAD_LINES + 3,
            "found 'cblas_x' again",
            f'first in test.api:{HEAD_LINES + 1}',
        )

    def test_parameter_twice(self):
        self.assert_line_error('cblas void x(int m, int m)', 'two parameters of one name')

    def test_parameter_without_name(self):
        self.assert_line_error('cblas void x(int)', "found parameter 'int'", 'TYPE NAME')

    def test_no_prototype(self):
        self.assert_line_error('cblas void x(int m', 'expected: SPELLING RETURN NAME')
        self.assert_line_error('something else', "found 'something else'", 'a prototype')

    def test_prototype_before_its_library(self):
        self.assert_error('family a\ncblas void x(int m)\n', 2, 'expected a library line')

    def test_no_soname(self):
        self.assert_error(
            'family a\nlibrary b\nspelling c i32 {}\nsection a\nc void x(int m)\n',
            5,
            "'soname i32'",
        )

    def test_bad_spelling(self):
        self.assert_error('library b\nspelling c {} i32\n', 2, "found '{}'", 'expected i32 or i64')

    def test_family_twice(self):
        self.assert_error('family a\nfamily a\n', 2, "family 'a'")

    def test_bad_decoder(self):
        self.assert_error(
            'decoder d header=x\n', 1, "decoder 'd' has header", 'expected addresses args'
        )

    def test_continuation_of_nothing(self):
        self.assert_error('  family a\n', 1, 'continuation')

    def test_missing_file(self):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            self.assertEqual(gen_hooks.main(['--list', str(self.folder / 'absent.api')]), 2)
        self.assertIn('absent.api', errors.getvalue())


def compiles(folder, flags=()):
    return subprocess.run(
        [
            COMPILER,
            '-std=c++17',
            '-fsyntax-only',
            '-Wno-deprecated-declarations',
            f'-I{ROOT}',
            *flags,
            str(folder / 'abi_check.cc'),
        ],
        capture_output=True,
        text=True,
        check=False,
    )


@unittest.skipUnless(shutil.which(COMPILER), f'no compiler ({COMPILER})')
class AbiTest(TableTest):
    """The tables against the vendors' headers, as far as they are installed."""

    def check(self, header, least):
        present = subprocess.run(
            [COMPILER, '-E', '-x', 'c++', '-'],
            input=f'#include "{header}"\n',
            text=True,
            capture_output=True,
            check=False,
        )
        if present.returncode != 0:
            self.skipTest(f'no {header}')
        self.assertEqual(
            gen_hooks.main(['--out', str(self.folder), '--abi', header, '--cc', COMPILER, *TABLES]),
            0,
        )
        result = compiles(self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreaterEqual(self.output('abi_check.cc').count('static_assert'), least)

    def test_cblas(self):
        self.check('cblas.h', 40)

    def test_openblas_fortran(self):
        self.check('f77blas.h', 40)

    def test_mkl_cblas(self):
        self.check('mkl_cblas.h', 80)

    def test_mkl_blas(self):
        self.check('mkl_blas.h', 80)

    def test_a_wrong_line_does_not_compile(self):
        (self.folder / 'vendor.h').write_text(
            'typedef enum { A } E;\nextern "C" void cblas_x(E order, int m, float alpha, const int* l);\n'
        )
        cases = {
            'cblas void x(enum order, int m, float alpha, int[] l)': True,
            'cblas void x(enum order, short m, float alpha, int[] l)': False,
            'cblas void x(enum order, int m, double alpha, int[] l)': False,
            'cblas void x(enum order, int m, ptr alpha, int[] l)': False,
            'cblas void x(enum order, int m, float alpha, ptr[] l)': False,
            'cblas void x(enum order, int m, float alpha, char[] l)': False,
            'cblas void x(enum order, int m, float alpha)': False,
            'cblas void x(enum order, int m, float alpha, int[] l, int n)': False,
            'cblas size_t x(enum order, int m, float alpha, int[] l)': False,
        }
        for line, conforms in cases.items():
            self.generate(line + '\n', '--abi', str(self.folder / 'vendor.h'), '--cc', COMPILER)
            self.assertEqual(compiles(self.folder).returncode == 0, conforms, line)

    def test_a_foreign_header_is_an_error(self):
        code, errors = self.run_on(
            HEAD + 'cblas void x(int m)\n', '--abi', 'stdio.h', '--cc', COMPILER
        )
        self.assertEqual(code, 2)
        self.assertIn('declares none of the 1 hooked functions', errors)


# Level 3 and what the tables have of level 2, in any spelling; not the kernels that OpenBLAS exports (sgemm_nt …).
BLAS_NAME = re.compile(
    r'(scipy_)?((cblas_)[sdcz]|[sdcz])(gemm|gemm3m|gemmtr?|symm|hemm|syrk|herk|syr2k|her2k|trmm|trsm|'
    r'gemv|ger|geru|gerc|gemm_batch|gemm_batch_strided)(?(3)(64_|_64)?|(_|_64_|_64))'
)


@unittest.skipUnless(shutil.which('nm'), 'no nm')
class LibraryTest(unittest.TestCase):
    """Every BLAS function that an installed library exports is hooked, under each of its names."""

    def check(self, path):
        symbols = subprocess.run(
            ['nm', '-D', '--defined-only', path], capture_output=True, text=True, check=True
        ).stdout
        exported = {line.split()[-1].split('@')[0] for line in symbols.splitlines()}
        blas = {name for name in exported if BLAS_NAME.fullmatch(name)}
        self.assertGreater(len(blas), 20, path)
        hooked = set(api_tables.TableReader().read(TABLES).hooks)
        self.assertEqual(blas - hooked, set(), path)

    def test_installed_libraries(self):
        folders = [
            '/usr/lib/*-linux-gnu',
            '/usr/lib64',
            *os.environ.get('DLHOOK_TEST_LIBRARIES', '').split(':'),
        ]
        names = [
            'libblas.so.3',
            'libblas64.so.3',
            'libopenblas*.so.0',
            'libblis*.so.4',
            'libmkl_rt.so.?',
            'libscipy_openblas*.so',
        ]
        paths = [
            path
            for folder in folders
            if folder
            for name in names
            for path in glob.glob(f'{folder}/{name}')
        ]
        if not paths:
            self.skipTest('no BLAS')
        for path in paths:
            with self.subTest(path):
                self.check(path)


class TablesTest(unittest.TestCase):
    """Facts that the rest of dlhook builds on."""

    def setUp(self):
        self.api = api_tables.TableReader().read(TABLES)

    def test_families(self):
        self.assertEqual(list(self.api.families), ['blas', 'blas2', 'pack', 'onednn'])

    def test_names_that_frameworks_call(self):
        # libtorch_cpu.so 2.13 (its PLT), numpy 2.4, scipy 1.17, Debian's LAPACK.
        for name in (
            'sgemm_ dgemm_ cgemm_ zgemm_ sgemv_ dgemv_ strsm_ ztrsm_ cblas_sgemm_batch cblas_gemm_bf16bf16f32 '
            'cblas_gemm_f16f16f32 cblas_sgemm_pack_get_size cblas_sgemm_pack cblas_sgemm_compute '
            'scipy_cblas_sgemm64_ scipy_cblas_dsyrk64_ scipy_dgemm_ scipy_dgemm_64_ zherk_'
        ).split():
            self.assertIn(name, self.api.hooks)

    def test_no_bare_names(self):
        bare = [
            name
            for name in self.api.hooks
            if not name.startswith(('cblas_', 'scipy_cblas_')) and not name.endswith(('_', '_64'))
        ]
        self.assertEqual(bare, [])

    def test_every_decoded_line_states_its_types(self):
        for hook in self.api.hooks.values():
            for key, value in hook.constants:
                self.assertNotEqual(value, 'DataType::kUnknown', f'{hook.place}: {key}')

    def test_widths(self):
        for name, width in {
            'sgemm_': 'i32',
            'sgemm_64_': 'i64',
            'sgemm_64': 'i64',
            'scipy_sgemm_': 'i32',
            'scipy_sgemm_64_': 'i64',
            'cblas_sgemm': 'i32',
            'cblas_sgemm64_': 'i64',
            'cblas_sgemm_64': 'i64',
            'scipy_cblas_sgemm': 'i32',
            'scipy_cblas_sgemm64_': 'i64',
        }.items():
            self.assertEqual(self.api.hooks[name].width, width, name)


if __name__ == '__main__':
    unittest.main()
