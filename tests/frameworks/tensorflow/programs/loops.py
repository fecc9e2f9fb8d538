"""Functions of TensorFlow's: loops.py times | keras | executions | steps | requests | layers | curve. A loop in one is over the time steps
of an own recurrent network, over those of a layer of Keras, also of several batches in one call, or over training steps; requests:
over time steps, without training; layers: each has a function of its own; curve: plain arithmetic, without products."""

import sys

import tensorflow as tf

STEPS, EPOCHS, IN_ONE_CALL, REQUESTS = 20, 2, 15, 25
TIMES, ROWS, FEATURES, HIDDEN, CLASSES = 6, 8, 16, 32, 10

recurrent = tf.Variable(tf.random.normal([HIDDEN, HIDDEN]) / HIDDEN)
entering = tf.Variable(tf.random.normal([FEATURES, HIDDEN]) / HIDDEN)
leaving = tf.Variable(tf.random.normal([HIDDEN, CLASSES]) / HIDDEN)
weights = [recurrent, entering, leaving]
optimizer = tf.keras.optimizers.SGD(0.01)
optimizer.build(weights)
rows = tf.random.normal([ROWS, TIMES, FEATURES])
labels = tf.zeros([ROWS], tf.int32)


def hidden_state():
    state = tf.zeros([ROWS, HIDDEN])
    for time in tf.range(TIMES):
        state = tf.tanh(tf.matmul(state, recurrent) + tf.matmul(rows[:, time, :], entering))
    return state


@tf.function
def one_step():
    with tf.GradientTape() as tape:
        logits = tf.matmul(hidden_state(), leaving)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))


@tf.function
def many_steps(count):
    for _ in tf.range(count):
        with tf.GradientTape() as tape:
            logits = tf.matmul(tf.nn.relu(tf.matmul(rows[:, 0, :], entering)), leaving)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        optimizer.apply_gradients(zip(tape.gradient(loss, weights[1:]), weights[1:]))


def layer_of_keras(optimizer_name, batches):
    model = tf.keras.Sequential([tf.keras.layers.Input((TIMES, FEATURES)), tf.keras.layers.LSTM(HIDDEN, name="cells"),
                                 tf.keras.layers.Dense(CLASSES, name="head")])
    model.compile(optimizer_name, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  steps_per_execution=batches)
    model.fit(tf.repeat(rows, STEPS, 0), tf.repeat(labels, STEPS), batch_size=ROWS, epochs=EPOCHS, verbose=0)


def layers_with_functions():
    layers = [tf.keras.layers.Dense(HIDDEN, activation="relu"), tf.keras.layers.Dense(CLASSES)]
    functions = [tf.function(layer) for layer in layers]
    apply = tf.function(lambda gradients: optimizer_of_layers.apply_gradients(zip(gradients, parameters)))
    for layer, width in zip(layers, (FEATURES, HIDDEN)):
        layer.build((None, width))
    parameters = [one for layer in layers for one in layer.trainable_variables]
    optimizer_of_layers = tf.keras.optimizers.SGD(0.01)
    optimizer_of_layers.build(parameters)
    for _ in range(STEPS):
        with tf.GradientTape() as tape:
            logits = functions[1](functions[0](rows[:, 0, :]))
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        apply(tape.gradient(loss, parameters))


@tf.function
def fit_curve(points, factor, power):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((factor * points + tf.exp(power) - tf.sin(3 * points)) ** 2)
    optimizer_of_curve.apply_gradients(zip(tape.gradient(loss, [factor, power]), [factor, power]))


@tf.function
def request():
    return hidden_state()


if sys.argv[1] == "times":
    for _ in range(STEPS):
        one_step()
elif sys.argv[1] == "keras":
    layer_of_keras("adam", 1)
elif sys.argv[1] == "executions":
    layer_of_keras("rmsprop", 4)
elif sys.argv[1] == "layers":
    layers_with_functions()
elif sys.argv[1] == "steps":
    for _ in range(2):
        many_steps(tf.constant(IN_ONE_CALL))
elif sys.argv[1] == "curve":
    curve = [tf.Variable(1.0), tf.Variable(0.0)]
    optimizer_of_curve = tf.keras.optimizers.Adam(0.01)
    optimizer_of_curve.build(curve)
    for _ in range(STEPS):
        fit_curve(tf.linspace(0.0, 1.0, 1000), *curve)
else:
    for _ in range(REQUESTS):
        request()
