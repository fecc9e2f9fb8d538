"""Several libraries in one process, one after another and then in threads at once. together.py FOLDER ROUNDS

FOLDER has PyTorch's packages, which are in a different virtual environment from TensorFlow's and JAX's.
"""

import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf
from scipy.linalg import blas

sys.path.append(sys.argv[1])
import torch  # pylint: disable=wrong-import-position

rounds = int(sys.argv[2])
torch.set_num_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
tf.config.threading.set_intra_op_parallelism_threads(1)
product_of_jax = jax.jit(lambda a, b: a.T @ b)  # XLA passes it to oneDNN
linear, convolution = torch.nn.Linear(48, 24), torch.nn.Conv2d(3, 8, 3)


def numpys():
    np.ones((20, 30), np.float32) @ np.ones((30, 40), np.float32)


def scipys():
    blas.sgemm(1.0, np.ones((21, 31), np.float32, order="F"), np.ones((31, 41), np.float32, order="F"))


def torchs():
    linear(torch.ones(32, 48)).sum().backward()
    convolution(torch.ones(2, 3, 16, 16)).sum().backward()


def tensorflows():
    tf.nn.conv2d(tf.ones((2, 17, 17, 3)), tf.ones((3, 3, 3, 8)), 1, "SAME")
    tf.linalg.matmul(tf.ones((22, 32)), tf.ones((32, 42)))


def jaxs():
    product_of_jax(jnp.ones((256, 32)), jnp.ones((256, 128))).block_until_ready()


WORK = (numpys, scipys, torchs, tensorflows, jaxs)


def repeat(work):
    for _ in range(rounds - 1):
        work()


for work in WORK:
    work()
threads = [threading.Thread(target=repeat, args=(work,)) for work in WORK]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("done")
