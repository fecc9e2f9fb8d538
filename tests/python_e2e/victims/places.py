"""Calls a product from every kind of place in a program, and writes that place: argv[1] is the file for that, argv[2]
the library.

A line for each call: thread id, process id, the frames, innermost first, from traceback.extract_stack(), and how many
calls of the interpreter's own loop the C library's backtrace() shows around it.
"""

import asyncio
import ctypes
import functools
import json
import os
import sys
import threading
import traceback

LIBRARY = ctypes.CDLL(sys.argv[2])
ONE = ctypes.c_double(1.0)
A = (ctypes.c_double * 4)(1, 2, 3, 4)
B = (ctypes.c_double * 4)()
WITNESS = open(sys.argv[1], "a", buffering=1)
LOCK = threading.Lock()
C = ctypes.CDLL(None)
ROOM = 16384
LOOPS = {}  # address -> whether it is in the interpreter's loop


class SymbolInfo(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def is_loop(address):
    if address not in LOOPS:
        found = SymbolInfo()
        C.dladdr(ctypes.c_void_p(address - 1), ctypes.byref(found))
        LOOPS[address] = found.name == b"_PyEval_EvalFrameDefault"
    return LOOPS[address]


def note(stack, addresses, count):
    frames = [(f.filename, f.name, f.lineno or 0) for f in reversed(stack)]
    loops = sum(is_loop(address) for address in addresses[:count])
    with LOCK:
        WITNESS.write(json.dumps([threading.get_native_id(), os.getpid(), frames, loops]) + "\n")


def call():
    note(traceback.extract_stack(), (at := (ctypes.c_void_p * ROOM)()), C.backtrace(at, ROOM)), LIBRARY.cblas_dger(101, 1, 1, ONE, A, 1, A, 1, B, 1)


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper


class Place:
    call()  # class body

    @decorated
    def method(self):
        (lambda: call())()

    @property
    def value(self):
        return [call()
                for _ in range(2)]

    def __del__(self):
        call()


def generator(depth):
    call()
    yield 1
    if depth:
        yield from generator(depth - 1)
    call()


async def coroutine(depth):
    call()
    await asyncio.sleep(0)
    if depth:
        await asyncio.gather(coroutine(depth - 1), coroutine(depth - 1))
    async for _ in numbers():
        call()


async def numbers():
    for i in range(2):
        call()
        await asyncio.sleep(0)
        yield i


def recursion(depth):
    if depth == 0:
        return call()
    return recursion(depth - 1)


def with_exceptions():
    try:
        try:
            raise ValueError(
                call())
        except ValueError:
            call()
            raise KeyError
        finally:
            call()
    except KeyError:
        with open(os.devnull):
            call()


def generated():
    for i in range(20):  # the same addresses repeatedly
        exec(compile("\n" * i + "call()", f"<generated {i}>", "exec"), {"call": call})
        scope = {"call": call}
        exec(f"def f{i}(x):\n" + "\n" * (i % 3) + "    return call()\n", scope)
        scope[f"f{i}"](1)
    eval("call()")


def größe():
    call()


def callbacks():
    sorted([2, 1], key=lambda x: call() or x)
    list(map(lambda _: call(), [1]))
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    C.qsort(A, 2, 8, compare(lambda *_: call() or 0))


class Slots:
    """Each way in goes one level deeper."""

    def __init__(self, depth):
        self.depth = depth

    def __call__(self):
        return chain(self.depth)

    def __add__(self, other):
        return chain(self.depth)

    def __iter__(self):
        yield chain(self.depth)

    def __getattr__(self, name):
        return chain(self.depth)

    def __enter__(self):
        return chain(self.depth)

    def __exit__(self, *_):
        pass

    def __lt__(self, other):
        chain(self.depth)
        return False


class Made:
    def __init__(self, depth):
        chain(depth)


def deeper(depth):
    """Python to Python, and through each kind of C between."""
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda *_: chain(depth))
    yield lambda: chain(depth)
    yield lambda: sorted([1], key=lambda _: chain(depth))
    yield functools.partial(chain, depth)
    yield lambda: list(map(chain, [depth]))
    yield lambda: C.qsort(A, 2, 8, callback)
    yield lambda: next(chain(depth) for _ in range(1))
    yield Slots(depth)
    yield lambda: Slots(depth) + 1
    yield lambda: next(iter(Slots(depth)))
    yield lambda: Slots(depth).missing
    yield lambda: Made(depth)
    yield lambda: max(Slots(depth), Slots(0))
    yield lambda: functools.reduce(lambda *_: chain(depth), [1, 2])
    yield lambda: exec("chain(depth)", {"chain": chain, "depth": depth})


def chain(depth):
    call()
    for way in deeper(depth - 1) if depth else ():
        way()
    with Slots(0) if depth else open(os.devnull):
        pass
    return 0


def threads():
    def work():
        for _ in range(3):
            call()
            recursion(2)
    started = [threading.Thread(target=work) for _ in range(3)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def main():
    place = Place()
    place.method()
    place.value
    list(generator(2))
    asyncio.run(coroutine(2))
    for depth in (1, 5, 40):
        recursion(depth)
    with_exceptions()
    generated()
    größe()
    callbacks()
    chain(2)
    threads()
    child = os.fork()
    if child == 0:
        größe()
        recursion(1)
        os._exit(0)
    os.waitpid(child, 0)
    del place
    sys.setrecursionlimit(3000)
    recursion(1000)


main()
