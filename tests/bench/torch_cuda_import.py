"""Imports torch and prints the cost, as one JSON object; figures_torch_cuda.py starts it.

cpu_ns: of the process from its start, including loading of preloaded libraries; wall_ns: of the import alone.
"""

import json
import os
import time

start = time.perf_counter_ns()
import torch  # noqa: E402, F401  pylint: disable=wrong-import-position,unused-import

times = {"cpu_ns": time.process_time_ns(), "wall_ns": time.perf_counter_ns() - start}
torch.cuda.synchronize()  # a call that dlhook records: shows that it was active
print(json.dumps(times), flush=True)
os._exit(0)  # the end of an interpreter that has loaded torch is not part of it
