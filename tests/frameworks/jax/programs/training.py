"""A jitted training step in JAX, for some steps. training.py mlp|cnn STEPS [hlo]

With `hlo` it trains nothing and prints what it would run, as a line of json: the products of the step's jaxpr and the
optimized program that XLA made of it. Sizes have no common factors that would hide a confusion.
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

BATCH = 24


def weights(*shapes):
    random = np.random.default_rng(1)
    return [jnp.asarray(random.standard_normal(shape, dtype=np.float32) * 0.1) for shape in shapes]


def mlp(layers, x):
    for weight in layers[:-1]:
        x = jnp.tanh(x @ weight)
    return x @ layers[-1]


def cnn(layers, x):
    for weight in layers[:2]:
        x = jax.nn.relu(lax.conv_general_dilated(x, weight, (2, 2), "SAME",
                                                 dimension_numbers=("NHWC", "HWIO", "NHWC")))
    return mlp(layers[2:], x.reshape(len(x), -1))


MODELS = {"mlp": (mlp, [(40, 30), (30, 20), (20, 10)], (BATCH, 40)),
          "cnn": (cnn, [(5, 5, 3, 16), (3, 3, 16, 32), (32 * 8 * 8, 28), (28, 10)], (BATCH, 32, 32, 3))}
model, shapes, input_shape = MODELS[sys.argv[1]]


def loss_of(layers, x, y):
    return jnp.mean((model(layers, x) - y) ** 2)


@jax.jit
def train_step(layers, x, y):
    gradients = jax.grad(loss_of)(layers, x, y)
    return [weight - 0.01 * gradient for weight, gradient in zip(layers, gradients)]


def products(jaxpr):
    """Shapes of the matrix products, and of the convolutions' weights, in this and all inner jaxprs."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            left, right = (variable.aval.shape for variable in equation.invars)
            ((of_left,), (_,)), _ = equation.params["dimension_numbers"]
            k = left[of_left]
            yield [int(np.prod(left)) // k, int(np.prod(right)) // k, k]
        for inner in core.jaxprs_in_params(equation.params):
            yield from products(inner)


layers = weights(*shapes)
x = np.random.default_rng(2).standard_normal(input_shape, dtype=np.float32)
y = np.zeros((BATCH, 10), dtype=np.float32)
if "hlo" in sys.argv:
    print(json.dumps({"jaxpr": list(products(jax.make_jaxpr(train_step)(layers, x, y).jaxpr)),
                      "program": train_step.lower(layers, x, y).compile().as_text()}))
else:
    for _step in range(int(sys.argv[2])):
        layers = train_step(layers, x, y)
        jax.block_until_ready(layers)
    print(f"{float(jnp.sum(layers[-1])):.4f}")
