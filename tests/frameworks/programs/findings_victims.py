"""Programs with one loss each, and the same with the advice applied. findings_victims.py RULE SIDE [STEPS]

SIDE: victim, advised, or (for input-wait) hidden: batches take as long as for the victim but are never waited for; (for
recompilations) two-sizes: both are soon compiled; both: victim and advised take turns in one process.

Prints the median time of a step in ms (of the second half of the steps), and the median of its processor time in the
first thread, which tests/bench/findings.py compares.
"""

import contextlib
import copy
import ctypes
import os
import queue
import statistics
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
import torch.utils.checkpoint
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, TensorDataset


class Slow(Dataset):
    """Items that take a while to read, as from a disk, without using a processor."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.full((256,), float(index % 7)), index % 10


def training(model, optimizer, loss_of, batches):
    """Steps in the usual form."""
    for batch in batches:
        optimizer.zero_grad()
        loss_of(model, *batch).backward()
        optimizer.step()
        yield


def cross_entropy(model, x, y):
    return nn.functional.cross_entropy(model(x), y)


def of_loader(seconds, pause=0, **options):
    model = nn.Sequential(nn.Linear(256, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))
    loader = DataLoader(Slow(seconds), batch_size=16, **options)
    for _ in training(model, torch.optim.SGD(model.parameters(), lr=0.01), cross_entropy, loader):
        time.sleep(pause)
        yield


def repeated(*batch):
    while True:
        yield batch


def images(model, size, requires_grad=False, memory_format=torch.contiguous_format, batch=16, channels=3):
    """Training on random images; `size`: of the n-th step."""

    def batches():
        step = 0
        while True:
            step += 1
            x = torch.randn(batch, channels, size(step), size(step)).contiguous(memory_format=memory_format)
            yield x.requires_grad_(requires_grad), torch.zeros(batch, dtype=torch.long)

    return training(model, torch.optim.SGD(model.parameters(), lr=0.01), cross_entropy, batches())


def head(channels):
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)]


def input_wait(side):
    if side == "hidden":
        return of_loader(0.001, pause=0.1, num_workers=2)
    return of_loader(0.001, num_workers=6 if side == "advised" else 0)


def input_wait_workers(side):
    return of_loader(0.006, num_workers=16 if side == "advised" else 1)


def preparing_in_steps(side):
    """Another size in each of 60 steps. Advised: four sizes, of as many pixels on average."""
    advised = side == "advised"
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), *head(16))
    return images(model, (lambda step: (23, 38, 53, 68)[step % 4]) if advised else (lambda step: 16 + 37 * step % 60), batch=2)


def layout_conversions(side):
    advised = side == "advised"
    memory_format = torch.channels_last if advised else torch.contiguous_format
    layers = [nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1),
              nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()]
    model = nn.Sequential(*layers, *head(32)).to(memory_format=memory_format)
    return images(model, lambda step: 48, memory_format=memory_format, channels=16)


def batch_norm_in_inference(side):
    """Factors that training would have learnt are constants now."""
    layers = [nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()] * 3
    model = nn.Sequential(*layers, *head(16)).eval().to(memory_format=torch.channels_last)
    if side == "advised":
        for i in (0, 3, 6):
            model[i] = nn.utils.fusion.fuse_conv_bn_eval(model[i], model[i + 1])
            model[i + 1] = nn.Identity()
    x = torch.randn(16, 16, 48, 48).contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        while True:
            model(x)
            yield


def input_gradient(side):
    advised = side == "advised"
    model = nn.Sequential(nn.Conv2d(16, 64, 5, padding=2), nn.ReLU(), *head(64))
    return images(model, lambda step: 32, requires_grad=not advised, channels=16)


def gradient_penalty(side):
    """Reads the gradient of its input, and takes gradients of that."""
    model = nn.Sequential(nn.Conv2d(3, 32, 5, padding=2), nn.LeakyReLU(), nn.Conv2d(32, 1, 5))
    optimizer = torch.optim.SGD(model.parameters(), 0.001)
    x = torch.randn(8, 3, 32, 32)
    while True:
        optimizer.zero_grad()
        data = x.clone().requires_grad_()
        loss = model(data).mean()
        slope, = torch.autograd.grad(loss, data, create_graph=True)
        (loss + slope.square().sum()).backward()
        optimizer.step()
        yield


def float64(side):
    advised = side == "advised"
    dtype = np.float32 if advised else np.float64
    weights = [np.random.default_rng(0).standard_normal((512, 512)).astype(dtype) for _ in range(4)]
    x = np.ones((256, 512), dtype)
    while True:
        for weight in weights:
            x = np.tanh(x @ weight)
        yield


def python_lock(side):
    """Beside the steps a thread computes statistics in Python, or sleeps."""
    done = threading.Event()

    def statistics_of_something():
        while not done.is_set():
            if side == "advised":
                time.sleep(0.01)
            sum(i * i for i in range(10 if side == "advised" else 1000))

    thread = threading.Thread(target=statistics_of_something, daemon=True)
    thread.start()
    model = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.ReLU())])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    try:
        while True:
            optimizer.zero_grad()
            model(torch.randn(64, 256)).square().mean().backward()
            optimizer.step()
            yield
    finally:
        done.set()
        thread.join()


def type_conversions(side):
    """Data comes as NumPy makes it, in float64."""
    data = torch.from_numpy(np.random.default_rng(0).random((64, 50000)))
    data = data.float() if side == "advised" else data
    model = nn.Sequential(nn.Linear(50000, 4), nn.ReLU(), nn.Linear(4, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        x = data.float()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        yield


def instruction_set(side):
    """The victim is limited by ONEDNN_MAX_CPU_ISA, which the caller sets."""
    model = nn.Sequential(nn.Conv2d(16, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), *head(64))
    return images(model.to(memory_format=torch.channels_last), lambda step: 32, memory_format=torch.channels_last, channels=16)


def instruction_set_blas(side):
    """The victim is limited by OPENBLAS_CORETYPE, which the caller sets."""
    return float64("advised")


def lower_precision(side):
    model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))

    def loss_of(model, x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=side == "advised"):
            return cross_entropy(model, x, y)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return training(model, optimizer, loss_of, repeated(torch.randn(512, 1024), torch.zeros(512, dtype=torch.long)))


def recompilations(side):
    """Each batch size lasts for four steps; the compiler that only traces is quick."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    compiled = torch.compile(model, backend="eager", dynamic=side == "advised")

    def batches():
        for step in range(1 << 20):
            count = 16 + (step % 2 if side == "two-sizes" else step // 4)
            yield torch.randn(count, 64), torch.zeros(count, dtype=torch.long)

    return training(compiled, torch.optim.SGD(model.parameters(), lr=0.01), cross_entropy, batches())


def watch(x):
    x.detach().sort()


class Watched(nn.Module):
    """Two products, and something between them that is not compiled."""

    def __init__(self, watch):
        super().__init__()
        self.first = nn.Linear(256, 256)
        self.second = nn.Linear(256, 10)
        self.watch = watch

    def forward(self, x):
        x = self.first(x)
        if self.watch:
            self.watch(x)
        return self.second(x)


def graph_breaks(side):
    """The compiler that only traces is quick."""
    # Not a decorator: the compiler takes as long to import as PyTorch, and few of these programs need it.
    model = torch.compile(Watched(torch._dynamo.disable(watch) if side == "victim" else None), backend="aot_eager")

    def loss_of(model, x, y):
        if side == "advised":
            watch(x)
        return cross_entropy(model, x, y)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return training(model, optimizer, loss_of, repeated(torch.randn(256, 256), torch.zeros(256, dtype=torch.long)))


class Scaled(nn.Module):
    """A product and four elementwise operations on its result, which is larger than the caches."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 64, 1)

    def forward(self, x):
        x = self.conv(x)
        x = x * 0.5
        x = x + 1
        return x * torch.sigmoid(x)


def unfused_ops(side):
    model = Scaled().eval().to(memory_format=torch.channels_last)
    if side == "one":
        model = nn.Sequential(model.conv, nn.ReLU())
    if side == "advised":
        model = torch.compile(model)
    x = torch.randn(16, 8, 112, 112).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        while True:
            model(x)
            yield


def denormals(side):
    """A state, like an optimizer's second moments, decays to 1e-40 in the first half of 40 steps; advised: it does not."""
    least = 1e-3 if side == "advised" else 1e-40
    layer, x, state = nn.Linear(512, 512), torch.randn(64, 512), torch.ones(1 << 18)
    with torch.no_grad():
        while True:
            layer(x)
            state = state * 0.005 + least
            torch.sqrt(state)
            yield


def slow_products(side):
    """The second layer sees each example by itself: a product of few rows each time."""
    advised = side == "advised"
    first, second = nn.Linear(1024, 1024), nn.Linear(1024, 1024)
    x = torch.randn(320, 1024)
    with torch.no_grad():
        while True:
            hidden = first(x)
            if advised:
                second(hidden)
            else:
                for part in hidden.split(2):
                    second(part)
            yield


def optimizer_per_tensor(side):
    advised = side == "advised"
    model = nn.Sequential(*(nn.Linear(128, 128) for _ in range(24)), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), fused=True if advised else None)
    return training(model, optimizer, cross_entropy, repeated(torch.randn(8, 128), torch.zeros(8, dtype=torch.long)))


def python_bound(side):
    """A loss that is computed example by example."""
    advised = side == "advised"
    model = nn.Linear(32, 10)
    targets = torch.zeros(64, dtype=torch.long)

    def one_by_one(model, x, y):
        losses = [nn.functional.cross_entropy(model(x[i:i + 1]), y[i:i + 1]) for i in range(len(x))]
        return torch.stack(losses).mean()

    loss_of = cross_entropy if advised else one_by_one
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return training(model, optimizer, loss_of, repeated(torch.randn(64, 32), targets))


def page_faults(side):
    """Temporaries of 41 MB: above the size from which glibc maps each by itself."""
    if side == "advised":
        m_mmap_max, m_trim_threshold = -4, -1
        libc = ctypes.CDLL(None)
        libc.mallopt(m_mmap_max, 0)
        libc.mallopt(m_trim_threshold, 2**31 - 1)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).eval()
    x = torch.randn(160_000, 64)
    with torch.inference_mode():
        while True:
            model(x)
            yield


def one_thread(side):
    advised = side == "advised"
    torch.set_num_threads(os.cpu_count() if advised else 1)
    model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return training(model, optimizer, cross_entropy, repeated(torch.randn(512, 1024), torch.zeros(512, dtype=torch.long)))


def too_many_threads(side):
    advised = side == "advised"
    torch.set_num_threads(os.cpu_count() * (1 if advised else 8))
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return training(model, optimizer, cross_entropy, repeated(torch.randn(256, 512), torch.zeros(256, dtype=torch.long)))


def spinning_threads(side):
    """Little for two threads to do, and much for one, while another program wants a processor. How they wait
    OMP_WAIT_POLICY says, which the caller sets."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() - 1)]
    torch.set_num_threads(2)
    model, large = nn.LayerNorm(16), torch.ones(1 << 17)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = repeated(torch.randn(8, 16), torch.zeros(8, dtype=torch.long))
    try:
        for _ in training(model, optimizer, cross_entropy, batches):
            large.mul_(1.0)
            end = time.thread_time() + 0.05
            while time.thread_time() < end:
                pass
            yield
    finally:
        for other in others:
            other.kill()


def uneven_threads(side):
    """Two threads compute the gradients of a part of the batch each; the first has most of it. Advised: equal parts.
    Beside-others: equal parts, but another program uses the second thread's processor, too."""
    sizes = [480, 32] if side == "victim" else [256, 256]
    model = nn.Sequential(nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    threads = [ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,)) for _ in sizes]
    together = threading.Barrier(len(sizes))

    def work(x):
        x = x - 0.5
        together.wait()  # within their parts, which so overlap, also where others take the processors
        cross_entropy(model, x, torch.zeros(len(x), dtype=torch.long)).backward()

    others = None
    if side == "beside-others":
        processors = sorted(os.sched_getaffinity(0))
        for thread, processor in zip(threads, processors):
            thread.submit(os.sched_setaffinity, 0, {processor}).result()
        others = subprocess.Popen(["taskset", "-c", str(processors[1]), "timeout", "60", "sh", "-c", "while :; do :; done"],
                                  env={"PATH": os.environ["PATH"]})
    parts = torch.randn(512, 768).split(sizes)
    try:
        while True:
            optimizer.zero_grad()
            for part in [thread.submit(work, x) for thread, x in zip(threads, parts)]:
                part.result()
            optimizer.step()
            yield
    finally:
        if others:
            others.terminate()
            others.wait()


def own_loops(side):
    """Of float16, whose products no library takes on most processors."""
    dtype = torch.float32 if side == "advised" else torch.float16
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)).to(dtype)

    def loss_of(model, x, y):
        return nn.functional.cross_entropy(model(x).float(), y)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    return training(model, optimizer, loss_of, repeated(torch.randn(64, 256, dtype=dtype), torch.zeros(64, dtype=torch.long)))


def broadcast_products(side):
    """A matrix for each of 3 joints, times 512 samples: as a batch of 1536 products of one column each, or one of all."""
    weight = nn.Parameter(torch.randn(3, 64, 64) / 8)
    first, last = nn.Linear(256, 192), nn.Linear(192, 256)
    optimizer = torch.optim.SGD([weight, *first.parameters(), *last.parameters()], lr=0.01)

    def mixed(h):
        if side == "advised":
            return torch.einsum("jab,njb->nja", weight, h)
        return (weight @ h.unsqueeze(-1)).squeeze(-1)

    def loss_of(x, y):
        return nn.functional.mse_loss(last(mixed(first(x).view(-1, 3, 64)).flatten(1)), y)

    x, y = torch.randn(512, 256), torch.randn(512, 256)
    while True:
        optimizer.zero_grad()
        loss_of(x, y).backward()
        optimizer.step()
        yield


def growing_steps(side):
    """Outputs are kept for a metric: joined to all before in each step, or in a list."""
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1024))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    history, outputs = torch.empty(0, 1024), []
    x, y = torch.randn(256, 64), torch.randn(256, 1024)
    while True:
        optimizer.zero_grad()
        output = model(x)
        nn.functional.mse_loss(output, y).backward()
        optimizer.step()
        if side == "advised":
            outputs.append(output.detach())
        else:
            history = torch.cat([history, output.detach()])
        yield


def recurrent(cell, size, context=contextlib.nullcontext):
    """Steps over 12 time steps, each with a call of the cell."""
    out = nn.Linear(size, 4)
    optimizer = torch.optim.SGD([*cell.parameters(), *out.parameters()], lr=0.01)
    x, y = torch.randn(12, 16, 8), torch.randint(0, 4, (16,))
    while True:
        optimizer.zero_grad()
        state = torch.zeros(16, size)
        with context():
            for each in x:
                state = cell(each, state)
        nn.functional.cross_entropy(out(state), y).backward()
        optimizer.step()
        yield


def debug_switch(side):
    with torch.autograd.set_detect_anomaly(side == "victim"):
        yield from recurrent(nn.GRUCell(8, 32), 32)


def frozen(side):
    """A head is trained; the network below it gets gradients, too."""
    body = nn.Sequential(*(nn.Linear(256, 256) for _ in range(6)))
    head = nn.Linear(256, 10)
    if side == "advised":
        body.requires_grad_(False)
    optimizer = torch.optim.Adam(head.parameters())
    x, y = torch.randn(128, 256), torch.randint(0, 10, (128,))
    while True:
        optimizer.zero_grad()
        body.zero_grad()
        nn.functional.cross_entropy(head(body(x)), y).backward()
        optimizer.step()
        yield


def losses_apart(side):
    """Six losses of one network: a backward pass for each, or for their sum."""
    body, heads = nn.Linear(256, 256), nn.ModuleList(nn.Linear(256, 4) for _ in range(6))
    optimizer = torch.optim.SGD([*body.parameters(), *heads.parameters()], 0.01)
    x, y = torch.randn(128, 256), torch.randint(0, 4, (128,))
    while True:
        optimizer.zero_grad()
        hidden = torch.relu(body(x))
        losses = [nn.functional.cross_entropy(head(hidden), y) for head in heads]
        for loss in losses if side == "victim" else [sum(losses)]:
            loss.backward(retain_graph=True)
        optimizer.step()
        yield


class OwnNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size))

    def forward(self, x):
        return self.scale * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + self.shift


def norm_by_parts(side, own=OwnNorm):
    norm = own if side == "victim" else nn.LayerNorm
    net = nn.Sequential(*(nn.Sequential(norm(64), nn.Linear(64, 64)) for _ in range(4)))
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    x = torch.randn(1024, 64)
    while True:
        optimizer.zero_grad()
        net(x).abs().sum().backward()
        optimizer.step()
        yield


def root_mean_square(side):
    yield from norm_by_parts(side, nn.RMSNorm)


def profiler(side):
    with torch.profiler.profile() if side == "victim" else contextlib.nullcontext():
        yield from recurrent(nn.GRUCell(8, 32), 32)


def repeated_work(side):
    """An orthogonal weight, computed in each time step or once."""
    cell = nn.utils.parametrizations.orthogonal(nn.RNNCell(8, 48), "weight_hh")
    return recurrent(cell, 48, nn.utils.parametrize.cached if side == "advised" else contextlib.nullcontext)


def weight_norm_in_inference(side):
    """Weights that are computed in each request, or once."""
    model = nn.Sequential(*(nn.utils.parametrizations.weight_norm(nn.Linear(512, 512)) for _ in range(4))).eval()
    for layer in model if side == "advised" else ():
        nn.utils.parametrize.remove_parametrizations(layer, "weight")
    with torch.inference_mode():
        while True:
            model(torch.randn(8, 512))
            yield


class Words(nn.Module):
    """Their scores for the next word. victim: of all positions, of which the last is taken; both read all of them in `all`."""

    def __init__(self, side):
        super().__init__()
        self.side = side
        self.embed, self.hidden, self.head = nn.Embedding(100, 64), nn.Linear(64, 64), nn.Linear(64, 8000)

    def forward(self, words):
        hidden = torch.tanh(self.hidden(self.embed(words)))
        if self.side == "advised":
            return self.head(hidden[:, -1:])[:, -1]
        scores = self.head(hidden)
        return scores.log_softmax(-1)[:, -1] if self.side == "all" else scores[:, -1]


def all_scores(side):
    model = Words(side).eval()
    with torch.inference_mode():
        while True:
            model(torch.randint(0, 100, (2, 64))).argmax(-1)
            yield


class Heads(nn.Module):
    """16 small products of one input, one by one or as one; or a chain of as many."""

    def __init__(self, side):
        super().__init__()
        self.side = side
        self.heads = nn.ModuleList(nn.Linear(64, 64 if side == "chain" else 4) for _ in range(1 if side == "advised" else 16))
        if side == "advised":
            self.heads[0] = nn.Linear(64, 64)

    def forward(self, x):
        if self.side != "chain":
            return torch.cat([head(x) for head in self.heads], -1)
        parts = []
        for head in self.heads:
            x = torch.relu(head(x))
            parts.append(x)
        return torch.cat(parts, -1)[:, -64:]


def heads_one_by_one(side):
    model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), Heads(side), nn.Linear(64, 4))
    return training(model, torch.optim.SGD(model.parameters(), lr=0.01), cross_entropy,
                    repeated(torch.randn(32, 16), torch.zeros(32, dtype=torch.long)))


def distribution_checks(side):
    """Actions of a policy: with the checks that are standard, or without."""
    policy = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.01)
    while True:
        choice = torch.distributions.Categorical(logits=policy(torch.randn(16, 8)), validate_args=side == "victim")
        loss = -choice.log_prob(torch.zeros(16)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


class Masked(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.limit, self.project = limit, nn.Linear(512, 512)

    def forward(self, x):
        x = self.project(x)
        mask = torch.full((self.limit, self.limit), float("-inf")).triu(1)[:len(x), :len(x)]
        return nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], mask)


def rebuilt_masks(side):
    """A causal mask is made anew in each request: as large as the longest, or as large as used."""
    model, x = Masked(64 if side == "advised" else 2048).eval(), torch.randn(64, 512)
    while True:
        with torch.inference_mode():
            model(x)
        yield


class Attention(nn.Module):
    def __init__(self, by_parts):
        super().__init__()
        self.by_parts, self.project = by_parts, nn.Linear(64, 192)

    def forward(self, x):
        q, k, v = self.project(x).view(len(x), -1, 3, 4, 16).permute(2, 0, 3, 1, 4)
        if not self.by_parts:
            return nn.functional.scaled_dot_product_attention(q, k, v).flatten(1)
        scores = torch.matmul(q, k.transpose(-2, -1)) / 4
        return torch.matmul(torch.softmax(scores, -1), v).flatten(1)


def attention_by_parts(side):
    model, x = Attention(side == "victim").eval(), torch.randn(4, 256, 64)
    while True:
        with torch.inference_mode():
            model(x)
        yield


def dense_embedding(side):
    """A batch reads 256 rows of 100 000."""
    table, head = nn.Embedding(100_000, 16, sparse=side == "advised"), nn.Linear(16, 2)
    optimizer = torch.optim.SGD([*table.parameters(), *head.parameters()], lr=0.01)
    y = torch.randint(0, 2, (256,))
    while True:
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(table(torch.randint(0, 100_000, (256,)))), y).backward()
        optimizer.step()
        yield


def packed_sequences(side):
    rnn, head = nn.LSTM(16, 32), nn.Linear(32, 2)
    optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.01)
    x, lengths = torch.randn(40, 8, 16), torch.arange(40, 24, -2)
    while True:
        optimizer.zero_grad()
        output = rnn(x if side == "advised" else nn.utils.rnn.pack_padded_sequence(x, lengths))[1][0]
        head(output).square().mean().backward()
        optimizer.step()
        yield


def recurrent_cells(side):
    rnn, head = (nn.LSTM if side == "advised" else nn.LSTMCell)(16, 32), nn.Linear(32, 2)
    optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.01)
    x = torch.randn(30, 8, 16)
    while True:
        optimizer.zero_grad()
        if side == "advised":
            output = rnn(x)[1][0][0]
        else:
            output = cell = torch.zeros(8, 32)
            for row in x:
                output, cell = rnn(row, (output, cell))
        head(output).square().mean().backward()
        optimizer.step()
        yield


def growing_memory(side):
    """Requests whose results are kept, with the graph of each that PyTorch records; or without one; or no graph, but large results."""
    model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512), nn.ReLU()).requires_grad_(side != "large")
    kept = []
    while True:
        with torch.inference_mode() if side == "advised" else contextlib.nullcontext():
            result = model(torch.ones(512, 512))
            kept.append(result if side == "large" else result.mean())
        yield


def slow_lines(side):
    """A batch is made of a list of arrays: number by number, or joined first."""
    model = nn.Sequential(nn.Linear(4096, 1024), nn.ReLU(), nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    arrays = list(np.ones((32, 4096), np.float32))
    while True:
        x = torch.from_numpy(np.stack(arrays)) if side == "advised" else torch.tensor(arrays)
        optimizer.zero_grad()
        cross_entropy(model, x, torch.zeros(len(x), dtype=torch.long)).backward()
        optimizer.step()
        yield


def released_tensors(side):
    """Thousands of small tensors that die together, or one large one."""
    model = nn.Linear(64, 64)
    for _ in training(model, torch.optim.SGD(model.parameters(), lr=0.01), cross_entropy,
                      repeated(torch.ones(32, 64), torch.zeros(32, dtype=torch.long))):
        records = [torch.empty(16) for _ in range(6000)] if side == "victim" else [torch.empty(6000, 16)]
        records.clear()
        yield


def copied_states(side):
    """The weights are copied in each step, or in each twentieth."""
    model = nn.Sequential(*(nn.Linear(256, 256) for _ in range(8)))
    for step, _ in enumerate(training(model, torch.optim.SGD(model.parameters(), lr=0.01), cross_entropy,
                                      repeated(torch.ones(16, 256), torch.zeros(16, dtype=torch.long)))):
        if side == "victim" or step % 20 == 0:
            copy.deepcopy(model.state_dict())
        yield


def head_by_head(side):
    """Attention of one head after the other, or of all."""
    project = nn.Linear(8, 768)

    def loss_of(model, x):
        q, k, v = (part.view(8, 32, 32, 8).transpose(1, 2) for part in model(x).chunk(3, -1))
        if side == "advised":
            return nn.functional.scaled_dot_product_attention(q, k, v).square().mean()
        heads = [torch.softmax(q[:, h] @ k[:, h].transpose(1, 2), -1) @ v[:, h] for h in range(32)]
        return torch.cat(heads, -1).square().mean()

    return training(project, torch.optim.SGD(project.parameters(), lr=0.01), loss_of, repeated(torch.randn(8, 32, 8)))


def rows_one_by_one(side):
    """A dataset in memory: a row at a time, or a batch."""
    data = TensorDataset(torch.randn(8192, 32), torch.randint(0, 2, (8192,)))
    options = dict(batch_size=256, shuffle=True)
    if side == "advised":
        options = dict(sampler=BatchSampler(RandomSampler(data), 256, False), batch_size=None)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        yield from training(model, optimizer, cross_entropy, DataLoader(data, **options))


def slow_collate(side):
    """Rows are fetched one by one, which takes no time beside what is done with them then."""
    def collate(rows):
        if side == "victim":
            sum(number * number for number in range(300_000))
        return [torch.stack(column) for column in zip(*rows)]

    data = TensorDataset(torch.randn(2048, 32), torch.randint(0, 2, (2048,)))
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        yield from training(model, optimizer, cross_entropy, DataLoader(data, batch_size=32, collate_fn=collate))


class Opened(Dataset):
    """Each worker opens it first, which takes a while."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((256,), float(index % 7)), index % 10

    @staticmethod
    def open(_):
        time.sleep(0.2)


def longer_steps(side):
    """Epochs of 8 batches: workers are started again in each, or stay. Steps are long beside the first batch of an epoch,
    for which workers that stay are waited for, too."""
    loader = DataLoader(Opened(), batch_size=8, num_workers=2, worker_init_fn=Opened.open,
                        persistent_workers=side == "advised")
    model = nn.Sequential(nn.Linear(256, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        yield from training(model, optimizer, cross_entropy, loader)


def recomputation(side):
    """Blocks that are computed again for their gradients, or not."""
    blocks = nn.ModuleList(nn.Sequential(nn.Linear(512, 512), nn.Tanh()) for _ in range(4))
    optimizer = torch.optim.SGD(blocks.parameters(), lr=0.01)
    x = torch.randn(256, 512)
    while True:
        optimizer.zero_grad()
        y = x
        for block in blocks:
            y = block(y) if side == "advised" else torch.utils.checkpoint.checkpoint(block, y, use_reentrant=False)
        y.square().mean().backward()
        optimizer.step()
        yield


def heavy_operations(side):
    """The largest of many values: by sorting all of them, or not."""
    head = nn.Linear(64, 20000, bias=False).eval()
    x = torch.randn(8, 64)
    while True:
        with torch.inference_mode():
            scores = head(x)
            best = scores.topk(50).values if side == "advised" else scores.sort(descending=True).values[:, :50]
            best.softmax(-1)
        yield


def polled_queue(side):
    """Another thread makes batches; the program waits for them in the queue, or looks into it now and then."""
    batches = queue.Queue(maxsize=8)
    done = threading.Event()

    def make():
        while not done.is_set():
            batches.put((torch.randn(64, 64), torch.zeros(64, dtype=torch.long)))

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    try:
        while True:
            if side == "victim":
                time.sleep(0.02)
            x, y = batches.get()
            optimizer.zero_grad()
            cross_entropy(model, x, y).backward()
            optimizer.step()
            yield
    finally:  # a thread in PyTorch at the interpreter's end would abort the process
        done.set()
        while thread.is_alive():
            if batches.full():
                batches.get()
            thread.join(0.01)


def kept_states(side):
    """Gradients through the states of all earlier steps, or of this one."""
    cell, head = nn.GRUCell(32, 64), nn.Linear(64, 4)
    state = torch.zeros(16, 64)
    while True:
        state = cell(torch.randn(16, 32), state.detach() if side == "advised" else state)
        torch.autograd.grad(head(state).square().mean(), [*cell.parameters(), *head.parameters()], retain_graph=True)
        yield


def each_sample(side):
    """The model is called for each sample, or once for many."""
    model = nn.Sequential(nn.Linear(256, 160), nn.ReLU(), nn.Linear(160, 160), nn.ReLU(), nn.Linear(160, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows = 48 if side == "victim" else 4096
    x, y = torch.randn(rows, 256), torch.zeros(rows, dtype=torch.long)
    while True:
        optimizer.zero_grad()
        parts = [(x, y)] if side == "advised" else zip(x.split(1), y.split(1))
        sum(cross_entropy(model, *part) for part in parts).backward()
        optimizer.step()
        yield


def statistics_in_float64(side):
    """Data are normalised by NumPy's numbers, or by these in float32; the network computes in float32."""
    shift = np.linspace(0.4, 0.6, 512)
    shift = torch.from_numpy(shift if side == "victim" else shift.astype(np.float32))
    model = nn.Linear(512, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        x = torch.rand(2048, 512)
        scaled = torch.tanh((x - shift) / shift)
        optimizer.zero_grad()
        model(scaled.float()).square().mean().backward()
        optimizer.step()
        yield


def pairs_by_broadcasting(side):
    """Distances of all pairs through their differences, or by a product."""
    model = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    centers = torch.randn(300, 64)
    while True:
        z = model(torch.randn(256, 64))
        if side == "victim":
            distances = (z[:, None] - centers).square().sum(-1)
        else:
            distances = z.square().sum(1)[:, None] + centers.square().sum(1) - 2 * z @ centers.t()
        optimizer.zero_grad()
        distances.mean().backward()
        optimizer.step()
        yield


BLOCK = 5  # steps before it is the other's turn


def main():
    rule, side = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 60
    torch.manual_seed(0)
    torch.set_num_threads(1)
    sides = ("victim", "advised") if side == "both" else (side,)
    programs = [(globals()[rule.replace("-", "_")](each), []) for each in sides]
    for _ in range(count // BLOCK):
        for steps, times in programs:
            for _ in range(BLOCK):
                start, start_thread = time.perf_counter(), time.thread_time()
                next(steps)
                times.append((time.perf_counter() - start, time.thread_time() - start_thread))
    for steps, times in programs:
        print(*(f"{1e3 * statistics.median(column):.4f}" for column in zip(*times[count // 2:])))
        sys.stdout.flush()
        steps.close()


if __name__ == "__main__":
    main()
