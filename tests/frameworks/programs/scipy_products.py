"""Products by SciPy's ways to BLAS: f2py, pointers for compiled callers, LAPACK. scipy_products.py ROUNDS"""

import ctypes
import sys

import numpy as np
from scipy import linalg
from scipy.linalg import blas, cython_blas


def compiled_callers_pointer(name):
    """As in numba and Cython modules: a C function pointer from a capsule, with all arguments by reference."""
    capsule = cython_blas.__pyx_capi__[name]
    ctypes.pythonapi.PyCapsule_GetName.restype = ctypes.c_char_p
    ctypes.pythonapi.PyCapsule_GetName.argtypes = [ctypes.py_object]
    ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
    ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature = ctypes.pythonapi.PyCapsule_GetName(capsule)
    address = ctypes.pythonapi.PyCapsule_GetPointer(capsule, signature)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(address)


def ones(rows, columns, kind):
    return np.ones((rows, columns), kind, order="F")


def by_pointer(sgemm, m, n, k):
    a, b, c = ones(m, k, "f4"), ones(k, n, "f4"), ones(m, n, "f4")
    m, n, k = map(ctypes.c_int, (m, n, k))
    no, one, zero = ctypes.c_char(b"N"), ctypes.c_float(1), ctypes.c_float(0)
    words = no, no, m, n, k, one, a.ctypes, m, b.ctypes, k, zero, c.ctypes, m
    sgemm(*(word.data if hasattr(word, "data") else ctypes.addressof(word) for word in words))
    return c[0, 0]


pointer = compiled_callers_pointer("sgemm")
positive = np.ones((33, 33)) + 33 * np.eye(33)
for _ in range(int(sys.argv[1])):
    single = blas.sgemm(1.0, ones(20, 30, "f4"), ones(30, 40, "f4"))
    double = blas.dgemm(1.0, ones(21, 31, "f8"), ones(41, 31, "f8"), trans_b=True)
    by_numpy = np.ones((22, 32)) @ np.ones((32, 42))
    of_pointer = by_pointer(pointer, 7, 9, 8)
    factor = linalg.cholesky(positive)
print(single[0, 0], double[0, 0], by_numpy[0, 0], of_pointer, round(factor[0, 0] ** 2))
