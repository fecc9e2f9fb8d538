"""A network with named scopes, which trains until some steps lay within windows of dlhook's; then ends as asked.

named.py raise | leave | profiler FOLDER | sizes NUMBER | gpu
"""

import os
import sys
import threading
import time
import types

import jax
import jax.numpy as jnp
import numpy
from jax._src import xla_bridge
from jaxlib import _profiler

STEPS = 5  # in windows
LONGEST = 100  # seconds, without dlhook


def convolve(weights, images):
    images = jax.lax.conv_general_dilated(images, weights, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jax.nn.relu(images)


def head(weights, features):
    return features @ weights


def loss(parameters, images):
    with jax.named_scope("stem"):
        images = convolve(parameters["stem"], images)
    with jax.named_scope("body"):
        images = convolve(parameters["body"], images)
    with jax.named_scope("head"):
        return jnp.mean(head(parameters["head"], images.reshape(images.shape[0], -1)) ** 2)


@jax.jit
def train_step(parameters, images):
    value, gradients = jax.value_and_grad(loss)(parameters, images)
    return jax.tree.map(lambda p, g: p - 0.01 * g, parameters, gradients), value


def weights(*shape):
    return 0.05 * jax.random.normal(jax.random.PRNGKey(0), shape)


def window_is_open():
    """dlhook's window lets the program's own session through by a function in the place of the class."""
    return isinstance(_profiler.ProfilerSession, types.BuiltinFunctionType)


def until_recorded(step, steps=STEPS):
    end = time.time() + LONGEST
    recorded = 0
    while recorded < steps and time.time() < end:
        if not window_is_open():
            time.sleep(0.005)
            continue
        step()
        recorded += window_is_open()


class Training:
    def __init__(self):
        self.parameters = {"stem": weights(3, 3, 3, 32), "body": weights(3, 3, 32, 64), "head": weights(8 * 8 * 64, 64)}
        self.images = weights(16, 32, 32, 3)

    def step(self):
        self.parameters, value = train_step(self.parameters, self.images)
        value.block_until_ready()


def operations(folder, program):
    """What XLA's operations say of themselves and how long they took, by a trace of the user's."""
    (path,) = (os.path.join(at, file) for at, _, files in os.walk(folder) for file in files if file.endswith(".xplane.pb"))
    for plane in jax.profiler.ProfileData.from_file(path).planes:
        for line in plane.lines:
            for event in line.events:
                stats = dict(event.stats)
                if "hlo_op" in stats and stats["hlo_module"] == program:
                    yield stats, event.duration_ns


def runs_in(folder):
    """How often the training step ran."""
    return len({stats["run_id"] for stats, _ in operations(folder, "jit_train_step")})


def profile(training, folder):
    """In the middle of a window of dlhook's."""
    until_recorded(training.step, 1)
    with jax.profiler.trace(folder):
        for _ in range(3):
            training.step()
    print(runs_in(folder), flush=True)


def change_sizes(training, number):
    """The step is compiled again for each."""
    for size in range(1, number + 1):
        training.images = numpy.ones((size, 32, 32, 3), numpy.float32)
        training.step()


def pretend_gpu():
    """JAX's list of backends has one besides the CPU's. Says whether dlhook opens a window all the same."""
    xla_bridge.backends()["cuda"] = xla_bridge.backends()["cpu"]
    training = Training()
    end = time.time() + 3
    was_open = False
    while time.time() < end:
        training.step()
        was_open |= window_is_open()
    print(was_open)


def main():
    mode = sys.argv[1]
    if mode == "gpu":
        return pretend_gpu()
    training = Training()
    thread = threading.Thread(target=until_recorded, args=(training.step,))
    thread.start()
    thread.join()
    if mode == "profiler":
        profile(training, os.path.join(sys.argv[2], "1"))
        profile(training, os.path.join(sys.argv[2], "2"))
        until_recorded(training.step, 1)
        jax.profiler.start_server(0)
        print(window_is_open(), flush=True)
    if mode == "sizes":
        change_sizes(training, int(sys.argv[2]))
    print("trained", flush=True)
    if mode == "raise":
        raise ValueError("as asked")
    if mode == "leave":
        child = os.fork()
        if child == 0:
            os._exit(5)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        os._exit(4)


if __name__ == "__main__":
    main()
