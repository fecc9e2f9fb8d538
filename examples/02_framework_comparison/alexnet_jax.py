"""Trains AlexNet (one column, 227x227 images) on random images with JAX. Unaware of dlhook.

Usage: alexnet_jax.py [--steps N] [--batch N]
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# name: (kernel height and width, channels in, channels out, stride, padding), pooled after it
CONVOLUTIONS = {
    "conv1": ((11, 3, 64, 4, "VALID"), True),
    "conv2": ((5, 64, 192, 1, "SAME"), True),
    "conv3": ((3, 192, 384, 1, "SAME"), False),
    "conv4": ((3, 384, 256, 1, "SAME"), False),
    "conv5": ((3, 256, 256, 1, "SAME"), True),
}
LINEAR = {"fc1": (256 * 6 * 6, 4096), "fc2": (4096, 4096), "fc3": (4096, 1000)}


def parameters(seed):
    random = np.random.default_rng(seed)

    def layer(*shape):
        scale = 1 / np.sqrt(np.prod(shape[:-1]))
        return {"weights": jnp.asarray(random.standard_normal(shape, dtype=np.float32) * scale),
                "bias": jnp.zeros(shape[-1])}

    layers = {name: layer(size, size, channels, outputs)
              for name, ((size, channels, outputs, _, _), _) in CONVOLUTIONS.items()}
    return layers | {name: layer(*shape) for name, shape in LINEAR.items()}


def forward(layers, x):
    for name, ((_, _, _, stride, padding), pooled) in CONVOLUTIONS.items():
        with jax.named_scope(name):
            x = lax.conv_general_dilated(x, layers[name]["weights"], (stride, stride), padding,
                                         dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = jax.nn.relu(x + layers[name]["bias"])
        if pooled:
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape(len(x), -1)
    for name in LINEAR:
        with jax.named_scope(name):
            x = x @ layers[name]["weights"] + layers[name]["bias"]
            if name != "fc3":
                x = jax.nn.relu(x)
    return x


def loss_of(layers, images, labels):
    logits = jax.nn.log_softmax(forward(layers, images))
    return -jnp.take_along_axis(logits, labels[:, None], axis=1).mean()


@jax.jit
def train_step(layers, images, labels):
    loss, gradients = jax.value_and_grad(loss_of)(layers, images, labels)
    return jax.tree.map(lambda value, gradient: value - 0.01 * gradient, layers, gradients), loss


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=8)
    options = parser.parse_args()

    layers = parameters(1)
    images = np.random.default_rng(1).standard_normal((options.batch, 227, 227, 3), dtype=np.float32)
    labels = np.arange(options.batch) % 1000
    for _ in range(options.steps):
        layers, loss = train_step(layers, images, labels)
    print(f"JAX {jax.__version__}: loss {loss:.3f} after {options.steps} steps of {options.batch} images")


if __name__ == "__main__":
    main()
