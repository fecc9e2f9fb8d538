"""A product before, while and after there is a second interpreter. argv[1] is the library."""

import ctypes
import sys

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

LIBRARY = ctypes.CDLL(sys.argv[1])
ONE = ctypes.c_double(1.0)
A = (ctypes.c_double * 4)(1, 2, 3, 4)
B = (ctypes.c_double * 4)()


def call():
    LIBRARY.cblas_dger(101, 1, 1, ONE, A, 1, A, 1, B, 1)


call()
second = interpreters.create()
interpreters.run_string(second, "1 + 1") if hasattr(interpreters, "run_string") else interpreters.exec(second, "1 + 1")
call()
interpreters.destroy(second)
call()
