"""Trains a small classifier in PyTorch on images that NumPy whitens.

  --whiten-once  learns the whitening once before the training instead of for every batch
"""

import argparse

import numpy as np
import torch

SIDE = 16
PIXELS = SIDE * SIDE


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(PIXELS, 128)
        self.out = torch.nn.Linear(128, 10)

    def forward(self, x):
        x = torch.relu(self.hidden(x))
        return self.out(x)


def learn_whitening(images):
    """The matrix that makes the pixels of `images` uncorrelated."""
    centered = images - images.mean(axis=0)
    covariance = np.dot(centered.T, centered) / len(images)
    values, vectors = np.linalg.eigh(covariance + 1e-2 * np.eye(PIXELS, dtype=np.float32))
    return np.dot(vectors / np.sqrt(values), vectors.T).astype(np.float32)


def prepare(batch, all_images, whitening):
    if whitening is None:
        whitening = learn_whitening(all_images)
    return np.dot(batch, whitening)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whiten-once", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)  # its products are too small for more
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    images = rng.random((2000, PIXELS), dtype=np.float32)
    labels = torch.from_numpy(rng.integers(0, 10, len(images)))
    whitening = learn_whitening(images) if options.whiten_once else None
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(20):
        chosen = slice(100 * step, 100 * (step + 1))
        batch = torch.from_numpy(prepare(images[chosen], images, whitening))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch), labels[chosen])
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
