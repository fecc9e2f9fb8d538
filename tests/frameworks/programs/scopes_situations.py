"""PyTorch in situations that are difficult for an observer of its operators. scopes_situations.py SITUATION...

Each situation prints what it computed; ranges named after it are around its operators.
"""

import os
import sys
import threading
import time

import torch
from torch.autograd.profiler import record_function

torch.set_num_threads(1)
torch.manual_seed(0)
X = torch.arange(6.0).reshape(2, 3) if sys.argv[1:] != ["nothing"] else None


def nothing():
    print("torch", torch.__version__)


def operators():
    with record_function("operators"):
        print((X @ X.T + 1).sum())


def watched():
    """A range named after each line of the input; answers when it has ended."""
    for line in sys.stdin:
        with record_function(line.strip()):
            X.sum()
        print(line.strip(), flush=True)


def many_workers():
    """Children one after another while this process continues: each must find working observers."""
    for number in range(8):
        X.sum()
        child = os.fork()
        if child == 0:
            with record_function(f"child {number}"):
                X.sum()
            os._exit(0)
        os.waitpid(child, 0)
    print("many workers")


def training():
    """70 steps of a small network, each in a range of its own."""
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1, 71):
        with record_function(f"step {step}"):
            model(X).sum().backward()
        optimizer.step()
    print(model(X).sum())


def threads():
    """Two threads alternately, then backward on a third."""
    def work(name):
        with record_function(name):
            print(name, (X + 1).sum())
    for name in ("first thread", "second thread"):
        thread = threading.Thread(target=work, args=(name,))
        thread.start()
        thread.join()
    x = X.clone().requires_grad_()
    y = x.exp().sum()

    def backward():
        with record_function("backward thread"):
            y.backward()
    thread = threading.Thread(target=backward)
    thread.start()
    thread.join()
    print(x.grad)


def exceptions():
    """Operators and ranges that are left by an exception, repeatedly: more than scopes can be open at once."""
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            raise ValueError("forward")
    count = 0
    for _ in range(200):
        for attempt in (lambda: X @ X, lambda: Fails.apply(X), lambda: torch.zeros(-1)):
            try:
                with record_function("fails"):
                    attempt()
            except (RuntimeError, ValueError):
                count += 1
    with record_function("after exceptions"):
        print(count, X.sum())


def elsewhere():
    """Ranges that end on another thread, more than can be open at once; one that ends after one that began later."""
    for number in range(100):
        opened = record_function(f"elsewhere {number}")
        opened.__enter__()
        thread = threading.Thread(target=opened.__exit__, args=(None, None, None))
        thread.start()
        thread.join()
    first, second = record_function("crossing first"), record_function("crossing second")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    with record_function("after elsewhere"):
        print(X.sum())


def future():
    """A range whose end is left to a future."""
    result = torch.futures.Future()
    with record_function("future") as opened:
        done = opened._call_end_callbacks_on_future(result)
    threading.Thread(target=result.set_result, args=(X,)).start()
    with record_function("after future"):
        print(done.wait().sum())


def collective():
    """An asynchronous collective: its range ends on a thread of the process group."""
    import torch.distributed as dist
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    for _ in range(3):
        work = dist.all_reduce(X.clone(), async_op=True)
        with record_function("beside the collective"):
            (X + 1).sum()
        work.wait()
    time.sleep(0.2)
    print(X.sum())
    dist.destroy_process_group()


def fork():
    """Children in the middle of a range: one works, one leaves at once."""
    sys.stdout.flush()
    with record_function("before fork"):
        X.sum()
        child = os.fork()
        if child == 0:
            with record_function("in the child"):
                (X * 2).sum()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    with record_function("after fork"):
        print(X.sum())


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        with record_function("get item"):
            return X[0] * index


def workers():
    """DataLoader workers: their own processes."""
    loader = torch.utils.data.DataLoader(Squares(), batch_size=2, num_workers=2)
    print(sum(batch.sum() for batch in loader))


def script():
    @torch.jit.script
    def scripted(x):
        y = x + 1
        return y * x.sum()
    for _ in range(3):
        with record_function("script"):
            print(scripted(X).sum())


def modes():
    """Inference mode, no_grad, functorch's transforms, a Python dispatch mode."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Passing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))
    with torch.inference_mode(), record_function("inference mode"):
        print((X @ X.T).sum())
    with record_function("vmap"):
        print(torch.func.vmap(lambda x: (x * 2).sum())(X))
    with record_function("grad"):
        print(torch.func.grad(lambda x: x.pow(2).sum())(X))
    with Passing(), record_function("dispatch mode"):
        print((X + 1).sum())


def nvtx():
    """emit_nvtx needs a GPU build; its observer is refused without one before it begins."""
    try:
        with torch.autograd.profiler.emit_nvtx():
            print(X.sum())
    except Exception as error:  # which one depends on the build
        print(type(error).__name__)


def names():
    """A name longer than a record, an empty one, and bytes beyond ASCII."""
    for name in ("x" * 5000, "", "größe 漢字"):
        with record_function(name):
            X.sum()
    print("names")


def deep():
    """More open ranges than are recorded."""
    opened = [record_function(f"level {level}") for level in range(100)]
    for scope in opened:
        scope.__enter__()
    X.sum()
    for scope in reversed(opened):
        scope.__exit__(None, None, None)
    with record_function("after deep"):
        print(X.sum())


for situation in sys.argv[1:]:
    globals()[situation]()
