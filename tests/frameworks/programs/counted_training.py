"""counted_training.py STEPS: LeNet on two threads, its batches made by two workers of a DataLoader."""

import sys

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __len__(self):
        return 64 * int(sys.argv[1])

    def __getitem__(self, index):
        return torch.randn(1, 32, 32), index % 10


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


if __name__ == "__main__":
    torch.manual_seed(1)
    torch.set_num_threads(2)
    net = LeNet()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for images, labels in DataLoader(Images(), batch_size=64, num_workers=2):
        optimizer.zero_grad()
        F.cross_entropy(net(images), labels).backward()
        optimizer.step()
