"""Networks in JAX, trained for some steps. jax_networks.py mlp|cnn STEPS"""

import sys

import jax
import jax.numpy as jnp

kind, steps = sys.argv[1], int(sys.argv[2])
keys = jax.random.split(jax.random.key(0), 6)


def mlp(weights, x):
    for w in weights[:-1]:
        x = jax.nn.relu(x @ w)
    return x @ weights[-1]


def cnn(weights, x):
    for w in weights[:2]:
        x = jax.nn.relu(jax.lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))
    return x.reshape(x.shape[0], -1) @ weights[2]


network, shapes, inputs = {
    "mlp": (mlp, [(256, 128), (128, 64), (64, 10)], (32, 256)),
    "cnn": (cnn, [(3, 3, 3, 8), (3, 3, 8, 16), (8 * 8 * 16, 10)], (16, 32, 32, 3)),
}[kind]
weights = [jax.random.normal(key, shape) * 0.1 for key, shape in zip(keys, shapes)]
images, labels = jax.random.normal(keys[4], inputs), jax.random.randint(keys[5], inputs[:1], 0, 10)


@jax.jit
def step(weights, x, y):
    def loss(weights):
        return -jnp.take_along_axis(jax.nn.log_softmax(network(weights, x)), y[:, None], 1).mean()

    value, gradients = jax.value_and_grad(loss)(weights)
    return value, [w - 0.1 * g for w, g in zip(weights, gradients)]


for number in range(steps):
    value, weights = step(weights, images, labels)
    print(number, value.shape, flush=True)
