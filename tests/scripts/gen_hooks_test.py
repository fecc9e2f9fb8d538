"""scripts/gen_hooks.py: its output for each form of a line.

Run: python3 tests/scripts/gen_hooks_test.py
"""

import re

import table_case
from table_case import HEAD, HEAD_LINES, TableTest


class ExpansionTest(TableTest):
    def names(self):
        return re.findall(r'\{"(\w+)", (\d)\}', self.output('hook_names.cc'))

    def test_letters_and_spellings(self):
        self.generate('fortran void {sd}ger(int* m)\n')
        self.assertEqual(
            self.names(), [('dger_', '0'), ('dger_64_', '0'), ('sger_', '0'), ('sger_64_', '0')]
        )

    def test_words(self):
        self.generate('c void {get,set}{,All}x(int m)\ncblas void {sd}y{,_omp}(scalar alpha)\n')
        names = [name for name, _ in self.names()]
        self.assertEqual(names, ['cblas_dy', 'cblas_dy_omp', 'cblas_sy', 'cblas_sy_omp', 'getAllx', 'getx', 'setAllx', 'setx'])
        self.assertIn('void DLHOOK_BODY(cblas_dy_omp)(double alpha) {', self.wrappers())

    def test_words_with_types(self):
        self.generate('words narrow bgemm=bf16 igemm=s8\nc void {narrow}_x(int m) @decode(gemm)\nc void {a=u8,b}y(int m)\n')
        self.assertEqual([name for name, _ in self.names()], ['ay', 'bgemm_x', 'by', 'igemm_x'])
        self.assertIn('DecodeGemm({.a_type = DataType::kS8, .kind = GemmKind::kGemm, ', self.wrappers())

    def test_words_are_of_their_file(self):
        other = self.folder / 'other.api'
        other.write_text('words narrow bgemm=bf16 igemm=s8\n')
        code, errors = self.run_on(HEAD + 'c void {narrow}_x(int m)\n', str(other))  # is read first
        self.assertEqual(code, 2)
        self.assertIn("found letter 'n'", errors)

    def test_functions_without_a_header_are_declared(self):
        self.generate('room track\ntracker seen function=TrackSeen fields=m\nc void x(int m) @track(seen)\n')
        self.assertIn('namespace dlhook::inline track {\nvoid TrackSeen(const SeenArgs& args);\n}', self.output('hook_arguments.h'))

    def test_as_fortran(self):
        self.generate('spelling both i32 cblas_{} fortran i64 {}_64_\nboth void {s}x(enum order, enum uplo, int m, scalar alpha)\n')
        self.assertIn('(cblas_sx)(int64_t order, int64_t uplo, int64_t m, float alpha) {', self.wrappers())
        self.assertIn('(sx_64_)(const char* uplo, const int64_t* m, const void* alpha, size_t uplo_length) {', self.wrappers())

    def test_two_of_one_line(self):
        self.generate('second ptr alpha kind=pack\nspelling ptds i32 {} {}_ptds\nspelling ptsz i32 {} {}_ptsz\n'
                      'ptds void {s}x[_v2|Async](int m) @decode(gemm)\n')
        self.assertEqual([name for name, _ in self.names()], ['sxAsync', 'sxAsync_ptsz', 'sx_v2', 'sx_v2_ptds'])
        self.assertIn('(sxAsync)(int64_t m, const void* alpha) {', self.wrappers())
        self.assertIn('.kind = GemmKind::kPack', self.wrappers())

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
            self.assertIn(f'void DLHOOK_BODY(cblas_{letter}x)({parameters}) {{', self.wrappers())

    def test_upper_case_letters(self):
        self.generate('c void p{SDCZH}x(int m, scalar alpha)\n')
        self.assertEqual([name for name, _ in self.names()], ['pCx', 'pDx', 'pHx', 'pSx', 'pZx'])
        self.assertIn('void DLHOOK_BODY(pZx)(int64_t m, const void* alpha) {', self.wrappers())
        self.assertIn('void DLHOOK_BODY(pSx)(int64_t m, float alpha) {', self.wrappers())

    def test_half_precision(self):
        self.generate('c void {H}x(int m) @decode(gemm)\n')
        self.assertIn('.a_type = DataType::kF16', self.wrappers())

    def test_families_that_are_off(self):
        code, errors = self.run_on('family a\nfamily b off\nfamily c\nfamily d off\n')
        self.assertEqual((code, errors), (0, ''))
        self.assertIn('kFamilyNames[] = {"a", "b", "c", "d"};', self.output('hook_names.cc'))
        self.assertIn('kDefaultFamilies = 0x5;', self.output('hook_names.cc'))

    def test_parts_hold_each_hook_once_in_order(self):
        names = [f'f{number:03}' for number in range(100)]
        self.generate(''.join(f'c void {name}(int m)\n' for name in reversed(names)))
        self.assertEqual(re.findall(r'DLHOOK_ENTRY\((\w+)\);', self.wrappers()), names)
        self.assertEqual(re.findall(r'BeginCall\((\d+),', self.wrappers()), [str(i) for i in range(100)])
        sizes = [self.output(f'hooks_{part}.cc').count('BeginCall') for part in range(8)]
        self.assertLessEqual(max(sizes) - min(sizes), 1)

    def test_continuation_and_comment(self):
        self.generate('cblas void a(int m,  # one\n\n# two\n  int n)\n')
        self.assertIn('void DLHOOK_BODY(cblas_a)(int64_t m, int64_t n) {', self.wrappers())

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


class WorkTest(TableTest):
    """Calls that submit GPU work: the arguments for the events around them."""

    def begun(self, lines):
        self.generate(lines)
        return re.findall(r'GpuEventsOn\(\)\) BeginCallEvents\(&frame, \{(.*)\}\);', self.wrappers())

    def test_streams_from_arguments(self):
        self.assertEqual(
            self.begun('c status x(ptr stream)\nwork stream\nc status y(int m, ptr stream)\nc status z(int m)\n'),
            ['.work = EventWork::kStream, .argument = stream', '.work = EventWork::kDefaultStream'],
        )

    def test_it_holds_until_the_next_section(self):
        self.assertEqual(self.begun('work stream\nsection pack\nc status x(ptr stream)\n'), [])
        self.assertNotIn('event_calls.h', self.wrappers())

    def test_streams_of_threads(self):
        self.assertEqual(
            self.begun('spelling twin i32 {}_ptsz\nwork stream\ntwin status x(ptr stream)\n'),
            ['.work = EventWork::kStream, .per_thread = true, .argument = stream'],
        )

    def test_streams_of_handles(self):
        self.assertEqual(
            self.begun('work cublas\nc status x(ptr handle)\nc status y(ptr handle) @work(none)\n'),
            ['.work = EventWork::kCublas, .argument = handle, .real = reinterpret_cast<void*>(real)'],
        )

    def test_copies_and_sets(self):
        decoders = (
            'decoder copy header=h function=F record=r words=w addresses=1 fields= ignore=*'
            ' constants=direction:CopyDirection=unknown\n'
        )
        self.assertEqual(
            self.begun(decoders + 'work stream\nc status x(ptr dst) @decode(copy)\n'
                       'c status y(ptr dst) @decode(copy, direction=set)\n'),
            [
                '.work = EventWork::kDefaultStream, .kind = GpuActivityKind::kCopy',
                '.work = EventWork::kDefaultStream, .kind = GpuActivityKind::kSet',
            ],
        )

    def test_they_begin_between_the_start_and_the_real_function(self):
        self.generate('c status x(ptr stream) @work(stream)\n')
        self.assertRegex(
            self.wrappers(), r'BeginCall\(.*\n  if \(GpuEventsOn\(\)\) BeginCallEvents.*\n  const auto result = real\('
        )


class WrapperTest(TableTest):
    def test_decoded_fortran_function(self):
        self.generate('fortran void {s}x(char* trans_a, int* m, ptr alpha) @decode(gemm)\n')
        place = HEAD_LINES + 1
        self.assertIn(
            f'''// from test.api:{place}
DLHOOK_ENTRY(sx_);
void DLHOOK_BODY(sx_)(const char* trans_a, const int32_t* m, const void* alpha, size_t trans_a_length) {{
  CallFrame frame;
  const auto real = reinterpret_cast<decltype(&DLHOOK_BODY(sx_))>(
      BeginCall(0, 1u << 0, __builtin_return_address(0), LookedUpFunction(), &frame));
  real(trans_a, m, alpha, trans_a_length);
  if (CallRecord* record = EndCall(&frame, RecordType::kGemmCall, kWords<GemmShape>, 3)) {{
    DecodeGemm({{.a_type = DataType::kF32, .kind = GemmKind::kGemm, .m = IntegerAt(m), .trans_a = FortranOption(trans_a)}}, record);
    CommitCall(&frame, record);
  }}
}}
''',
            self.wrappers(),
        )
        self.assertIn('void DLHOOK_BODY(sx_64_)(const char* trans_a, const int64_t* m,', self.wrappers())

    def test_a_function_that_is_called_often(self):
        head = HEAD.replace('ignore=alpha', 'ignore=alpha begin=BeginFrequentCall')
        self.assertEqual(self.run_on(head + 'c void x(int m) @decode(gemm, a_type=f32)\nc void y(int m)\n'), (0, ''))
        self.assertEqual(re.findall(r'Begin\w*Call\(\d', self.wrappers()), ['BeginFrequentCall(0', 'BeginCall(1'])

    def test_timed_function_that_returns(self):
        self.generate('cblas size_t x(enum order, int m) @family(pack)\n')
        self.assertIn(
            '''DLHOOK_ENTRY(cblas_x);
uint64_t DLHOOK_BODY(cblas_x)(int64_t order, int64_t m) {
  CallFrame frame;
  const auto real = reinterpret_cast<decltype(&DLHOOK_BODY(cblas_x))>(
      BeginCall(0, 1u << 1, __builtin_return_address(0), LookedUpFunction(), &frame));
  const auto result = real(order, m);
  if (CallRecord* record = EndCall(&frame, RecordType::kCall, 0, 0)) {
    CommitCall(&frame, record);
  }
  return result;
}
''',
            self.wrappers(),
        )

    def test_integers_are_forwarded_whole_and_decoded_in_their_width(self):
        self.generate('cblas void {d}x(enum order, int m) @decode(gemm, kind=gemm3m)\n')
        self.assertIn('(int64_t order, int64_t m)', self.wrappers())
        self.assertIn(
            'DecodeGemm({.a_type = DataType::kF64, .kind = GemmKind::kGemm3m, .order = CblasOption(order), '
            '.m = static_cast<int32_t>(m)}, record);',
            self.wrappers(),
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

    def test_nothing_is_left_of_an_earlier_run(self):
        self.generate('cblas void x(int m)\n')
        self.generate('cblas void y(int m)\n')
        self.assertNotIn(
            'cblas_x',
            self.wrappers() + self.output('hooks.cc') + self.output('hook_names.cc'),
        )


TRACKED = """family f
tracker seen header=preload/track/seen.h function=Seen fields=handle,bytes?
decoder copy header=preload/decode/copy.h function=DecodeCopy record=kCopyCall words=2
  addresses=1 fields=dst,bytes,kind? constants=sync:bool=true ignore=stream context=real
library t
soname i32 libt.so
spelling c i32 {}
section f
"""


class TrackerTest(TableTest):
    def generate_tracked(self, lines):
        code, errors = self.run_on(TRACKED + lines)
        self.assertEqual((code, errors), (0, ''))

    def test_status_goes_to_the_record_before_the_decoder(self):
        self.generate_tracked('c status x(ptr dst, size bytes, code kind, ptr stream) @decode(copy)\n')
        self.assertIn(
            """  const auto result = real(dst, bytes, kind, stream);
  if (CallRecord* record = EndCall(&frame, RecordType::kCopyCall, 2, 1)) {
    record->status = result;
    DecodeCopy({.sync = true, .dst = dst, .bytes = bytes, .kind = static_cast<int32_t>(kind), .real = reinterpret_cast<void*>(real)}, record);
    CommitCall(&frame, record);
  }
  return result;
}
""",
            self.wrappers(),
        )
        self.assertIn('int32_t DLHOOK_BODY(x)(const void* dst, uint64_t bytes, int64_t kind,', self.wrappers())
        self.assertIn('#include "preload/decode/copy.h"', self.wrappers())

    def test_int32_is_no_status(self):
        self.generate_tracked('c int32 x(ptr dst)\n')
        self.assertIn('int32_t DLHOOK_BODY(x)(', self.wrappers())
        self.assertNotIn('record->status', self.wrappers())

    def test_tracker_is_called_in_any_case(self):
        self.generate_tracked('c status x(ptr handle, size bytes, ptr other) @track(seen)\n')
        self.assertIn(
            """    CommitCall(&frame, record);
  }
  Seen({.handle = handle, .bytes = bytes, .status = result, .real = reinterpret_cast<void*>(real)});
  return result;
""",
            self.wrappers(),
        )
        self.assertIn('#include "preload/track/seen.h"', self.wrappers())

    def test_tracker_of_a_function_without_status(self):
        self.generate_tracked('c void x(ptr handle) @track(seen)\nc ptr y(ptr handle) @track(seen)\n')
        self.assertEqual(
            self.wrappers().count(
                'Seen({.handle = handle, .status = 0, .real = reinterpret_cast<void*>(real)});'
            ),
            2,
        )

    def test_tracker_of_nothing_but_the_call(self):
        code, errors = self.run_on(
            'tracker call header=h function=Call fields= context=caller\n' + TRACKED + 'c status x(ptr a) @track(call)\n'
        )
        self.assertEqual((code, errors), (0, ''))
        self.assertIn(
            'Call({.status = result, .real = reinterpret_cast<void*>(real), .caller = __builtin_return_address(0)});',
            self.wrappers(),
        )

    def test_decoder_that_ignores_the_rest(self):
        code, errors = self.run_on(
            'decoder d header=h function=D record=r words=0 addresses=0 fields=m? constants=n:int=3 ignore=*\n'
            + TRACKED + 'c void x(int m, float y, dim3 z) @decode(d, n=4)\nc void y() @decode(d)\n'
        )
        self.assertEqual((code, errors), (0, ''))
        self.assertIn('D({.n = 4, .m = static_cast<int32_t>(m)}, record);', self.wrappers())
        self.assertIn('D({.n = 3}, record);', self.wrappers())

    def test_values_that_a_decoder_gets(self):
        """Each type of the GPU libraries: (in the wrapper, to the decoder)."""
        for kind, (declared, decoded) in {
            'int32': ('int64_t v', 'static_cast<int32_t>(v)'),
            'uint32': ('int64_t v', 'static_cast<uint32_t>(v)'),
            'int64': ('int64_t v', 'v'),
            'size': ('uint64_t v', 'v'),
            'code': ('int64_t v', 'static_cast<int32_t>(v)'),
            'word': ('int64_t v', 'v'),
            'dim3': ('Dim3 v', 'v'),
            'struct16': ('Struct16 v', 'v'),
            'struct24': ('Struct24 v', 'v'),
            'struct32': ('Struct32 v', 'v'),
            'struct64': ('Struct64 v', 'v'),
            'struct128': ('Struct128 v', 'v'),
            'int32*': ('const int32_t* v', 'v'),
            'int64*': ('const int64_t* v', 'v'),
            'size*': ('const uint64_t* v', 'v'),
            'text': ('const char* v', 'v'),
            'ptr*': ('void** v', 'v'),
            'address': ('const void* v', 'v'),
            'address*': ('void** v', 'v'),
            'address[]': ('const void* const* v', 'v'),
        }.items():
            with self.subTest(kind):
                decoder = 'decoder d header=h function=D record=r words=0 addresses=0 fields=v '
                self.run_on(
                    f'{decoder} constants=c:bool=true ignore=-\n' + TRACKED + f'c void x({kind} v) @decode(d)\n'
                )
                self.assertIn(f'void DLHOOK_BODY(x)({declared}) {{', self.wrappers())
                self.assertIn(f'.v = {decoded}}}, record);', self.wrappers())


class ArgumentsTest(TableTest):
    """The structs that decoders and trackers take."""

    def test_members(self):
        decoder = (
            'decoder d header=h function=DecodeIt record=r words=0 addresses=0 context=real\n'
            '  fields=m,trans?=N,type?=-1,flags?,absent? constants=on:bool=true ignore=*\n'
            'tracker t header=h function=TrackIt fields=m,out?\n'
        )
        code, errors = self.run_on(
            decoder + HEAD + 'c status x(int m, enum trans, ptr flags) @decode(d)\n'
            'fortran void y(int* m, char* trans, code type, ptr[] flags) @decode(d)\nc void z(int m, ptr* out) @track(t)\n'
        )
        self.assertEqual((code, errors), (0, ''))
        self.assertIn(
            """struct ItArgs {
  bool on = true;
  int64_t m{};
  char trans = 'N';
  int32_t type = -1;
  const void* flags{};
  void** out{};
  const void* real{};
  int32_t status{};
""",
            self.output('hook_arguments.h'),
        )
        self.assertIn('DecodeIt({.on = true, .m = static_cast<int32_t>(m), .trans = CblasOption(trans), .flags = flags, .real', self.wrappers())

    def test_types_that_do_not_fit(self):
        decoder = 'decoder d header=h function=DecodeIt record=r words=0 addresses=0 fields=v constants=c:bool=true ignore=-\n'
        code, errors = self.run_on(decoder + HEAD + 'c void x(int v) @decode(d)\nc void y(ptr v) @decode(d)\n')
        self.assertEqual(code, 2)
        self.assertIn('ItArgs.v: found the types const void*, int64_t, expected one', errors)

    def test_bad_field(self):
        self.assert_error('tracker t header=h function=TrackIt fields=m?N\n', 1, "found field 'm?N', expected NAME[?][=DEFAULT]")


class DriverVariantTest(TableTest):
    def rows(self):
        return re.findall(r'\{"(\w+)", (\d+), (\d), (\d+)\},  // (\w+)', self.output('hooks.cc'))

    def test_versions_and_twins(self):
        self.generate(
            'newest 13000\nspelling ptsz i32 {} {}_ptsz\n'
            'ptsz status cuCopy_v2(ptr dst) @since(3020 7000)\n'
            'ptsz status cuCopy_v3(ptr dst) @since(12000)\n'
            'c status cuMakeWith(ptr dst) @since(11040, cuMake=12000)\n'
            'c status cuOther(ptr dst)\n'
        )
        self.assertEqual(
            self.rows(),
            [
                ('cuCopy', '3020', '0', '0', 'cuCopy_v2'),
                ('cuCopy', '12000', '0', '2', 'cuCopy_v3'),
                ('cuCopy', '7000', '1', '1', 'cuCopy_v2_ptsz'),
                ('cuCopy', '12000', '1', '3', 'cuCopy_v3_ptsz'),
                ('cuMake', '12000', '0', '4', 'cuMakeWith'),
                ('cuMakeWith', '11040', '0', '4', 'cuMakeWith'),
            ],
        )
        self.assertIn('kDriverVariantCount = 6;', self.output('hooks.cc'))
        self.assertIn('kNewestDriverVersion = 13000;', self.output('hooks.cc'))

    def test_none(self):
        self.generate('c void x(int m)\n')
        self.assertEqual(self.rows(), [])
        self.assertIn('kDriverVariantCount = 0;', self.output('hooks.cc'))


if __name__ == '__main__':
    table_case.main()
