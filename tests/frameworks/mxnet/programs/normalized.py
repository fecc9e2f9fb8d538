"""Products and local response normalization over SIZE channels: oneDNN has a fast one for 5. normalized.py SIZE"""

import sys

from mxnet import nd

images, weights = nd.ones((4, 32, 28, 28)), nd.ones((256, 256))
for _ in range(40):
    nd.dot(weights, weights)
    nd.LRN(images, nsize=int(sys.argv[1]))
    nd.waitall()
