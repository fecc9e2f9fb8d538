"""Networks whose passes come in series: pass_series.py library|loops|flat. A series has 5 passes."""
import sys

import torch

torch.manual_seed(0)
network = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)).eval()
kind = sys.argv[1]
with torch.inference_mode():
    if kind == "library":
        import denoiser  # of site-packages, written by the test
        for _ in range(6):
            image = denoiser.denoise(network)  # the call
    elif kind == "loops":
        for _ in range(6):
            state = torch.randn(8, 64)  # the round
            for _ in range(5):
                state = state + network(state)
    else:  # a metric behind each fifth pass
        for index in range(30):
            state = network(torch.ones(8, 64))
            if index % 5 == 4:
                print(float(state.abs().mean()))
