"""step_kinds.py FOLDER LOOP...: programs whose steps of several kinds alternate or follow each other, each in its own
forked process: PyTorch is imported once. Writes the process id and each step's description to FOLDER/LOOP.json, as
JSON: [kind, batch, micro steps], with threads one list per thread."""

import json
import os
import sys
import tempfile
import threading
import warnings

import torch
import torch.distributed as dist
from torch import nn
import torch.nn.functional as F

torch.manual_seed(1)
torch.set_num_threads(1)
STEPS = []


class Net(nn.Module):
    def __init__(self, width=32, outputs=10):
        super().__init__()
        self.fc1 = nn.Linear(20, width)
        self.fc2 = nn.Linear(width, 2 * width)
        self.fc3 = nn.Linear(2 * width, outputs)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class Wide(Net):
    def __init__(self):
        super().__init__(width=64)


class Wider(Net):
    def __init__(self):
        super().__init__(width=128)


class Teacher(Net):
    pass


def note(kind, batch, micro_steps=None, steps=None):
    (STEPS if steps is None else steps).append([kind, batch, micro_steps])


def batch_of(size):
    return torch.randn(size, 20), torch.randint(0, 10, (size,))


def train(net, optimizer, size=8, micro_steps=1, steps=None):
    optimizer.zero_grad()
    for _ in range(micro_steps):
        x, y = batch_of(size)
        F.cross_entropy(net(x), y).backward()
    optimizer.step()
    note("training", size, micro_steps, steps)


def evaluate(net, size=16, rounds=1):
    net.eval()
    with torch.no_grad():
        for _ in range(rounds):
            x, y = batch_of(size)
            (net(x).argmax(1) == y).float().mean().item()
            note("validation", size)
    net.train()


def sgd(net):
    return torch.optim.SGD(net.parameters(), lr=0.01)


def evaluation_each_round():
    net = Net()
    optimizer = sgd(net)
    for _ in range(12):
        train(net, optimizer)
        evaluate(net)


def evaluation_first_each_round():
    net = Net()
    optimizer = sgd(net)
    for _ in range(12):
        evaluate(net)
        train(net, optimizer)


def evaluation_of_the_same_batch():
    """With batches as large as in training, in each round."""
    net = Net()
    optimizer = sgd(net)
    for _ in range(12):
        train(net, optimizer)
        evaluate(net, 8)


def evaluation_after_accumulation():
    net = Net()
    optimizer = sgd(net)
    for _ in range(8):
        train(net, optimizer, micro_steps=3)
        evaluate(net, rounds=2)


def evaluation_before_training():
    net = Net()
    optimizer = sgd(net)
    evaluate(net, rounds=4)
    for _ in range(8):
        train(net, optimizer)


def evaluation_now_and_then():
    net = Net()
    optimizer = sgd(net)
    for i in range(20):
        train(net, optimizer)
        if i % 4 == 3:
            evaluate(net, rounds=2)


def teacher():
    """An untrained network provides the targets for the other."""
    taught, net = Teacher().eval(), Net()
    optimizer = sgd(net)
    for i in range(12):
        x, _ = batch_of(8)
        with torch.no_grad():
            target = taught(x)
        optimizer.zero_grad()
        F.mse_loss(net(x), target).backward()
        optimizer.step()
        note("training", 8, 1)
        if i % 3 == 2:
            evaluate(net)


def inference_after_one_call():
    Net()(torch.randn(1, 20))
    net = Wide().eval()
    with torch.no_grad():
        for _ in range(200):
            net(torch.randn(4, 20))
            note("inference", 4)


def shared_module():
    """One activation object in two networks."""
    activation = nn.ReLU()

    class Sharing(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.Sequential(nn.Linear(20, 32), activation, nn.Linear(32, 32), activation, nn.Linear(32, 2))

        def forward(self, x):
            return self.parts(x)

    with torch.no_grad():
        for net, requests in ((Sharing(), 1), (Sharing(), 40)):
            for _ in range(requests):
                net(torch.randn(4, 20))
                note("inference", 4)


def quantized():
    warnings.simplefilter("ignore")
    net = Net().eval()
    net(torch.randn(2, 20))
    quantized_net = torch.ao.quantization.quantize_dynamic(net, {nn.Linear}, dtype=torch.qint8)
    with torch.no_grad():
        for _ in range(200):
            quantized_net(torch.randn(4, 20))
            note("inference", 4)


def sweep():
    """Three trainings after one another."""
    for kind, size in ((Net, 8), (Wide, 16), (Wider, 32)):
        net = kind()
        optimizer = sgd(net)
        for _ in range(10):
            train(net, optimizer, size)


def sweep_of_one_class():
    """The same class, other widths and batches."""
    for width, size in ((32, 8), (64, 16), (128, 32)):
        net = Net(width)
        optimizer = sgd(net)
        for _ in range(10):
            train(net, optimizer, size)


def in_threads(work):
    """Two threads, each with its own steps; WORK(number, steps)."""
    lists = [[], []]
    threads = [threading.Thread(target=work, args=(i, lists[i]), name=f"worker{i}") for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    STEPS.extend(lists)


def training_in_threads():
    def work(number, steps):
        net = (Net, Wide)[number]()
        optimizer = sgd(net)
        for _ in range(15):
            train(net, optimizer, (8, 16)[number], steps=steps)
    in_threads(work)


def serving_in_threads():
    def work(number, steps):
        net = (Net, Wide)[number]().eval()
        with torch.no_grad():
            for _ in range(20):
                net(torch.randn((4, 2)[number], 20))
                note("inference", (4, 2)[number], steps=steps)
    in_threads(work)


def lbfgs():
    net = Net()
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=4)
    for _ in range(8):
        x, y = batch_of(8)
        calls = []

        def closure(x=x, y=y, calls=calls):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            calls.append(1)
            return loss
        optimizer.step(closure)
        note("training", 8, len(calls))


def averaged_weights():
    """Validated each sixth round, before the next step begins."""
    net = Net()
    average = torch.optim.swa_utils.AveragedModel(net)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    for round_ in range(24):
        train(net, optimizer)
        average.update_parameters(net)
        if round_ % 6 == 5:
            with torch.no_grad():
                average(batch_of(16)[0])
            note("validation", 16)


def two_heads():
    """Each with a backward pass of its own."""
    body, heads = nn.Linear(20, 32), [nn.Linear(32, 10), nn.Linear(32, 1)]
    optimizer = torch.optim.SGD([*body.parameters(), *heads[0].parameters(), *heads[1].parameters()], 1e-3)
    for _ in range(12):
        x, y = batch_of(8)
        features = F.relu(body(x))
        optimizer.zero_grad()
        F.cross_entropy(heads[0](features), y).backward(retain_graph=True)
        heads[1](features).square().mean().backward()
        optimizer.step()
        note("training", 8, 2)


def fit(update):
    """Plain arithmetic: neither modules nor products."""
    x = torch.linspace(0, 1, 1000)
    y, a, b = torch.sin(3 * x), torch.tensor(1.0, requires_grad=True), torch.tensor(0.0, requires_grad=True)
    update = update(a, b)
    for _ in range(12):
        ((a * x + b.exp() - y) ** 2).mean().backward()
        update()
        a.grad = b.grad = None
        note("training", None, 1)


def fit_curve():
    fit(lambda a, b: torch.optim.Adam([a, b], lr=0.01).step)


def fit_with_an_optimizer_for_each():
    """As Pyro does."""
    def update_of(*parameters):
        optimizers = [torch.optim.Adam([each], lr=0.01) for each in parameters]
        return lambda: [optimizer.step() for optimizer in optimizers]
    fit(update_of)


def busy_closure():
    """Lightning calls every optimizer with a closure. A callback in it multiplies gradients."""
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)

    def closure():
        optimizer.zero_grad()
        x, y = batch_of(8)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        for layer in (net.fc1, net.fc2, net.fc3):
            torch.mm(layer.weight.grad, layer.weight.grad.T)
        return loss
    for _ in range(8):
        optimizer.step(closure)
        note("training", 8, 1)


def validates_nothing():
    """The shapes of a lazy module, a weight that someone looks at, and a pass that an exception ends."""
    net = nn.Sequential(nn.LazyLinear(32), nn.ReLU(), nn.utils.parametrizations.spectral_norm(nn.Linear(32, 10)))
    net(torch.zeros(1, 20))
    optimizer = sgd(net)
    for _ in range(8):
        train(net, optimizer)
        net[2].weight.norm()

    def stop(*_):
        raise KeyboardInterrupt
    net[1].register_forward_pre_hook(stop)
    try:
        net(torch.zeros(8, 20))
    except KeyboardInterrupt:
        pass


def one_sample():
    net = Net().eval()
    with torch.no_grad():
        for _ in range(40):
            net(torch.randn(1, 20))
            note("inference", 1)


def convolutions_of_one_sample():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Flatten(), nn.Linear(8 * 8 * 8, 10)).eval()
    with torch.no_grad():
        for _ in range(40):
            net(torch.randn(1, 3, 12, 12))
            note("inference", 1)


def distributed():
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method="file://" + os.path.join(folder, "store"), rank=0, world_size=1)
        net = nn.parallel.DistributedDataParallel(Net())
        optimizer = sgd(net)
        for _ in range(8):
            train(net, optimizer)
        dist.destroy_process_group()


def named_ranges():
    """The program marks its own phases."""
    net = Net()
    optimizer = sgd(net)
    for _ in range(8):
        with torch.profiler.record_function("train_step"):
            train(net, optimizer)
        with torch.profiler.record_function("eval_step"):
            evaluate(net)


def import_what_is_imported_late():
    weights = torch.zeros(1, requires_grad=True)
    weights.sum().backward()
    torch.optim.SGD([weights]).step()
    assert torch.ao.quantization


def main():
    import_what_is_imported_late()
    for loop in sys.argv[2:]:
        child = os.fork()
        if child != 0:
            _, status = os.waitpid(child, 0)
            if status != 0:
                sys.exit(f"{loop}: {status}")
            continue
        globals()[loop]()
        with open(os.path.join(sys.argv[1], loop + ".json"), "w", encoding="utf-8") as file:
            json.dump([os.getpid(), STEPS], file)
        return


if __name__ == "__main__":
    main()
