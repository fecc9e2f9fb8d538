"""Calls a product from every kind of place a program has, and writes where it stood: argv[1] is the file for that, argv[2] the library.

A line for each call: thread id, process id and the frames, innermost first, as traceback.extract_stack() gives them.
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


def note(stack):
    frames = [(f.filename, f.name, f.lineno or 0) for f in reversed(stack)]
    with LOCK:
        WITNESS.write(json.dumps([threading.get_native_id(), os.getpid(), frames]) + "\n")


def call():
    note(traceback.extract_stack()), LIBRARY.cblas_dger(101, 1, 1, ONE, A, 1, A, 1, B, 1)


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
    for i in range(20):  # the same addresses again and again
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
    libc = ctypes.CDLL(None)
    libc.qsort(A, 2, 8, compare(lambda *_: call() or 0))


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
