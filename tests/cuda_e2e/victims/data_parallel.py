"""A rank of two: products on one stream, each with a concurrent all-reduce on another one. All sizes differ, so there
are no steps.

Usage: data_parallel.py RANK [STEP]: STEP is where it stops for ever. The fakes of CUDA 13 are on the loader's path.
"""

import ctypes
import sys
import time

STEPS = 5


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


def main():
    rank = int(sys.argv[1])
    cudart, cublas, nccl = (ctypes.CDLL(name) for name in ("libcudart.so.13", "libcublas.so.13", "libnccl.so.2"))
    memory, handle, compute, side, communicator = (ctypes.c_void_p() for _ in range(5))
    one, unique = ctypes.c_float(1), UniqueId()
    cudart.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(64 << 20))
    for stream in (compute, side):
        cudart.cudaStreamCreate(ctypes.byref(stream))
    cublas.cublasCreate_v2(ctypes.byref(handle))
    cublas.cublasSetStream_v2(handle, compute)
    nccl.ncclGetUniqueId(ctypes.byref(unique))
    nccl.ncclCommInitRank(ctypes.byref(communicator), 2, unique, rank)
    for step in range(STEPS):
        if sys.argv[2:] == [str(step)]:
            time.sleep(1000)
        size = 512 + 64 * step + 16 * rank
        cublas.cublasSgemm_v2(handle, 0, 0, size, size, size, ctypes.byref(one), memory, size, memory, size,
                              ctypes.byref(one), memory, size)
        nccl.ncclAllReduce(memory, ctypes.c_void_p(memory.value + (32 << 20)), ctypes.c_size_t(100000 * (step + 1)), 7,
                           0, communicator, side)
    cudart.cudaDeviceSynchronize()


if __name__ == "__main__":
    main()
