"""Trains in a function that is called once: each step begins with the operation with which the function began. looped_function.py STEPS"""

import sys

import torch

model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def train(steps):
    for _ in range(steps):
        batch = torch.ones(64, 64)
        model(batch).square().mean().backward()
        optimizer.step()
        words = [str(number) for number in range(20_000)]
        len(" ".join(words))


torch.set_num_threads(1)
train(int(sys.argv[1]))
