"""jax.lax.scan. new_body.py SIDE; victim: outside of jit, its body a new function in each call, with checks; advised: in jit."""

import sys

import jax
import jax.numpy as jnp


def smooth(w, xs):
    return jax.lax.scan(lambda h, x: (jnp.tanh(w * h + x), x), jnp.zeros(8), xs)[0]


jax.config.update("jax_enable_checks", sys.argv[1] == "victim")
step = smooth if sys.argv[1] == "victim" else jax.jit(smooth)
for i in range(12):
    step(jnp.full(8, 0.1 * i), jnp.full((20, 8), 0.1 * i)).block_until_ready()
