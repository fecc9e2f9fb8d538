"""Three models vote on the same photographs, each prepared on the CPU. Unaware of dlhook.

Usage: ensemble.py [--share-input] [--batches N] [--batch N] [--threads N]
  --share-input   prepare each batch once instead of once for each model
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

SIZE = 64  # of the images that the models expect
TO_OPPONENT = torch.tensor([[0.30, 0.59, 0.11], [0.50, -0.42, -0.08], [-0.17, -0.33, 0.50]])


class Preprocess(nn.Module):
    """Converts photographs from cameras (bytes, 180x240) to the models' input format."""

    def __init__(self):
        super().__init__()
        self.opponent_colors = nn.Conv2d(3, 3, 1, bias=False)
        self.opponent_colors.weight = nn.Parameter(TO_OPPONENT.reshape(3, 3, 1, 1), requires_grad=False)
        blur = torch.tensor([1.0, 4, 6, 4, 1]) / 16
        self.blur = nn.Conv2d(3, 3, 5, padding=2, groups=3, bias=False)
        self.blur.weight = nn.Parameter(torch.outer(blur, blur).expand(3, 1, 5, 5).clone(), requires_grad=False)

    def forward(self, photographs):
        images = self.blur(self.opponent_colors(photographs.float() / 255))
        images = F.interpolate(images, size=(SIZE, SIZE), mode="bilinear", antialias=True)
        return (images - images.mean((2, 3), keepdim=True)) / images.std((2, 3), keepdim=True)


class PlainNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                                      nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Linear(64 * 16 * 16, classes)

    def forward(self, images):
        return self.classifier(self.features(images).flatten(1))


class ResidualNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 5, stride=2, padding=2)
        self.conv1 = nn.Conv2d(32, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 32, 3, padding=1)
        self.classifier = nn.Linear(32, classes)

    def forward(self, images):
        x = F.relu(self.stem(images))
        x = F.relu(x + self.conv2(F.relu(self.conv1(x))))
        return self.classifier(x.mean((2, 3)))


class PatchNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, 96, 8, stride=8)
        self.mix = nn.Linear(96, 192)
        self.unmix = nn.Linear(192, 96)
        self.classifier = nn.Linear(96, classes)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = x + self.unmix(F.gelu(self.mix(x)))
        return self.classifier(x.mean(1))


def vote_alone(preprocess, models, photographs):
    return sum(model(preprocess(photographs)).softmax(1) for model in models)


def vote_shared(preprocess, models, photographs):
    images = preprocess(photographs)
    return sum(model(images).softmax(1) for model in models)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share-input", action="store_true")
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()

    torch.manual_seed(1)
    torch.set_num_threads(options.threads)
    preprocess = Preprocess().eval()
    models = [model(classes=10).eval() for model in (PlainNet, ResidualNet, PatchNet)]
    vote = vote_shared if options.share_input else vote_alone
    votes = torch.zeros(10)
    with torch.inference_mode():
        for _ in range(options.batches):
            photographs = torch.randint(256, (options.batch, 3, 180, 240), dtype=torch.uint8)
            votes += vote(preprocess, models, photographs).sum(0)
    print("votes:", *(f"{count:.3f}" for count in votes))


if __name__ == "__main__":
    main()
