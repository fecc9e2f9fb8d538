"""A Keras model is asked for one row at a time. one_row.py SIDE; victim: with predict; advised: the model is called."""

import sys

import numpy as np
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.Input((24,)), tf.keras.layers.Dense(64, "relu"), tf.keras.layers.Dense(4)])
call = tf.function(model)
for _ in range(20):
    row = np.ones((1, 24), np.float32)
    if sys.argv[1] == "victim":
        model.predict(row, verbose=0)
    else:
        call(row).numpy()
