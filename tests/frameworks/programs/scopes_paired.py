"""Trains networks one step each and writes, for every call of a module without children, which autograd nodes it created.

scopes_paired.py MODEL[,MODEL…] OUT. OUT is JSON: {model: [[module's name, number of its call, node's name, node's sequence number]]}, found
by walking from output.grad_fn back to the module's input. Each call is inside a range "call NAME NUMBER", recomputation under
checkpointing too, everything of a model inside one of its name.
"""

import collections
import json
import sys

import torch
from torch.autograd.profiler import record_function

from torch_models import MODELS

torch.set_num_threads(1)
ranges, began_with, made, calls = [], [], [], collections.Counter()


def node_key(node):
    return node.name(), node._sequence_nr()


def before(module, module_inputs):
    calls[module.name] += 1
    ranges.append(record_function(f"call {module.name} {calls[module.name]}"))
    ranges[-1].__enter__()
    began_with.append({node_key(x.grad_fn) for x in module_inputs if isinstance(x, torch.Tensor) and x.grad_fn is not None})


def nodes_between(tensor, stop):
    """Nodes from the tensor's back to those of the module's input, except parameters' gradients."""
    found, queue = set(), [tensor.grad_fn]
    while queue:
        node = queue.pop()
        if node is None or "AccumulateGrad" in node.name() or node_key(node) in found | stop:
            continue
        found.add(node_key(node))
        queue += [next_node for next_node, _ in node.next_functions]
    return found


def after(module, _, output):
    ranges.pop().__exit__(None, None, None)
    output = output[0] if isinstance(output, tuple) else output
    made.extend((module.name, calls[module.name], *key) for key in sorted(nodes_between(output, began_with.pop())))


nodes = {}
for name in sys.argv[1].split(","):
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    made = nodes[name] = []
    calls.clear()
    for module_name, module in model.named_modules():
        module.name = module_name
        if not list(module.children()):
            module.register_forward_pre_hook(before)
            module.register_forward_hook(after)
    with record_function(name):
        model(*[x.requires_grad_() for x in inputs]).square().mean().backward()
with open(sys.argv[2], "w", encoding="utf-8") as file:
    json.dump(nodes, file)
