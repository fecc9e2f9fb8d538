"""A module whose method calls its parts, as training_step of a LightningModule does; another one that is none of its parts."""

import torch
from torch import nn


class Autoencoder(nn.Module):
    def __init__(self, prior):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 16))
        self.decoder = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 64))
        self.head = nn.Linear(64, 64)
        self.prior = [prior]  # not a module of this one

    def training_step(self, batch):
        code = self.encoder(batch)
        restored = self.head(self.decoder(code))
        return nn.functional.mse_loss(restored, batch) + self.prior[0](code).square().mean()


def main():
    net = Autoencoder(nn.Sequential(nn.Linear(16, 16), nn.Tanh()))
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    for _ in range(12):
        optimizer.zero_grad()
        net.training_step(torch.randn(128, 64)).backward()
        optimizer.step()


main()
