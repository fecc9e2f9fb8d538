"""Calls products from modules, in the main thread and in others while the main thread waits. argv: library, and how many models
come before one that lasts.

Prints the names that the modules have, in the order of the calls of each thread: "thread number, name, name …".
"""

import ctypes
import gc
import os
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch.nn.modules.module import Module

LIBRARY = ctypes.CDLL(sys.argv[1])
ONE = ctypes.c_double(1.0)
A = (ctypes.c_double * 4)(1, 2, 3, 4)


class Leaf(Module):
    names = None

    def forward(self):
        lines.append(" ".join([str(threading.get_native_id()), *self.names]))
        LIBRARY.cblas_dger(101, 1, 1, ONE, A, 1, A, 1, (ctypes.c_double * 4)(), 1)




class Block(Module):
    def forward(self):
        for module in self._modules.values():
            if module is not None:
                module()


class Evil(Block):
    """Attributes that could disturb a reader."""

    def __getattr__(self, name):
        raise RuntimeError("__getattr__")

    def named_modules(self):
        raise RuntimeError("named_modules")

    def __eq__(self, other):
        raise RuntimeError("__eq__")

    __hash__ = None


def leaf(*names):
    made = Leaf()
    made.names = names
    return made


def build(kind=Block):
    shared = leaf("größe.first", "again")
    loop = kind()
    loop.add(**{"größe": Block().add(first=shared, nothing=None), "again": shared})
    loop.add(evil=Evil().add(x=leaf("evil.x")))
    return loop


def run(times):
    for _ in range(times):
        build()()
    kept = build()
    for _ in range(times):
        kept()


lines = []
if len(sys.argv) > 2:
    for _ in range(int(sys.argv[2])):
        build()()
    lasting = build()
    for _ in range(20):
        lasting()
        time.sleep(0.05)
else:
    run(20)
thread = threading.Thread(target=run, args=(3,))
thread.start()
thread.join()
gc.collect()
assert sys.exc_info() == (None, None, None) and gc.isenabled()
print("\n".join(lines))
