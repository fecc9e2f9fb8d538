"""The tables against the headers inside the nvidia-* wheels: cuBLAS, cuDNN, NCCL, cuFFT, cuSPARSE, cuSOLVER, NVRTC, cuRAND,
cuFile, NVSHMEM, cuTENSOR, cuDSS.

Run: python3 tests/scripts/wheel_headers_test.py. DLHOOK_NVIDIA_INCLUDE: folders of headers, separated by colons; without
it those of the wheels in build/venv-nvidia. DLHOOK_CUDA_INCLUDE: the toolkit's, which some of them include.
"""

import glob
import os

import table_case
from header_case import HeaderTest
from table_case import ROOT

DEFAULT = f'{ROOT}/build/venv-nvidia/lib/python3*/site-packages/nvidia/*/include'
CUDA = os.environ.get('DLHOOK_CUDA_INCLUDE') or '/usr/local/cuda/include'
FOLDERS = [
    folder
    for folder in os.environ.get('DLHOOK_NVIDIA_INCLUDE', '').split(':') or []
    if folder
] or sorted(glob.glob(DEFAULT))
# The wheels' own first; the toolkit's are for headers that the wheels lack (cuda_runtime.h without
# nvidia-cuda-runtime).
FLAGS = [f'-I{folder}' for folder in FOLDERS] + [f'-idirafter{CUDA}']


class WheelHeadersTest(HeaderTest):
    def setUp(self):
        super().setUp()
        if not FOLDERS:
            self.skipTest('no headers of nvidia-* wheels: set DLHOOK_NVIDIA_INCLUDE')

    def check(self, library, *headers, old=None, new=None):
        self.check_library(library, headers, FLAGS, old=old, new=new)

    def test_cublas(self):
        # The overloads for the types of CUDA 10; their _64 twins, of the same lines, are checked.
        self.check('cublas', 'cublas_api.h', old='cublasGemm(Batched|StridedBatched)?Ex')

    def test_cublaslt(self):
        self.check('cublaslt', 'cublasLt.h', new='cublasLt(.*ForStream|Grouped.*)')

    def test_cudnn(self):
        until_8 = (
            'cudnn(GetConvolution(Forward|BackwardData|BackwardFilter)Algorithm|FindRNN.*|RNN(Forward|Backward)(Inference|'
            'Training|Data|Weights)(Ex)?|RNN[SG]etClip|.*PersistentRNNPlan|[SG]etRNN(Descriptor(_v[56])?|ProjectionLayers|'
            'AlgorithmDescriptor|MatrixMathType|LinLayer.*|PaddingMode|BiasMode|WorkspaceSize|TrainingReserveSize|'
            'ParamsSize))'
        )
        self.check('cudnn', 'cudnn.h', old=until_8, new='cudnn((Long)?FFTCausalConv1d|GnnAgg).*')

    def test_nccl(self):
        self.check('nccl', 'nccl.h', new='nccl(.(?!nit))*Config')

    def test_cufft(self):
        self.check('cufft', 'cufft.h', 'cufftXt.h')

    def test_cusparse(self):
        self.check('cusparse', 'cusparse.h')

    def test_cusparselt(self):
        self.check('cusparselt', 'cusparseLt.h')

    def test_cusolver(self):
        self.check('cusolver', 'cusolverDn.h', 'cusolverSp.h')

    def test_cutensor(self):
        self.check('cutensor', 'cutensor.h')

    def test_cudss(self):
        self.check('cudss', 'cudss.h')

    def test_nvrtc(self):
        self.check('nvrtc', 'nvrtc.h', old='nvrtcGetNVVM')  # until CUDA 12

    def test_curand(self):
        self.check('curand', 'curand.h')

    def test_cufile(self):
        self.check('cufile', 'cufile.h')

    def test_nvshmem(self):
        self.check('nvshmem', 'nvshmem_host.h')


if __name__ == '__main__':
    table_case.main()
