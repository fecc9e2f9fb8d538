"""Trains a small network for a few steps on the GPU: one program for every path through PyTorch's CUDA libraries.

    train.py MODEL [--steps N] [--channels-last] [--amp fp16|bf16] [--benchmark] [--copies plain|pinned|pageable]
             [--graph] [--ddp gloo|nccl]

MODEL: lenet alexnet resnet lstm transformer linear. Deterministic: on the fakes each run makes the same calls. Numbers are
meaningless there, so only the count of steps is printed.
"""

import argparse
import os
import sys
import tempfile
import time

import torch
from torch import nn
from torch.nn import functional as F

CLASSES = 10


# --- networks ------------------------------------------------------------------------------------------------------


class LeNet(nn.Sequential):
    shape = (1, 28, 28)

    def __init__(self):
        super().__init__(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, CLASSES),
        )  # fmt: skip


class AlexNet(nn.Sequential):
    """As of 2012, with its groups."""

    shape = (3, 227, 227)

    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 96, 11, stride=4), nn.ReLU(), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2),
            nn.Conv2d(96, 256, 5, padding=2, groups=2), nn.ReLU(), nn.LocalResponseNorm(5), nn.MaxPool2d(3, 2),
            nn.Conv2d(256, 384, 3, padding=1), nn.ReLU(),
            nn.Conv2d(384, 384, 3, padding=1, groups=2), nn.ReLU(),
            nn.Conv2d(384, 256, 3, padding=1, groups=2), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Flatten(), nn.Linear(9216, 512), nn.ReLU(), nn.Dropout(), nn.Linear(512, CLASSES),
        )  # fmt: skip


class ResNetBlock(nn.Module):
    shape = (16, 32, 32)

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(32)
        self.second = nn.Conv2d(32, 32, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(32)
        self.shortcut = nn.Conv2d(16, 32, 1, stride=2, bias=False)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x):
        y = F.relu(self.first_norm(self.first(x)))
        y = F.relu(self.second_norm(self.second(y)) + self.shortcut(x))
        return self.head(y.mean((2, 3)))


class Lstm(nn.Module):
    shape = (12, 24)  # steps, features

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(24, 32, num_layers=2, batch_first=True)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Transformer(nn.Module):
    shape = (16, 64)

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.head = nn.Linear(64, CLASSES)

    def forward(self, x):
        return self.head(self.layer(x).mean(1))


class Linear(nn.Sequential):
    shape = (48,)

    def __init__(self):
        super().__init__(nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, CLASSES))


MODELS = {"lenet": LeNet, "alexnet": AlexNet, "resnet": ResNetBlock, "lstm": Lstm, "transformer": Transformer,
          "linear": Linear}  # fmt: skip
PRECISIONS = {"fp16": torch.float16, "bf16": torch.bfloat16}


# --- training ------------------------------------------------------------------------------------------------------


def batches(options, shape):
    """Images and labels on the CPU, as the option says how they get to the GPU."""
    generator = torch.Generator().manual_seed(1)
    data = torch.utils.data.TensorDataset(
        torch.randn(options.steps * options.batch, *shape, generator=generator),
        torch.randint(0, CLASSES, (options.steps * options.batch,), generator=generator),
    )
    return torch.utils.data.DataLoader(data, options.batch, pin_memory=options.copies == "pinned")


def moved(tensor, options, device):
    layout = torch.channels_last if options.channels_last and tensor.dim() == 4 else torch.preserve_format
    return tensor.to(device, non_blocking=options.copies == "pinned", memory_format=layout)


def loss_of(model, x, y, options):
    with torch.autocast("cuda", PRECISIONS.get(options.amp, torch.float16), enabled=options.amp is not None):
        return F.cross_entropy(model(x), y)


def train(model, options, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda", enabled=options.amp == "fp16")
    done = 0
    for x, y in batches(options, options.shape):
        x, y = moved(x, options, device), moved(y, options, device)
        optimizer.zero_grad()
        loss = loss_of(model, x, y, options)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        loss.item()
        done += 1
    return done


def train_with_graph(model, options, device):
    """Captures one step, replays it for each batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    static_x = torch.zeros(options.batch, *options.shape, device=device)
    static_y = torch.zeros(options.batch, dtype=torch.long, device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, static_x, static_y, options)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    done = 0
    for x, y in batches(options, options.shape):
        static_x.copy_(x)
        static_y.copy_(y)
        graph.replay()
        loss.item()
        done += 1
    return done


def run(options, rank=0):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = options.benchmark
    device = torch.device("cuda", rank if torch.cuda.device_count() > 1 else 0)
    torch.cuda.set_device(device)
    model = MODELS[options.model]().to(device)
    if options.channels_last:
        model = model.to(memory_format=torch.channels_last)
    if options.ddp:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
    done = (train_with_graph if options.graph else train)(model, options, device)
    torch.cuda.synchronize()
    print(f"rank {rank}: {done} steps", flush=True)


def run_rank(rank, options, rendezvous):
    torch.distributed.init_process_group(options.ddp, init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    run(options, rank)
    torch.distributed.destroy_process_group()
    time.sleep(0.5)


def run_ranks(options):
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run_rank, (options, os.path.join(folder, "rendezvous")), nprocs=2)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--amp", choices=PRECISIONS)
    parser.add_argument("--benchmark", action="store_true")
    parser.add_argument("--copies", choices=("pinned", "pageable"), default="pageable")
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--ddp", choices=("gloo", "nccl"))
    options = parser.parse_args(arguments)
    options.shape = MODELS[options.model].shape
    return options


def main():
    options = parse(sys.argv[1:])
    if options.ddp:
        run_ranks(options)
    else:
        run(options)
    # The autograd thread of the wheel sometimes aborts at interpreter exit if it has just been used; with or without a GPU.
    time.sleep(0.5)


if __name__ == "__main__":
    main()
