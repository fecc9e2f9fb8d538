"""Trains a network that is written for one sample, by vmap, until some steps lay within windows of dlhook's: XLA names its
products after the transposes around them."""

import jax
import jax.numpy as jnp

from named import until_recorded, weights

layers = [(weights(48, 40), weights(48)), (weights(48, 48), weights(48)), (weights(10, 48), weights(10))]


def network(parameters, x):
    for matrix, bias in parameters[:-1]:
        x = jax.nn.relu(matrix @ x + bias)
    matrix, bias = parameters[-1]
    return matrix @ x + bias


@jax.jit
def train_step(parameters, x, y):
    value, gradients = jax.value_and_grad(lambda p: jnp.mean((jax.vmap(network, (None, 0))(p, x) - y) ** 2))(parameters)
    return jax.tree.map(lambda p, g: p - 0.01 * g, parameters, gradients), value


def step():
    global layers
    layers, value = train_step(layers, jax.random.normal(jax.random.PRNGKey(1), (24, 40)), jnp.zeros((24, 10)))
    jax.block_until_ready(value)


until_recorded(step, 8)
print("trained")
