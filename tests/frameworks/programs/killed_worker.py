"""Runs steps until it is killed. killed_worker.py FRAMEWORK COUNTERS WAY

FRAMEWORK is numpy, torch or tensorflow. Each line "SLOT STEPS" of the standard input starts a worker and waits for its
end: WAY `fork` forks it from this process, which has imported the framework and done nothing else with it; `spawn`
starts a program of its own. The worker writes its process id into COUNTERS[2 * SLOT] and, after each step, the number
of finished ones into the next number. STEPS 0: without end.
"""

import mmap
import os
import subprocess
import sys

FRAMEWORK, PATH, WAY = sys.argv[1:4]


def numpy_step():
    import numpy as np
    a = np.ones((24, 24), np.float32)
    return lambda: a @ a


def torch_step():
    import torch
    torch.set_num_threads(1)
    convolution = torch.nn.Conv2d(3, 4, 3)
    linear = torch.nn.Linear(16, 8)
    images, rows = torch.ones(2, 3, 8, 8), torch.ones(4, 16)

    def step():
        convolution(images).sum().backward()
        linear(rows).sum().backward()
    return step


def tensorflow_step():
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    images, kernel, rows = tf.ones((2, 8, 8, 3)), tf.ones((3, 3, 3, 4)), tf.ones((16, 16))

    @tf.function
    def network():
        return tf.reduce_sum(tf.nn.conv2d(images, kernel, 1, "SAME")) + tf.reduce_sum(tf.matmul(rows, rows))
    return lambda: network().numpy()


STEPS = {"numpy": numpy_step, "torch": torch_step, "tensorflow": tensorflow_step}


def work(slot, steps):
    with open(PATH, "r+b") as file:
        counters = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
    counters[2 * slot] = os.getpid()
    step = STEPS[FRAMEWORK]()
    done = 0
    while steps == 0 or done < steps:
        step()
        done += 1
        counters[2 * slot + 1] = done


def fork(slot, steps):
    child = os.fork()
    if child == 0:
        work(slot, steps)
        os._exit(0)
    os.waitpid(child, 0)


def spawn(slot, steps):
    subprocess.call([sys.executable, __file__, FRAMEWORK, PATH, "work", str(slot), str(steps)])


if WAY == "work":
    work(int(sys.argv[4]), int(sys.argv[5]))
else:
    if WAY == "fork":
        __import__(FRAMEWORK)
    for line in sys.stdin:
        {"fork": fork, "spawn": spawn}[WAY](*map(int, line.split()))
        print("ended", flush=True)
