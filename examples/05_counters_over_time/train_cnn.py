"""Trains a small CNN on random images with Keras on TensorFlow. Unaware of dlhook.

Usage: train_cnn.py [--steps N] [--batch N]
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras  # pylint: disable=wrong-import-position
import numpy as np  # pylint: disable=wrong-import-position
import tensorflow as tf  # pylint: disable=wrong-import-position
from keras import layers  # pylint: disable=wrong-import-position


def cnn():
    return keras.Sequential([
        keras.Input((64, 64, 3)),
        layers.Conv2D(32, 3, padding="same", activation="relu", name="conv1"),
        layers.MaxPooling2D(2, name="pool1"),
        layers.Conv2D(64, 3, padding="same", activation="relu", name="conv2"),
        layers.MaxPooling2D(2, name="pool2"),
        layers.Flatten(name="flatten"),
        layers.Dense(64, activation="relu", name="fc1"),
        layers.Dense(10, name="fc2"),
    ], name="cnn")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args()

    keras.utils.set_random_seed(1)
    model = cnn()
    model.compile(optimizer=keras.optimizers.SGD(0.01),
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    images = np.random.default_rng(1).standard_normal((options.batch, 64, 64, 3), dtype=np.float32)
    labels = np.arange(options.batch) % 10
    steps = tf.data.Dataset.from_tensors((images, labels)).repeat(options.steps)
    history = model.fit(steps, epochs=1, shuffle=False, verbose=0)
    print(f"mean loss {history.history['loss'][-1]:.3f} over {options.steps} steps of {options.batch} images")


if __name__ == "__main__":
    main()
