"""A small CNN in Keras, trained by `fit` and asked by `predict`, on the backend that KERAS_BACKEND names.

keras_cnn.py BATCHES [EPOCHS]: so many epochs more, each validated
"""

import sys

import keras
import numpy as np
from keras import layers

BATCH = 8
batches = int(sys.argv[1])
keras.utils.set_random_seed(0)
model = keras.Sequential(
    [
        keras.Input((16, 16, 3)),
        layers.Conv2D(8, 3, padding="same", activation="relu", name="conv1"),
        layers.MaxPooling2D(name="pool1"),
        layers.Conv2D(16, 3, padding="same", activation="relu", name="conv2"),
        layers.Flatten(name="flatten"),
        layers.Dense(20, activation="relu", name="fc1"),
        layers.Dense(10, name="fc2"),
    ],
    name="small",
)
random = np.random.default_rng(0)
images, labels = random.random((BATCH * batches, 16, 16, 3), np.float32), random.integers(0, 10, BATCH * batches)
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(images, labels, batch_size=BATCH, shuffle=False, verbose=0)
if len(sys.argv) > 2:
    model.fit(images, labels, batch_size=BATCH, epochs=int(sys.argv[2]), validation_data=(images[:BATCH], labels[:BATCH]), verbose=0)
model.predict(images, batch_size=BATCH, verbose=0)
print(keras.backend.backend(), *(layer.name for layer in model.layers))
