"""scripts/gen_hooks.py: every mistake in a table is reported with its place, the text found and what was expected.

Run: python3 tests/scripts/gen_hooks_errors_test.py
"""

import contextlib
import io

import table_case
from table_case import HEAD, HEAD_LINES, TableTest, gen_hooks


class ErrorTest(TableTest):
    def test_unknown_type(self):
        self.assert_line_error(
            'cblas void x(quad alpha)', "found type 'quad'", 'expected one of: int option'
        )

    def test_unknown_return_type(self):
        self.assert_line_error(
            'cblas complex x(int m)', "found return type 'complex'", 'void, size_t, ptr, status, int32'
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
            'cblas void x(int m) @hot(yes)', "found attribute 'hot'", 'decode, track, family, work, since, more'
        )

    def test_unknown_family(self):
        self.assert_line_error(
            'cblas void x(int m) @family(dnn)', "found family 'dnn'", 'blas, pack'
        )

    def test_unknown_spelling(self):
        self.assert_line_error('pascal void x(int m)', "found spelling 'pascal'", 'fortran, cblas')

    def test_unknown_letter(self):
        self.assert_line_error('cblas void {sq}x(int m)', "found letter 'q'", 's, d, c, z, S, D, C, Z, H')

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

    def test_two_of_one_line_without_what_the_second_has(self):
        self.assert_line_error('c void x[|Async](int m)', "found '[|Async]'", 'second TYPE NAME')

    def test_bad_spelling(self):
        self.assert_error('library b\nspelling c {} i32\n', 2, "found '{}'", 'expected i32 or i64')

    def test_family_twice(self):
        self.assert_error('family a\nfamily a\n', 2, "family 'a'")

    def test_bad_decoder(self):
        self.assert_error(
            'decoder d header=x\n', 1, "decoder 'd' has header", 'expected addresses fields function record words'
        )

    def test_continuation_of_nothing(self):
        self.assert_error('  family a\n', 1, 'continuation')

    def test_missing_file(self):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            self.assertEqual(gen_hooks.main(['--list', str(self.folder / 'absent.api')]), 2)
        self.assertIn('absent.api', errors.getvalue())

    def test_bad_default_of_a_family(self):
        self.assert_error('family a on\n', 1, "found family 'a on'", 'perhaps: off')

    def test_too_many_families(self):
        self.assert_error(
            ''.join(f'family f{number}\n' for number in range(32)), 32, 'found family number 32', 'at most 31'
        )

    def test_too_many_hooks(self):
        lines = ''.join(f'c void f{number}(int m)\n' for number in range(4097))
        self.assert_error(
            HEAD + lines, HEAD_LINES + 4097, 'found hook number 4097', "'f4096'", 'at most 4096'
        )

    def test_bad_tracker(self):
        self.assert_error(
            'tracker t header=x colour=y\n',
            1,
            "tracker 't' has colour header",
            'expected function [context] [fields] [header] [room]',
        )

    def test_bad_context(self):
        line = HEAD.splitlines()[2] + ' ' + HEAD.splitlines()[3] + ' context=all\n'
        self.assert_error(line, 1, "found context 'all'", 'expected one of: real, caller')

    def test_bad_beginning(self):
        line = HEAD.splitlines()[2] + ' ' + HEAD.splitlines()[3] + ' begin=often\n'
        self.assert_error(line, 1, "found begin 'often'", 'expected one of: BeginCall, BeginFrequentCall')

    def test_unknown_key_of_a_decoder(self):
        line = HEAD.splitlines()[2] + ' ' + HEAD.splitlines()[3] + ' colour=red\n'
        self.assert_error(line, 1, "decoder 'gemm' has", 'colour', '[context]')

    def test_unknown_tracker(self):
        self.assert_line_error('c void x(int m) @track(seen)', "found tracker 'seen'", 'none is declared')

    def test_tracker_without_its_field(self):
        self.assert_error(
            'tracker seen header=h function=F fields=handle,size?\n' + HEAD + 'c void x(int m) @track(seen)\n',
            HEAD_LINES + 2,
            "found no parameter 'handle', which tracker seen expects",
        )

    def test_tracker_with_a_parameter_without_meaning(self):
        self.assert_error(
            'tracker seen header=h function=F fields=m\n' + HEAD + 'c void x(float m) @track(seen)\n',
            HEAD_LINES + 2,
            "found 'float m', expected a type that tracker seen can use",
        )

    def test_unknown_work(self):
        self.assert_line_error('work magic', "found work 'magic'", 'expected one of: none, stream')
        self.assert_line_error('c status x(ptr stream) @work(magic)', "found work 'magic'", 'expected one of')

    def test_work_without_its_parameter(self):
        self.assert_line_error(
            'c status x(int m) @work(cublas)', "found 'no parameter handle', expected 'ptr handle' for work cublas"
        )
        self.assert_line_error('c status x(word stream) @work(stream)', "found 'word stream'", 'or @work(none)')

    def test_bad_since(self):
        for text in ('12', '3020 7000 9000', 'new', '3020,7000'):
            with self.subTest(text):
                self.assert_line_error(f'c status x(ptr dst) @since({text})', 'found', 'expected')

    def test_variant_twice(self):
        self.assert_error(
            HEAD + 'c status x_v2(ptr dst) @since(3020)\nc status x_v3(ptr dst) @since(3020)\n',
            HEAD_LINES + 2,
            'found x since 3020 again, first answered by x_v2',
        )

    def test_bad_more(self):
        for text in ('2', '-1', 'some'):
            with self.subTest(text):
                self.assert_line_error(f'c status x(ptr dst) @more({text})', f'found @more({text})')

    def test_names_of_the_wrappers_own(self):
        for name in ('frame', 'real', 'record', 'result'):
            with self.subTest(name):
                self.assert_line_error(f'c status x(ptr {name})', f"found parameter 'ptr {name}'", 'none of')

    def test_bad_newest(self):
        self.assert_line_error('newest soon', "found 'newest soon'", 'newest VERSION')


if __name__ == '__main__':
    table_case.main()
