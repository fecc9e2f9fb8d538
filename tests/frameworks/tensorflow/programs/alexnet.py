"""AlexNet for small images in Keras. alexnet.py fit|loop|predict BATCHES [PROFILE.json]

Prints the model's layers, one per line. With a third argument TensorFlow's own profiler runs around a second round of the same
batches, and its events are written to the file: [[thread, name, start_ns, duration_ns], ...].
"""

import glob
import json
import os
import sys
import tempfile

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from tensorflow.python.profiler.internal._pywrap_traceme import TraceMe

mode, batches = sys.argv[1], int(sys.argv[2])
BATCH = 8
tf.config.threading.set_inter_op_parallelism_threads(1)
tf.config.threading.set_intra_op_parallelism_threads(1)
keras.utils.set_random_seed(0)


def conv(name, channels, kernel, **arguments):
    return layers.Conv2D(channels, kernel, padding="same", activation="relu", name=name, **arguments)


model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        conv("conv1", 64, 5, strides=2),
        layers.MaxPooling2D(name="pool1"),
        conv("conv2", 192, 3),
        layers.MaxPooling2D(name="pool2"),
        conv("conv3", 384, 3),
        conv("conv4", 256, 3),
        conv("conv5", 256, 3),
        layers.MaxPooling2D(name="pool5"),
        layers.Flatten(name="flatten"),
        layers.Dense(512, activation="relu", name="fc1"),
        layers.Dense(512, activation="relu", name="fc2"),
        layers.Dense(10, name="fc3"),
    ],
    name="alexnet",
)
random = np.random.default_rng(0)
images = random.random((BATCH * batches, 32, 32, 3), np.float32)
labels = random.integers(0, 10, BATCH * batches)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("sgd", loss)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        value = loss(y, model(x, training=True))
    model.optimizer.apply(tape.gradient(value, model.trainable_variables), model.trainable_variables)
    return value


def run():
    if mode == "fit":
        model.fit(images, labels, batch_size=BATCH, shuffle=False, verbose=0)
    elif mode == "predict":
        model.predict(images, batch_size=BATCH, verbose=0)
    else:
        model.optimizer.build(model.trainable_variables)
        for i in range(0, len(images), BATCH):
            step(tf.constant(images[i : i + BATCH]), tf.constant(labels[i : i + BATCH]))


def stat(plane, name):
    """A number that the profiler stores for a plane."""
    for value in plane.stats:
        if plane.stat_metadata[value.metadata_id].name == name:
            return value.uint64_value or value.int64_value
    raise KeyError(name)


def profiled_events(folder):
    """The events of the host's threads, which TensorFlow stores relative to the beginning of the session."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    (path,) = glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True)
    space = xplane_pb2.XSpace()
    with open(path, "rb") as file:
        space.ParseFromString(file.read())
    planes = {plane.name: plane for plane in space.planes}
    began = stat(planes["Task Environment"], "profile_start_time")
    host = planes["/host:CPU"]
    for line in host.lines:
        for event in line.events:
            start = began + line.timestamp_ns + event.offset_ps // 1000
            yield line.id, host.event_metadata[event.metadata_id].name, start, event.duration_ps // 1000


run()
if len(sys.argv) > 3:
    with tempfile.TemporaryDirectory() as log:
        TraceMe("before the session").Stop()
        before = TraceMe("begun before the session")
        tf.profiler.experimental.start(log)
        inside = TraceMe("in the session")
        run()
        inside.Stop()
        before.Stop()
        after = TraceMe("ended after the session")
        tf.profiler.experimental.stop()
        after.Stop()
        events = list(profiled_events(log))
    with open(sys.argv[3], "w", encoding="utf-8") as out:
        json.dump(events, out)
    run()
for layer in model.layers:
    print(layer.name)
