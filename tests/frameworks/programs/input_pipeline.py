"""A small network in Keras, whose pipeline of tf.data sleeps in Python: input_pipeline.py STEPS"""

import sys
import time

import numpy
import tensorflow as tf


def read(number):
    time.sleep(0.01)
    return numpy.full(64, number % 7, numpy.float32)


def prepare(number):
    image = tf.numpy_function(read, [number], tf.float32)
    image.set_shape([64])
    return image, tf.cast(number % 10, tf.int32)


layers = [tf.keras.Input((64,)), tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10)]
model = tf.keras.Sequential(layers)
model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
data = tf.data.Dataset.range(100000).map(prepare, num_parallel_calls=2).batch(8).prefetch(1)
model.fit(data.take(int(sys.argv[1])), verbose=0)
