"""A small network of Keras, compiled or run eagerly. run_eagerly.py victim|advised"""

import sys

import numpy as np
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(32, activation="relu") for _ in range(3)] + [tf.keras.layers.Dense(1)])
model.compile("sgd", "mse", run_eagerly=sys.argv[1] == "victim")
rows = np.ones((32 * 40, 16), np.float32)
model.fit(rows, rows.sum(1), batch_size=32, verbose=0)
