"""Products of NumPy arrays. numpy_products.py ROUNDS"""

import sys

import numpy as np

for _ in range(int(sys.argv[1])):
    single = np.ones((20, 30), np.float32) @ np.ones((30, 40), np.float32)
    double = np.ones((21, 31)) @ np.ones((31, 41))
    transposed = np.ones((30, 20)).T @ np.ones((30, 25))
    symmetric = np.ones((9, 5)) @ np.ones((9, 5)).T
    square = np.ones((6, 6))
    symmetric_itself = square @ square.T
    vector = np.ones((22, 32)) @ np.ones(32)
    complex_product = np.ones((3, 4), np.complex128) @ np.ones((4, 5), np.complex128)
print(single[0, 0], double[0, 0], transposed[0, 0], symmetric[0, 0], vector[0], complex_product[0, 0])
