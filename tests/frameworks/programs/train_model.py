"""Trains a network of layer_models.py: train_model.py NAME STEPS [WITNESS].

With WITNESS it prints, as JSON, facts about the network's modules, without help from dlhook:
  called   modules that call no others, in the order in which a forward pass first calls them: [qualified name, class]
  numbers  of each call of a module (the loss is "loss"): [qualified name, first, last]: autograd's nodes created by the call have
           these numbers (first <= number < last)
"""

import json
import sys

import torch
from torch import nn

from layer_models import MODELS

NUMBER = torch._C._autograd._get_sequence_nr  # pylint: disable=protected-access


class Witness:
    def __init__(self, model, criterion):
        self.names = {module: name for name, module in model.named_modules()}
        self.names[criterion] = "loss"
        self.called, self.numbers, self.open = [], [], []
        for module in self.names:
            module.register_forward_pre_hook(self.enter)
            # Also if the call ends by an exception, like recomputation once it has what it needs.
            module.register_forward_hook(self.leave, always_call=True)

    def enter(self, module, _):
        self.open.append(NUMBER())
        entry = [self.names[module], type(module).__name__]
        # Attention has a child whose weights it uses without calling it.
        is_last = not list(module.children()) or isinstance(module, nn.MultiheadAttention)
        if is_last and entry not in self.called:
            self.called.append(entry)

    def leave(self, module, *_):
        self.numbers.append([self.names[module], self.open.pop(), NUMBER()])

    def print(self):
        print(json.dumps({"called": [entry for entry in self.called if entry[0] != "loss"], "numbers": self.numbers}))


def main():
    torch.manual_seed(0)
    model, inputs = MODELS[sys.argv[1]]()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    with torch.no_grad():
        target = torch.randint(0, 10, model(*inputs).shape[:-1])
    witness = Witness(model, criterion) if sys.argv[3:] == ["WITNESS"] else None
    for _ in range(int(sys.argv[2])):
        optimizer.zero_grad()
        output = model(*inputs)
        loss = criterion(output.flatten(0, -2), target.flatten())
        loss.backward()
        optimizer.step()
    if witness:
        witness.print()


if __name__ == "__main__":
    main()
