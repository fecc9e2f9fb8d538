"""Forks; the child calls BLAS until a timer ends it by os._exit. os_exit.py MICROSECONDS COUNTERS (layout: killed.c)"""

import ctypes
import mmap
import os
import struct
import sys
import threading
import time

delay, path = int(sys.argv[1]) / 1e6, sys.argv[2]
blas = ctypes.CDLL("libopenblas.so.0")
gemm = blas.cblas_sgemm
gemm.argtypes = ([ctypes.c_int] * 6 + [ctypes.c_float] + [ctypes.c_void_p, ctypes.c_int] * 2
                 + [ctypes.c_float, ctypes.c_void_p, ctypes.c_int])
gemm.restype = None
buffer = (ctypes.c_float * (40 * 40))()
address = ctypes.addressof(buffer)


def call():
    gemm(101, 111, 112, 40, 40, 40, 1.0, address, 40, address, 40, 0.0, address, 40)


call()  # the parent has a trace, rings and possibly its own writer when it forks
with open(path, "w+b") as file:
    file.truncate(4096)
    counters = mmap.mmap(file.fileno(), 4096)
child = os.fork()
if child == 0:
    def leave():
        time.sleep(delay)
        os._exit(0)
    threading.Thread(target=leave).start()
    struct.pack_into("<q", counters, 0, threading.get_native_id())
    for completed in range(1, 1 << 40):
        call()
        struct.pack_into("<q", counters, 8, completed)
_, status = os.waitpid(child, 0)
call()
sys.exit(os.waitstatus_to_exitcode(status))
