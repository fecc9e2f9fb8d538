"""Calls a product from Python called by C called by Python …: argv[1] is the library, each further word a way in,
outermost first, such as "qsort,plain,lfind". Prints nothing."""

import ctypes
import functools
import sys

LIBRARY = ctypes.CDLL(sys.argv[1])
C = ctypes.CDLL(None)
ONE = ctypes.c_double(1.0)
A = (ctypes.c_double * 4)(1, 2, 3, 4)
B = (ctypes.c_double * 4)()
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def call():
    LIBRARY.cblas_dger(101, 1, 1, ONE, A, 1, A, 1, B, 1)
    return 0


def down(ways):
    return globals()["by_" + ways[0]](ways[1:]) if ways else call()


def by_plain(ways):
    down(ways)


def by_sorted(ways):
    sorted([1], key=lambda _: down(ways))


def by_partial(ways):
    list(map(functools.partial(down, ways), ()))
    functools.partial(down, ways)()


def by_generator(ways):
    list(down(ways) for _ in range(1))


def by_class(ways):
    class Made:
        def __init__(self):
            down(ways)
    Made()


def by_slot(ways):
    class Number:
        def __add__(self, other):
            return down(ways)
    Number() + 1


def by_qsort(ways):
    C.qsort(A, 2, 8, COMPARE(lambda *_: down(ways) or 0))


def by_bsearch(ways):
    C.bsearch(A, A, 1, 8, COMPARE(lambda *_: down(ways) or 0))


def by_lfind(ways):
    C.lfind(A, A, (ctypes.c_size_t * 1)(1), 8, COMPARE(lambda *_: down(ways) or 0))


for way in sys.argv[2:]:
    down(way.split(","))
