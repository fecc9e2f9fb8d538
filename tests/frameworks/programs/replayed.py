"""replayed.py FORMAT STEPS: trains convolutions, also a transposed one, a recurrent and a linear layer, in this memory format."""

import sys

import torch
from torch import nn


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, stride=2)
        self.up = nn.ConvTranspose2d(32, 8, 3, stride=2, output_padding=1)
        self.lstm, self.fc = nn.LSTM(15 * 15, 24, batch_first=True), nn.Linear(32 * 24, 10)

    def forward(self, x):
        x = self.conv2(self.conv1(x).relu()).relu()
        up = self.up(x).mean()
        return self.fc(self.lstm(x.contiguous().flatten(2))[0].flatten(1)) + up


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    memory_format = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}[sys.argv[1]]
    model = Network().to(memory_format=memory_format)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(int(sys.argv[2])):
        x = torch.randn(4, 3, 32, 32).contiguous(memory_format=memory_format)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), torch.randint(0, 10, (4,))).backward()
        optimizer.step()


main()
