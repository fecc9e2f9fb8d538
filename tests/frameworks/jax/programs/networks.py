"""Eight small networks, each with a training step of its own, which train in turn; see test_networks_jax.py.

networks.py FOLDER: in turns within windows of dlhook's and under the user's own jax.profiler, which keeps its traces in the
folder; prints what each part of each run of the transformer took by these, as JSON
"""

import collections
import contextlib
import json
import os
import re
import sys

import jax
import jax.numpy as jnp
import numpy
from jax import lax

from named import operations, until_recorded

TURNS, STEPS = 4, 16
scope = jax.named_scope


def convolve(x, kernel, **more):
    options = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": ("NHWC", "HWIO", "NHWC")}
    return lax.conv_general_dilated(x, kernel, **options | more)


def dense(x, matrix):
    return jnp.tanh(x @ matrix)


def mlp(of, x):
    """Plain functions: layers have the names of their calls."""
    x = dense(x, of["first"])
    x = dense(x, of["second"])
    return x @ of["last"]


def cnn(of, x):
    with scope("conv1"):
        x = jax.nn.relu(convolve(x, of["conv1"], window_strides=(2, 2)))
    with scope("conv2"):
        x = lax.reduce_window(convolve(x, of["conv2"]), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    with scope("head"):
        return x.reshape(len(x), -1) @ of["head"]


def mobile(of, x):
    """A depthwise convolution and one of single points."""
    with scope("stem"):
        x = jax.nn.relu(convolve(x, of["stem"]))
    with scope("depth"):
        x = jax.nn.relu(convolve(x, of["depth"], feature_group_count=8))
    with scope("point"):
        return convolve(x, of["point"])


def unet(of, x):
    with scope("down"):
        small = jax.nn.relu(convolve(x, of["down"], window_strides=(2, 2)))
    with scope("up"):
        large = lax.conv_transpose(small, of["up"], (2, 2), "SAME")
    with scope("out"):
        return convolve(jnp.concatenate([x, large], -1), of["out"])


def transformer(of, x):
    def normalized(x):
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

    for name in ("block0", "block1"):
        with scope(name):
            with scope("qkv"):
                q, k, v = jnp.split((normalized(x) @ of[name + "qkv"]).reshape(4, 48, 4, -1), 3, -1)
            with scope("scores"):
                scores = jax.nn.softmax(lax.dot_general(q, k, (((3,), (3,)), ((0, 2), (0, 2)))))
            with scope("values"):
                y = lax.dot_general(scores, v, (((3,), (1,)), ((0, 1), (0, 2)))).swapaxes(1, 2).reshape(x.shape)
            with scope("out"):
                x = x + y @ of[name + "out"]
            with scope("up"):
                y = jax.nn.gelu(normalized(x) @ of[name + "up"])
            with scope("down"):
                x = x + y @ of[name + "down"]
    return x


def recurrent(of, x):
    def cell(state, x):
        with scope("input"):
            new = x @ of["input"]
        with scope("state"):
            state = jnp.tanh(new + state @ of["state"])
        return state, state

    state, _ = lax.scan(cell, jnp.zeros((len(x), 64)), x.swapaxes(0, 1))
    with scope("head"):
        return state @ of["head"]


def residual(of, x):
    """Computed again in the backward pass."""
    @jax.checkpoint
    def block(matrices, x):
        with scope("inner"):
            y = jnp.sin(x @ matrices[0])
        with scope("outer"):
            return jnp.sin(x + y @ matrices[1])

    with scope("block0"):
        x = block((of["a"], of["b"]), x)
    with scope("block1"):
        return block((of["c"], of["d"]), x)


def custom(of, x):
    """A backward pass of its own."""
    @jax.custom_vjp
    def clipped(matrix, x):
        return x @ matrix

    def backward(kept, gradient):
        matrix, x = kept
        gradient = jnp.clip(gradient, -1, 1)
        return x.T @ gradient, gradient @ matrix.T

    clipped.defvjp(lambda matrix, x: (x @ matrix, (matrix, x)), backward)
    with scope("clip1"):
        x = jnp.tanh(clipped(of["clip1"], x))
    with scope("clip2"):
        return clipped(of["clip2"], x)


BLOCK = {"qkv": (64, 192), "out": (64, 64), "up": (64, 256), "down": (256, 64)}
NETWORKS = {
    mlp: ((32, 96), {"first": (96, 80), "second": (80, 112), "last": (112, 64)}),
    cnn: ((8, 32, 32, 3), {"conv1": (3, 3, 3, 16), "conv2": (3, 3, 16, 24), "head": (8 * 8 * 24, 40)}),
    mobile: ((8, 16, 16, 3), {"stem": (3, 3, 3, 8), "depth": (3, 3, 1, 8), "point": (1, 1, 8, 24)}),
    unet: ((4, 16, 16, 4), {"down": (3, 3, 4, 16), "up": (2, 2, 16, 8), "out": (3, 3, 12, 4)}),
    transformer: ((4, 48, 64), {block + name: shape for block in ("block0", "block1") for name, shape in BLOCK.items()}),
    recurrent: ((16, 6, 48), {"input": (48, 64), "state": (64, 64), "head": (64, 40)}),
    residual: ((48, 64), {"a": (64, 96), "b": (96, 64), "c": (64, 96), "d": (96, 64)}),
    custom: ((48, 80), {"clip1": (80, 64), "clip2": (64, 96)})}


def compiled(network):
    """Its training step, weights and inputs."""
    random = numpy.random.default_rng(1)
    inputs, weights = jax.tree.map(lambda shape: 0.1 * random.standard_normal(shape, numpy.float32), NETWORKS[network],
                                   is_leaf=lambda sizes: isinstance(sizes, tuple) and isinstance(sizes[0], int))

    def loss(of, x):
        with scope(network.__name__) if network != mlp else contextlib.nullcontext():
            return jnp.mean(network(of, x) ** 2)

    def step(of, x):
        gradients = jax.grad(loss)(of, x)
        return jax.tree.map(lambda p, g: p - 0.01 * g, of, gradients)

    step.__name__ = network.__name__
    return jax.jit(step).lower(weights, inputs).compile(), weights, inputs


def parts_of_runs(program, folder):
    """{"transformer/up forward": nanoseconds} of each run of the program, by a trace of the user's and the program's text."""
    names = dict(re.findall(r"^ *(?:ROOT )?%(\S+) = .*?metadata=\{op_name=\"([^\"]*)\"", program.as_text(), re.MULTILINE))
    runs = collections.defaultdict(collections.Counter)
    for stats, nanoseconds in operations(folder, "jit_transformer"):
        name = names.get(stats["hlo_op"], "")
        layer = "/".join(re.sub(r"\w+\(|\)", "", part) for part in name.split("/")[1:-1])
        runs[stats["run_id"]][layer + (" backward" if "transpose(" in name else " forward")] += nanoseconds
    return list(runs.values())


def main():
    folder = sys.argv[1]
    trained = [compiled(network) for network in NETWORKS]

    def train():
        for step, weights, inputs in trained:
            jax.block_until_ready(step(weights, inputs))

    for number in map(str, range(TURNS)):
        until_recorded(train, STEPS)
        with jax.profiler.trace(os.path.join(folder, number)):
            for _ in range(STEPS):
                train()
    program = trained[list(NETWORKS).index(transformer)][0]
    print(json.dumps([run for number in os.listdir(folder) for run in parts_of_runs(program, os.path.join(folder, number))]))


if __name__ == "__main__":
    main()
