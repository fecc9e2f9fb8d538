"""A user of torch.backends.mkldnn.verbose. Prints with Python, with C's stdio (unflushed) and with write(2), so that
the order on a pipe shows when C's stdio was flushed."""

import ctypes
import os

import torch
from torch.backends import mkldnn

torch.set_num_threads(1)
libc = ctypes.CDLL(None)
layer, images = torch.nn.Conv2d(3, 16, 3), torch.randn(2, 3, 16, 16)


def work(name):
    libc.printf(b"stdio before %s\n", name.encode())
    with torch.no_grad():
        layer(images)
    os.write(1, f"write after {name}\n".encode())


work("start")
with mkldnn.verbose(mkldnn.VERBOSE_ON):
    work("block 1")
    print("python in block 1", flush=True)
work("between")
with mkldnn.verbose(mkldnn.VERBOSE_ON_CREATION):
    work("block 2")
with mkldnn.verbose(mkldnn.VERBOSE_OFF):
    work("block off")
work("end")
print("python at the end")
