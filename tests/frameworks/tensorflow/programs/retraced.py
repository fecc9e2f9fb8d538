"""A tf.function whose batches change their size every four steps. retraced.py SIDE; advised: it is traced once."""

import sys

import tensorflow as tf

weights = tf.Variable(tf.random.normal((64, 64)))


def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.relu(x @ weights) ** 2)
    weights.assign_sub(0.001 * tape.gradient(loss, weights))


signature = [tf.TensorSpec((None, 64))] if sys.argv[1] == "advised" else None
function = tf.function(train_step, input_signature=signature)
for step in range(40):
    function(tf.random.normal((16 + step // 4, 64)))
