"""The tables in preload/api: facts on which the rest of dlhook depends, and the exports of installed libraries.

Run: python3 tests/scripts/tables_test.py. DLHOOK_TEST_LIBRARIES: further folders with BLAS libraries.
"""

import collections
import glob
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import table_case
from table_case import TABLES

import api_tables


def exported_names(path):
    symbols = subprocess.run(
        ['nm', '-D', '--defined-only', path], capture_output=True, text=True, check=True
    ).stdout
    return {line.split()[-1].split('@')[0] for line in symbols.splitlines()}


# Level 3 and the tables' part of level 2, in any spelling; not the kernels that OpenBLAS exports (sgemm_nt …).
BLAS_NAME = re.compile(
    r'(scipy_)?((cblas_)[sdcz]|[sdcz])(gemm|gemm3m|gemmtr?|symm|hemm|syrk|herk|syr2k|her2k|trmm|trsm|'
    r'gemv|ger|geru|gerc|gemm_batch|gemm_batch_strided)(?(3)(64_|_64)?|(_|_64_|_64))'
)


@unittest.skipUnless(shutil.which('nm'), 'no nm')
class LibraryTest(unittest.TestCase):
    """Every BLAS function that an installed library exports is hooked, under each of its names."""

    def check(self, path):
        exported = exported_names(path)
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
    """Facts on which the rest of dlhook depends."""

    def setUp(self):
        self.api = api_tables.TableReader().read(TABLES)

    def test_families(self):
        self.assertEqual(
            list(self.api.families)[:11],
            'blas blas2 pack onednn cuda_copy cuda_memory cuda_launch cuda_sync cuda_stream cuda_graph '
            'cuda_noise'.split(),
        )
        off = [family for family, default in self.api.families.items() if not default]
        self.assertEqual(off, ['cuda_noise', 'cublaslt_setup', 'cudnn_setup'])

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
            for name, hook in self.api.hooks.items()
            if hook.library == 'blas'
            and not name.startswith(('cblas_', 'scipy_cblas_')) and not name.endswith(('_', '_64'))
        ]
        self.assertEqual(bare, [])

    def test_every_decoded_line_states_its_types(self):
        for hook in self.api.hooks.values():
            for key, value in hook.constants if hook.library == 'blas' else ():
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

    def test_gpu_names_that_frameworks_call(self):
        # libtorch_cuda.so and libc10_cuda.so 2.14.1, XLA's stubs, cudnn-frontend, Caffe.
        for name in (
            'cudaMemcpyAsync cudaMemcpyAsync_ptsz cudaMemcpy_ptds cudaLaunchKernel cudaLaunchKernelExC __cudaLaunchKernel '
            '__cudaRegisterFunction cudaGraphLaunch cudaHostAlloc cudaMallocAsync cuMemcpyHtoDAsync_v2 '
            'cuMemcpyHtoDAsync_v2_ptsz cuLaunchKernel cuLaunchKernelEx cuGetProcAddress_v2 cublasSgemm_v2 '
            'cublasSgemm_v2_64 cublasGemmEx cublasGemmStridedBatchedEx cublasLtMatmul cublasLtMatmulAlgoGetHeuristic '
            'cublasLtMatmulDescSetAttribute cudnnConvolutionForward cudnnGetConvolutionForwardAlgorithm '
            'cudnnFindConvolutionForwardAlgorithmEx cudnnGetConvolutionForwardAlgorithm_v7 cudnnRNNForwardTraining '
            'cudnnRNNForward cudnnBackendExecute cudnnBackendSetAttribute cudnnBackendFinalize ncclAllReduce '
            'ncclCommInitRankConfig cufftExecC2C cufftXtExec cusparseSpMM cusparseLtMatmul cusolverDnXsyevd '
            'nvrtcCompileProgram MPI_Allreduce'
        ).split():
            self.assertIn(name, self.api.hooks)

    def test_status(self):
        """Functions that can fail have their status in the record."""
        for hook in self.api.hooks.values():
            if hook.library in GPU_LIBRARIES and hook.returns != 'status':
                self.assertRegex(hook.symbol, '^__cuda', hook.place)

    def test_sonames(self):
        for library, sonames in GPU_LIBRARIES.items():
            for name in sonames.split():
                self.assertIn(name, self.api.sonames[library, 'i32'])


# Their names by major version: CUDA 11, 12, 13; cuDNN 7, 8, 9.
GPU_LIBRARIES = {
    'cudart': 'libcudart.so.11.0 libcudart.so.12 libcudart.so.13',
    'cuda': 'libcuda.so.1',
    'cublas': 'libcublas.so.11 libcublas.so.12 libcublas.so.13',
    'cublaslt': 'libcublasLt.so.11 libcublasLt.so.12 libcublasLt.so.13',
    'cudnn': 'libcudnn.so.7 libcudnn.so.8 libcudnn.so.9',
    'nccl': 'libnccl.so.2',
    'cufft': 'libcufft.so.10 libcufft.so.11 libcufft.so.12',
    'cusparse': 'libcusparse.so.11 libcusparse.so.12',
    'cusparselt': 'libcusparseLt.so.0',
    'cusolver': 'libcusolver.so.11 libcusolver.so.12',
    'curand': 'libcurand.so.10',
    'nvrtc': 'libnvrtc.so.11.2 libnvrtc.so.12 libnvrtc.so.13',
}


class CudaRuntimeTest(unittest.TestCase):
    """Against the libcudart of an installed toolkit."""

    def setUp(self):
        paths = glob.glob(os.environ.get('DLHOOK_CUDA_LIBRARY', '/usr/local/cuda/lib64/libcudart.so.1?'))
        if not paths or not shutil.which('nm'):
            self.skipTest('no libcudart of a CUDA toolkit')
        self.exported = exported_names(paths[0])
        self.hooked = set(api_tables.TableReader().read(TABLES).hooks)

    def test_every_copy_and_launch_is_hooked(self):
        wanted = re.compile(
            r'(cudaMem(cpy|set)|cudaMalloc|cudaFree|cudaHost(Alloc|Register|Unregister)|(__)?cudaLaunch|'
            r'cuda(Device|Stream|Event)Synchronize|cudaEventRecord|cudaGraph(Launch|Instantiate|Upload)|'
            r'cudaStream(Begin|End)Capture|cudaGetDriverEntryPoint)\w*'
        )
        found = {name for name in self.exported if wanted.fullmatch(name)}
        self.assertGreater(len(found), 100)
        self.assertEqual(found - self.hooked, set())

    def test_hooked_functions_have_their_twins(self):
        twins = {
            name
            for name in self.exported
            if name.endswith(('_ptsz', '_ptds')) and name[:-5] in self.hooked
        }
        self.assertEqual(twins - self.hooked, set())


class DriverVersionTest(unittest.TestCase):
    """@since against cudaTypedefs.h, whose PFN_name_vVERSION are the functions returned by cuGetProcAddress."""

    def setUp(self):
        header = pathlib.Path(os.environ.get('DLHOOK_CUDA_INCLUDE', '/usr/local/cuda/include')) / 'cudaTypedefs.h'
        if not header.exists():
            self.skipTest('no cudaTypedefs.h of a CUDA toolkit')
        self.typedefs = collections.defaultdict(set)
        pattern = r'\*PFN_(cu\w+?)_v(\d+)(_pt[sd][sz])?\)'
        profiler = header.with_name('cudaProfilerTypedefs.h')
        for base, version, twin in re.findall(pattern, header.read_text() + profiler.read_text()):
            self.typedefs[base, bool(twin)].add(int(version))
        self.newest = int(re.search(r'#define CUDA_VERSION (\d+)', (header.parent / 'cuda.h').read_text())[1])
        self.variants = api_tables.TableReader().read(TABLES).variants

    def test_every_later_variant_is_there(self):
        """Otherwise a request for it would be answered with a wrapper with an older argument list."""
        ours = collections.defaultdict(set)
        for variant in self.variants.values():
            if variant.since <= self.newest:
                ours[variant.base, variant.per_thread].add(variant.since)
        ours['cuGraphInstantiate', False].remove(12000)  # a #define in cuda.h, not a typedef
        self.assertGreater(len(ours), 200)
        for key, versions in ours.items():
            known = {version for version in self.typedefs[key] if version >= min(versions)}
            self.assertEqual(versions, known, key)

    def test_every_twin_is_there(self):
        ours = {variant.base for variant in self.variants.values() if variant.since <= self.newest}
        with_twin = {base for base, per_thread in self.typedefs if per_thread and base in ours}
        self.assertEqual(
            with_twin, {variant.base for variant in self.variants.values() if variant.per_thread and variant.base in ours}
        )

    def test_order_of_suffixes(self):
        """For one name, _v3 is returned for later versions than _v2."""
        by_name = collections.defaultdict(list)
        for (base, per_thread, _since), variant in sorted(self.variants.items()):
            suffix = re.search(r'_v(\d+)', variant.symbol)
            if base != 'cuGraphInstantiate':
                by_name[base, per_thread].append(int(suffix[1]) if suffix else 1)
        for key, suffixes in by_name.items():
            self.assertEqual(suffixes, sorted(set(suffixes)), key)


if __name__ == '__main__':
    table_case.main()
