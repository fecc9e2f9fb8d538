"""A training step of TensorFlow: each operation called from Python, or as one function. op_by_op.py victim|advised"""

import sys

import tensorflow as tf

layers = [tf.keras.layers.Dense(32, activation="relu") for _ in range(3)]
model = tf.keras.Sequential([*layers, tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam()
model(tf.zeros((8, 16)))
optimizer.build(model.trainable_variables)


def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))


if sys.argv[1] == "advised":
    step = tf.function(step)
for _ in range(30):
    step(tf.ones((8, 16)), tf.ones((8, 1)))
