"""training_loops.py LOOP FILE: loops as users write them. Writes each step's description to FILE, as JSON: [kind,
batch, micro steps]."""

import json
import random
import sys
import threading
import time

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
torch.set_num_threads(1)
STEPS = []


class Net(nn.Module):
    def __init__(self, outputs=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3)
        self.conv2 = nn.Conv2d(8, 8, 3)
        self.fc = nn.Linear(8 * 12 * 12, outputs)

    def features(self, x):
        return F.relu(self.conv2(F.relu(self.conv1(x)))).flatten(1)

    def forward(self, x):
        return self.fc(self.features(x))


DATA = TensorDataset(torch.randn(44, 3, 16, 16), torch.randint(0, 10, (44,)))  # the last batch of 8 has 4
LOSS = nn.CrossEntropyLoss()


def loader(workers=0):
    return DataLoader(DATA, batch_size=8, num_workers=workers)


def note(kind, batch, micro_steps=None):
    STEPS.append([kind, batch, micro_steps])


def train_epoch(net, optimizer, batches):
    for x, y in batches:
        optimizer.zero_grad()
        loss = LOSS(net(x), y)
        loss.backward()
        optimizer.step()
        loss.item()
        note("training", len(x), 1)


def plain():
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    for _ in range(3):
        train_epoch(net, optimizer, loader())


def many_epochs():
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    for _ in range(12):
        train_epoch(net, optimizer, loader())


def zeroes_last():
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(150):
        LOSS(net(torch.randn(16, 64)), torch.randint(0, 10, (16,))).backward()
        optimizer.step()
        optimizer.zero_grad()
        note("training", 16, 1)


def slow_steps():
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(1200):
        optimizer.zero_grad()
        loss = LOSS(net(torch.randn(16, 64)), torch.randint(0, 10, (16,)))
        if step in (900, 1100):
            time.sleep(3)
        loss.backward()
        optimizer.step()
        note("training", 16, 1)


def compiled():
    net = torch.compile(Net())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    batches = DataLoader(DATA, batch_size=8, drop_last=True)
    for _ in range(2):
        train_epoch(net, optimizer, batches)


def workers():
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(2):
        train_epoch(net, optimizer, loader(2))


def accumulation():
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(4):
        for i, (x, y) in enumerate(loader()):
            LOSS(net(x), y).backward()
            if i % 3 == 2:
                optimizer.step()
                optimizer.zero_grad()
                note("training", 8, 3)


def validation():
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(2):
        net.train()
        train_epoch(net, optimizer, loader())
        net.eval()
        with torch.no_grad():
            for x, y in loader():
                (net(x).argmax(1) == y).sum().item()
                note("validation", len(x))


def validation_without_no_grad():
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(2):
        train_epoch(net, optimizer, loader())
        for x, y in loader():
            LOSS(net(x), y).item()
            note("validation", len(x))


def two_optimizers():
    discriminator = Net(1)
    generator = nn.Sequential(nn.Linear(16, 768), nn.Unflatten(1, (3, 16, 16)), nn.Conv2d(3, 3, 3, padding=1))
    of_discriminator = torch.optim.Adam(discriminator.parameters())
    of_generator = torch.optim.Adam(generator.parameters())
    loss = nn.BCEWithLogitsLoss()
    for _ in range(2):
        for x, _ in loader():
            real, false = torch.ones(len(x), 1), torch.zeros(len(x), 1)
            fake = generator(torch.randn(len(x), 16))
            of_discriminator.zero_grad()
            (loss(discriminator(x), real) + loss(discriminator(fake.detach()), false)).backward()
            of_discriminator.step()
            of_generator.zero_grad()
            loss(discriminator(fake), real).backward()
            of_generator.step()
            note("training", len(x), 1)


def two_models():
    for _ in range(2):
        net = Net()
        train_epoch(net, torch.optim.SGD(net.parameters(), lr=0.01), loader())


def checkpointing():
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(2):
        for x, y in loader():
            optimizer.zero_grad()
            LOSS(net.fc(checkpoint(net.features, x, use_reentrant=False)), y).backward()
            optimizer.step()
            note("training", len(x), 1)


def manual_update():
    net = Net()
    for _ in range(3):
        for x, y in loader():
            net.zero_grad()
            LOSS(net(x), y).backward()
            with torch.no_grad():
                for parameter in net.parameters():
                    parameter -= 0.01 * parameter.grad
            note("training", len(x), 1)


def serving():
    net = Net().eval()
    randomly = random.Random(7)
    with torch.inference_mode():
        for _ in range(40):
            batch = randomly.choice([2, 4, 8])
            torch.softmax(net(torch.randn(batch, 3, 16, 16)), 1)
            threading.Event().wait(0.02)  # longer than what is computed beside it
            note("inference", batch)


def serving_on():
    net = Net().eval()
    with torch.inference_mode():
        for _ in range(1500):
            net(torch.randn(4, 3, 16, 16))
            threading.Event().wait(0.01)
            note("inference", 4)


class Attention(nn.Module):
    """One block with a key/value cache."""

    def __init__(self, width=128, heads=4):
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(100, width)
        self.projection = nn.Linear(width, 3 * width)
        self.inner = nn.Linear(width, 4 * width)
        self.head = nn.Linear(4 * width, 100)

    def forward(self, tokens, cache):
        x = self.embedding(tokens)
        split = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.projection(x).chunk(3, -1))
        query, key, value = split
        if cache is not None:
            key, value = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
        y = F.scaled_dot_product_attention(query, key, value, is_causal=cache is None)
        y = self.inner(x + y.transpose(1, 2).flatten(2))
        return self.head(F.gelu(y[:, -1:])), (key, value)


def generation():
    """Notes: ["generation", tokens, ns to the first token, ns of the sequence]."""
    net = Attention().eval()
    with torch.no_grad():
        for _ in range(8):
            begun = time.perf_counter_ns()
            logits, cache = net(torch.randint(0, 100, (2, 256)), None)
            tokens = logits.argmax(-1)
            first = time.perf_counter_ns() - begun
            for _ in range(11):
                logits, cache = net(tokens, cache)
                tokens = logits.argmax(-1)
            STEPS.append(["generation", 12, first, time.perf_counter_ns() - begun])


def serving_in_threads():
    def serve():
        net = Net().eval()
        with torch.no_grad():
            for _ in range(15):
                net(torch.randn(4, 3, 16, 16))
                note("inference", 4)
    threads = [threading.Thread(target=serve) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    globals()[sys.argv[1]]()
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(STEPS, file)


if __name__ == "__main__":
    main()
