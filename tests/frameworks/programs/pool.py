"""NumPy's products in the workers of a multiprocessing.Pool. pool.py spawn|fork|forkserver

Prints, as JSON, which process made which product: [pid, rows].
"""

import json
import multiprocessing
import os
import sys

import numpy as np


def work(rows):
    np.ones((rows, 30)) @ np.ones((30, 40))
    return os.getpid(), rows


if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    done = [work(10)]
    with multiprocessing.Pool(2) as pool:
        done += pool.map(work, range(11, 23), chunksize=1)
        pool.close()
        pool.join()
    done.append(work(24))
    print(json.dumps(done))
