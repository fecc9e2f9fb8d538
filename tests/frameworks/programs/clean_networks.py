"""Networks as their frameworks' guides recommend to run them on a CPU: dlhook's findings must not report anything.

clean_networks.py NAME STEPS
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F

import torch_models

LAST = torch.channels_last


def images(count, channels, size):
    return torch.randn(count, channels, size, size).to(memory_format=LAST)


def adam(*models):
    return torch.optim.AdamW([p for model in models for p in model.parameters()], 1e-3, fused=True)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = self.block(3, 32), self.block(32, 64)
        self.middle, self.up = self.block(64, 128), nn.ConvTranspose2d(128, 64, 2, stride=2)
        self.up2, self.last_up = self.block(128, 64), nn.ConvTranspose2d(64, 32, 2, stride=2)
        self.up1, self.out = self.block(64, 32), nn.Conv2d(32, 2, 1)

    @staticmethod
    def block(inside, outside):
        return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(True),
                             nn.Conv2d(outside, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(True))

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        x = self.up(self.middle(F.max_pool2d(second, 2)))
        x = self.last_up(self.up2(torch.cat([x, second], 1)))
        return self.out(self.up1(torch.cat([x, first], 1)))


class ViT(nn.Module):
    def __init__(self, width=192, patch=8, size=64):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.position = nn.Parameter(torch.zeros(1, (size // patch) ** 2, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, F.gelu, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(width, 100)

    def forward(self, x):
        return self.head(self.encoder(self.patches(x).flatten(2).transpose(1, 2) + self.position).mean(1))


class Bert(nn.Module):
    def __init__(self, width=256, words=4000):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, F.gelu, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens))).flatten(0, 1)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm, self.head = nn.Embedding(2000, 128), nn.LSTM(128, 256, 2, batch_first=True), nn.Linear(256, 5)

    def forward(self, tokens):
        return self.head(self.lstm(self.embedding(tokens))[0][:, -1])


def cnn():
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def mlp():
    return nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))


def autoencoder():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 512), nn.ReLU(),
                         nn.Linear(512, 784))


def mobile():
    def block(inside, outside, stride):
        return [nn.Conv2d(inside, inside, 3, stride, 1, groups=inside, bias=False), nn.BatchNorm2d(inside), nn.ReLU6(True),
                nn.Conv2d(inside, outside, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU6(True)]

    return nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6(True), *block(32, 64, 1),
                         *block(64, 128, 2), *block(128, 128, 1), *block(128, 256, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(256, 100))


CLASSIFIERS = {  # name: (model, input, classes)
    "cnn": lambda: (cnn().to(memory_format=LAST), images(32, 3, 32), 10),
    "resnet": lambda: (torch_models.resnet18().to(memory_format=LAST), images(8, 3, 64), 10),
    "vit": lambda: (ViT().to(memory_format=LAST), images(8, 3, 64), 100),
    "bert": lambda: (Bert(), torch.randint(4000, (8, 64)), 4000),
    "lstm": lambda: (Lstm(), torch.randint(2000, (32, 32)), 5),
    "mlp": lambda: (mlp(), torch.randn(256, 784), 10),
    "mobile": lambda: (mobile().to(memory_format=LAST), images(16, 3, 64), 100),
}


def classify(name, steps):
    model, inputs, classes = CLASSIFIERS[name]()
    rows = model(inputs).shape[0]
    optimizer, labels = adam(model), torch.randint(classes, (rows,))
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()


def segment(steps):
    model, inputs = UNet().to(memory_format=LAST), images(4, 3, 64)
    optimizer, labels = adam(model), torch.randint(2, (4, 64, 64))
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()


def rebuild(steps):
    model, inputs = autoencoder(), torch.rand(256, 784)
    optimizer = adam(model)
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        F.mse_loss(model(inputs), inputs).backward()
        optimizer.step()


def gan(steps):
    generator = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 784), nn.Tanh())
    critic = nn.Sequential(nn.Linear(784, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1))
    ours, theirs = adam(generator), adam(critic)
    real, one, zero = torch.rand(256, 784), torch.ones(256, 1), torch.zeros(256, 1)
    for _ in range(steps):
        fake = generator(torch.randn(256, 64))
        theirs.zero_grad(set_to_none=True)
        loss = F.binary_cross_entropy_with_logits(critic(real), one)
        (loss + F.binary_cross_entropy_with_logits(critic(fake.detach()), zero)).backward()
        theirs.step()
        ours.zero_grad(set_to_none=True)
        F.binary_cross_entropy_with_logits(critic(fake), one).backward()
        ours.step()


def infer(name, steps):
    model, inputs, _ = CLASSIFIERS[name]()
    model.eval()
    with torch.inference_mode():
        for _ in range(steps):
            model(inputs)


def loaded(steps):
    """Like a loader of data in memory."""
    data = torch.utils.data.TensorDataset(torch.randn(64 * steps, 784), torch.randint(10, (64 * steps,)))
    model = mlp()
    optimizer = adam(model)
    for inputs, labels in torch.utils.data.DataLoader(data, batch_size=64, shuffle=True):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()


torch.manual_seed(0)
NAME, STEPS = sys.argv[1], int(sys.argv[2])
OTHERS = {"unet": segment, "autoencoder": rebuild, "gan": gan, "loader": loaded}
if NAME in OTHERS:
    OTHERS[NAME](STEPS)
elif NAME.endswith("_inference"):
    infer(NAME.removesuffix("_inference"), STEPS)
else:
    classify(NAME, STEPS)
