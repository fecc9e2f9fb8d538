"""Trains AlexNet (one column, 227x227 images) on random images with Keras on TensorFlow. Unaware of dlhook.

Usage: alexnet_keras.py [--steps N] [--batch N]
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras  # pylint: disable=wrong-import-position
import numpy as np  # pylint: disable=wrong-import-position
import tensorflow as tf  # pylint: disable=wrong-import-position
from keras import layers  # pylint: disable=wrong-import-position


def alexnet(classes=1000):
    return keras.Sequential([
        keras.Input((227, 227, 3)),
        layers.Conv2D(64, 11, strides=4, activation="relu", name="conv1"),
        layers.MaxPooling2D(3, 2, name="pool1"),
        layers.Conv2D(192, 5, padding="same", activation="relu", name="conv2"),
        layers.MaxPooling2D(3, 2, name="pool2"),
        layers.Conv2D(384, 3, padding="same", activation="relu", name="conv3"),
        layers.Conv2D(256, 3, padding="same", activation="relu", name="conv4"),
        layers.Conv2D(256, 3, padding="same", activation="relu", name="conv5"),
        layers.MaxPooling2D(3, 2, name="pool5"),
        layers.Flatten(name="flatten"),
        layers.Dense(4096, activation="relu", name="fc1"),
        layers.Dense(4096, activation="relu", name="fc2"),
        layers.Dense(classes, name="fc3"),
    ], name="alexnet")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=8)
    options = parser.parse_args()

    keras.utils.set_random_seed(1)
    model = alexnet()
    model.compile(optimizer=keras.optimizers.SGD(0.01),
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    images = np.random.default_rng(1).standard_normal((options.batch, 227, 227, 3), dtype=np.float32)
    labels = np.arange(options.batch) % 1000
    steps = tf.data.Dataset.from_tensors((images, labels)).repeat(options.steps)
    history = model.fit(steps, epochs=1, shuffle=False, verbose=0)
    print(f"TensorFlow {tf.__version__}: mean loss {history.history['loss'][-1]:.3f} over {options.steps} steps "
          f"of {options.batch} images")


if __name__ == "__main__":
    main()
