"""Runs single GPU operations of PyTorch, each by its name: operations.py NAME…

For calls that the training of train.py does not make; equally deterministic.
"""

import sys
import time

import torch


def jiterator():
    """A kernel compiled at run time by NVRTC, launched by the driver."""
    double = torch.cuda.jiterator._create_jit_fn(  # pylint: disable=protected-access
        "template <typename T> T twice(T x) { return x + x; }"
    )
    double(torch.ones(8, device="cuda"))


def fp8():
    a = torch.zeros(32, 64, device="cuda", dtype=torch.float8_e4m3fn)
    b = torch.zeros(48, 64, device="cuda", dtype=torch.float8_e4m3fn).t()
    one = torch.ones((), device="cuda")
    rows, columns = torch.ones(32, 1, device="cuda"), torch.ones(1, 48, device="cuda")
    for scales in ((one, one), (rows, columns)):
        torch._scaled_mm(a, b, *scales, out_dtype=torch.bfloat16)  # pylint: disable=protected-access


def batched():
    a, b = torch.zeros(3, 8, 16, device="cuda"), torch.zeros(3, 16, 4, device="cuda")
    torch.bmm(a, b)
    torch.bmm(a.half(), b.half())
    torch.bmm(a.transpose(1, 2), b.new_zeros(3, 8, 5))


def gemv():
    torch.mv(torch.zeros(8, 16, device="cuda"), torch.zeros(16, device="cuda"))


def double():
    torch.mm(torch.zeros(8, 16, device="cuda").double(), torch.zeros(16, 4, device="cuda").double())


def tf32():
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.mm(torch.zeros(8, 16, device="cuda"), torch.zeros(16, 4, device="cuda"))


def fft():
    torch.fft.fft(torch.zeros(4, 32, device="cuda"))


def solve():
    torch.linalg.solve(torch.eye(4, device="cuda"), torch.ones(4, 1, device="cuda"))


def sparse():
    matrix = torch.eye(4).to_sparse_csr().cuda()
    torch.mm(matrix, torch.ones(4, 3, device="cuda"))


def copies():
    """Each direction and kind once, with distinguishing sizes."""
    pageable, pinned = torch.zeros(1000), torch.zeros(2000).pin_memory()
    device = pageable.cuda()
    device.cpu()
    pinned.cuda(non_blocking=True)
    torch.zeros(3000, device="cuda").to("cpu", non_blocking=True)
    device.clone()
    torch.zeros(16, 16, device="cuda")[:, :8].cpu()


def transposes():
    torch.zeros(2, 3, 8, 8, device="cuda").contiguous(memory_format=torch.channels_last)
    torch.zeros(8, 16, device="cuda").t().contiguous()


OPERATIONS = {
    function.__name__: function
    for function in (jiterator, fp8, batched, gemv, double, tf32, fft, solve, sparse, copies, transposes)
}


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or OPERATIONS:
        OPERATIONS[name]()
        torch.cuda.synchronize()
        print(name, flush=True)
    time.sleep(0.5)


if __name__ == "__main__":
    main()
