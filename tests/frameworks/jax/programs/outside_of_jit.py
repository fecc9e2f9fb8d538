"""A training step of JAX, outside of jit or in it. outside_of_jit.py victim|advised"""

import sys
import time

import jax
import jax.numpy as jnp

weights = [jnp.eye(64) * 0.5 for _ in range(3)]


def loss(weights, x):
    for w in weights:
        x = jnp.tanh(x @ w)
    return (x**2).mean()


def step(weights, x):
    _, gradients = jax.value_and_grad(loss)(weights, x)
    return [w - 0.1 * g for w, g in zip(weights, gradients, strict=True)]


if sys.argv[1] == "advised":
    step = jax.jit(step)
x = jnp.ones((32, 64))
weights = step(weights, x)
end = time.monotonic() + 4  # operations are recorded once nothing was compiled for half a second
while time.monotonic() < end:
    weights = step(weights, x)
    weights[0].block_until_ready()
