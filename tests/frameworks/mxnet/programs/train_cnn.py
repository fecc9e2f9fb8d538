"""Trains a small convolutional network with MXNet's Gluon. train_cnn.py STEPS"""

import sys

import mxnet
from mxnet import autograd, gluon, nd

network = gluon.nn.HybridSequential()
network.add(gluon.nn.Conv2D(16, 3, padding=1, activation="relu", in_channels=8), gluon.nn.MaxPool2D(),
            gluon.nn.Dense(10, in_units=16 * 8 * 8))
network.initialize(mxnet.init.One())
trainer = gluon.Trainer(network.collect_params(), "sgd", {"learning_rate": 1e-6})
images = nd.ones((4, 8, 16, 16))
for step in range(int(sys.argv[1])):
    with autograd.record():
        loss = network(images).sum()
    loss.backward()
    trainer.step(4)
    nd.waitall()  # so that the output follows the step's lines
    print(f"step {step}: loss {loss.asscalar():.6g}", flush=True)
