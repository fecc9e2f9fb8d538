"""The tables against the installed headers: BLAS, the CUDA toolkit, MPI. Missing ones are reported as skipped.

Run: python3 tests/scripts/headers_test.py. DLHOOK_CUDA_INCLUDE: the toolkit's, default /usr/local/cuda/include.
"""

import glob
import os
import pathlib
import re
import unittest

import table_case
from header_case import HeaderTest
from table_case import COMPILER, HEAD, ROOT, TABLES, run

import api_tables
import api_types

CUDA = pathlib.Path(os.environ.get('DLHOOK_CUDA_INCLUDE') or '/usr/local/cuda/include')


class BlasHeadersTest(HeaderTest):
    def check(self, header, least):
        found = self.conforming(header, TABLES)
        if found is None:
            self.skipTest(f'no {header}')
        self.assertGreaterEqual(len(found), least)

    def test_cblas(self):
        self.check('cblas.h', 40)

    def test_openblas_fortran(self):
        self.check('f77blas.h', 40)

    def test_mkl_cblas(self):
        self.check('mkl_cblas.h', 80)

    def test_mkl_blas(self):
        self.check('mkl_blas.h', 80)


class ToolkitHeadersTest(HeaderTest):
    """cudart and the driver, with and without the per-thread default stream; functions declared by the compiler's own
    headers."""

    OWN_STREAM = ((), ('-DCUDA_API_PER_THREAD_DEFAULT_STREAM',))

    def setUp(self):
        super().setUp()
        if not (CUDA / 'cuda_runtime_api.h').exists():
            self.skipTest('no CUDA toolkit')
        self.flags = [f'-I{CUDA}']

    def test_runtime(self):
        until_12 = (
            r'cuda(GetDeviceProperties_v2|LaunchCooperativeKernelMultiDevice|StreamGetCaptureInfo_v[23](_ptsz)?|'
            r'Thread(Exit|Synchronize))'
        )
        self.check_library(
            'cudart',
            ['cuda_runtime_api.h', 'cuda_profiler_api.h'],
            self.flags,
            self.OWN_STREAM,
            old=rf'{until_12}|__cuda\w+',
            new='cuda(ExecutionCtx.*|GreenCtxCreate|GraphConditionalHandleCreate_v2|.*WithAttributesAsync.*|LaunchHostFunc_v2.*|StreamBeginRecaptureToGraph.*)',
        )

    def test_driver(self):
        self.check_library(
            'cuda',
            ['cuda.h', 'cudaProfiler.h'],
            self.flags,
            (*self.OWN_STREAM, ('-D__CUDA_API_VERSION_INTERNAL',)),
            new='cu(.*WithAttributesAsync.*|LaunchHostFunc_v2.*|StreamBeginRecaptureToGraph.*|FabricCpyBatchAsync.*|'
            'GraphAddNode_v3)',
        )

    def test_what_the_compiler_calls(self):
        """__cudaLaunchKernel and its variants are in headers that only nvcc can read: their declarations alone."""
        text = ''.join(path.read_text() for path in sorted((CUDA / 'crt').glob('*.h')))
        declared = re.findall(
            r'(\w+(?: ?\*)*)\s+(__cuda\w+)\s*\(([^(){};#]*)\)\s*;', text.replace('CUDARTAPI', '')
        )
        lines = [
            f'{returns} {name}({parameters});'
            for returns, name, parameters in declared
            if returns != 'return'
        ]
        (self.folder / 'compiler.h').write_text(
            '\n'.join(['#include <cuda_runtime_api.h>', 'extern "C" {', *lines, '}', ''])
        )
        tables = [table for table in TABLES if table.endswith(('/common.api', '/cudart.api'))]
        found = self.conforming('compiler.h', tables, [*self.flags, f'-I{self.folder}'])
        hooks = api_tables.TableReader().read(tables).hooks
        self.assertEqual({name for name in hooks if name.startswith('__')} - found, set())


class CallbackIdsTest(unittest.TestCase):
    """The ranges of CUPTI's callback numbers for calls that are joined to their work, against its headers."""

    WORK = re.compile(r'(__)?cu(da|64)?(Launch(?!HostFunc)|Mem(cpy|set(?!Access|MemPool))|GraphLaunch|MemBatchDecompress)')

    def test_all_that_makes_work_and_nothing_else(self):
        source = (pathlib.Path(ROOT) / 'preload/gpu/cupti_callbacks.cc').read_text()
        ranges = re.findall(r'\{cupti::kDomain(\w+), (\d+), (\d+)\}', source)
        self.assertGreater(len(ranges), 30)
        for domain in ('Driver', 'Runtime'):
            header = CUDA / f'cupti_{domain.lower()}_cbid.h'
            if not header.exists():
                self.skipTest('no headers of CUPTI')
            numbers = {number for of, first, last in ranges if of == domain for number in range(int(first), int(last) + 1)}
            names = re.findall(rf'CUPTI_{domain.upper()}_TRACE_CBID_(\w+)\s*=\s*(\d+)', header.read_text())
            work = {int(number): name for name, number in names if self.WORK.match(name)}
            self.assertGreater(len(work), 70)
            self.assertEqual({work[number] for number in set(work) - numbers}, set())
            others = {name for name, number in names if int(number) in numbers - set(work)}
            self.assertEqual({name for name in others if not re.match(r'cu(da)?(Mem|\d+)', name)}, set())


class MpiHeadersTest(HeaderTest):
    """Open MPI and MPICH: their handles are of different kinds."""

    FLAGS = ['-DOMPI_SKIP_MPICXX', '-DMPICH_SKIP_MPICXX']

    def test_each_implementation(self):
        places = glob.glob('/usr/lib/*-linux-gnu/*mpi*/include') + glob.glob('/usr/include/*mpi*')
        places = [place for place in places if os.path.exists(f'{place}/mpi.h')]
        if not places:
            self.skipTest('no mpi.h')
        for place in places:
            with self.subTest(place):
                # _c: MPI 4, which Open MPI 4 is not.
                self.check_library('mpi', ['mpi.h'], [f'-I{place}', *self.FLAGS], old=r'MPI_\w+_c')


class CheckTest(HeaderTest):
    """The check itself: wrong lines do not compile."""

    def assert_conforms(self, declaration, cases):
        (self.folder / 'vendor.h').write_text(declaration)
        for line, conforms in cases.items():
            self.generate(line + '\n', '--abi', str(self.folder / 'vendor.h'), '--cc', COMPILER)
            self.assertEqual(self.compiles([]).returncode == 0, conforms, line)

    def test_blas(self):
        self.assert_conforms(
            'typedef enum { A } E;\nextern "C" void cblas_x(E order, int m, float alpha, const int* l);\n',
            {
                'cblas void x(enum order, int m, float alpha, int[] l)': True,
                'cblas void x(enum order, short m, float alpha, int[] l)': False,
                'cblas void x(enum order, int m, double alpha, int[] l)': False,
                'cblas void x(enum order, int m, ptr alpha, int[] l)': False,
                'cblas void x(enum order, int m, float alpha, ptr[] l)': False,
                'cblas void x(enum order, int m, float alpha, char[] l)': False,
                'cblas void x(enum order, int m, float alpha)': False,
                'cblas void x(enum order, int m, float alpha, int[] l, int n)': False,
                'cblas size_t x(enum order, int m, float alpha, int[] l)': False,
            },
        )

    def test_types_of_the_gpu_libraries(self):
        """One parameter each: the matching types, of all types."""
        parameters = {
            'int v': 'int int32 uint32 enum option code word',
            'unsigned v': 'int int32 uint32 enum option code word',
            'E v': 'int int32 uint32 enum option code word',
            'long v': 'int64 size word address',
            'unsigned long long v': 'int64 size word address',
            'Pair v': 'int64 size word',
            'Complex v': '',
            'DoubleComplex v': '',
            'Dim v': 'dim3',
            'Bytes<16> v': 'struct16',
            'Bytes<24> v': 'struct24',
            'Bytes<32> v': 'struct32',
            'Bytes<64> v': 'struct64',
            'Bytes<128> v': 'struct128',
            'Bytes<136> v': '',
            'Opaque* v': 'ptr word address',
            'void (*v)(int)': 'ptr word address',
            'void** v': 'ptr* ptr[] word address address* address[]',
            'const char* v': 'ptr text char* char[] word address',
            'int* v': 'ptr int* int[] enum[] int32* word address',
            'long* v': 'ptr int64* size* word address address* address[]',
            'unsigned char v': 'byte word',
            'short v': 'short word',
        }
        kinds = [kind for kind in api_types.TYPES if kind not in ('float', 'double')]
        lines = [
            '#include <cstdio>\n#include "tests/scripts/abi_match.h"',
            'enum E { A };\nstruct Opaque;\nstruct Pair { E e; int i; };\nstruct Complex { float x, y; };',
            'struct DoubleComplex { double x, y; };\ntemplate <int n> struct Bytes { char bytes[n]; };',
            'struct Dim { unsigned x, y, z; Dim(unsigned a = 1, unsigned b = 1) : x(a), y(b), z(1) {} };',
            'using namespace dlhook_abi;\nint main() {',
        ]
        for number, parameter in enumerate(parameters):
            lines.append(f'  extern int x{number}({parameter});')
            for kind in kinds:
                tag = api_types.TYPES[kind].abi.replace('{bytes}', '4')
                lines.append(
                    f'  if (Conforms<decltype(x{number}), 0, Int<4>, {tag}>()) printf("{kind} ");'
                )
            lines.append('  puts("");')
        (self.folder / 'kinds.cc').write_text('\n'.join([*lines, '}']))
        built = run([COMPILER, '-std=c++20', '-w', f'-I{ROOT}', 'kinds.cc', '-o', 'kinds'], cwd=self.folder)
        self.assertEqual(built.returncode, 0, built.stderr[:4000])
        output = run([str(self.folder / 'kinds')]).stdout.splitlines()
        for (parameter, right), fitting in zip(parameters.items(), output, strict=True):
            self.assertEqual(set(fitting.split()), set(right.split()), parameter)

    def test_parameters_that_only_some_versions_have(self):
        self.assert_conforms(
            'extern "C" int x(void* p, int n);\n',
            {
                'c status x(ptr p, int32 n, word last) @more(1)': True,
                'c status x(ptr p, int32 n, word last, word more) @more(2)': True,
                'c status x(ptr p, int32 n, word last) @more(2)': True,
                'c status x(ptr p, int32 n, word last, word more) @more(1)': False,
                'c status x(ptr p, int64 n, word last) @more(1)': False,
                'c status x(ptr p, int32 n, word last)': False,
            },
        )

    def test_overloads_are_left_out_and_named(self):
        (self.folder / 'vendor.h').write_text(
            'extern "C" { int x(int n); int y(int n); }\nstatic inline int x(float n) { return 0; }\n'
            'template <class T> int y(T* n) { return 0; }\nextern "C" int z(int n);\n'
        )
        self.generate(
            'c status x(int32 n)\nc status y(int32 n)\nc status z(int32 n)\n',
            '--abi',
            str(self.folder / 'vendor.h'),
            '--cc',
            COMPILER,
        )
        text = self.output('abi_check.cc')
        self.assertEqual(re.findall(r'decltype\((\w+)\)', text), ['z'])
        self.assertEqual(re.findall(r'// left out, overloaded: (\w+)', text), ['x', 'y'])

    def test_a_foreign_header_is_an_error(self):
        code, errors = self.run_on(HEAD + 'cblas void x(int m)\n', '--abi', 'stdio.h', '--cc', COMPILER)
        self.assertEqual(code, 2)
        self.assertIn('declares none of the 1 hooked functions', errors)

    def test_a_missing_header_is_an_error(self):
        code, errors = self.run_on(HEAD + 'cblas void x(int m)\n', '--abi', 'absent.h', '--cc', COMPILER)
        self.assertEqual(code, 2)
        self.assertIn('could not preprocess it', errors)


if __name__ == '__main__':
    table_case.main()
