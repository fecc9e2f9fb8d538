"""torch|numpy CACHE_BYTES: runs problems of a recorded run again, alone. replay.cc runs it with the run's Python, as text.

Standard input: a line of JSON with the list of problems, then a line for each measurement: {"problem": 2, "format": "channels_last",
"type": "bfloat16", "mkldnn": false, "threads": 1, "cold": true}, all but the first as the run did if they are absent. Each is
answered with a line of JSON, {"failure": "…"} if it fails.
"""
import sys

sys.path[:] = [path for path in sys.path if path]  # nothing of the working folder
import ctypes
import functools
import importlib
import json
import os
import statistics
import tempfile
import time

ANSWERS, LOG = os.fdopen(os.dup(1), "w"), tempfile.TemporaryFile("w+b")
os.dup2(LOG.fileno(), 1)  # where oneDNN writes its log
DROPPED, LOGGED, COLD = 2, 12, 8  # calls of a measurement
ENOUGH_NS, SAMPLE_NS, FEWEST, MOST = 60_000_000, 200_000, 4, 200  # of a measurement; samples
bytearray(31 << 20)  # freed: from now on glibc keeps memory of tensors, as it does after the first steps of a program
framework = importlib.import_module(sys.argv[1])
torch = framework if sys.argv[1] == "torch" else None
if torch:
    torch.set_grad_enabled(False)
    THREADS = torch.get_num_threads()


def tensor(dims, kind):
    return torch.randn(dims).to(kind) if torch else framework.random.standard_normal(dims).astype(kind)


def convolution(spec, kind, layout):
    formats = {4: torch.channels_last, 5: torch.channels_last_3d} if layout == "channels_last" else {}
    x, w, g = (tensor(spec[name], kind).contiguous(memory_format=formats.get(len(spec[name]), torch.contiguous_format))
               for name in ("input", "weight", "output"))
    rest = [spec[name] for name in ("stride", "padding", "dilation", "transposed", "output_padding", "groups")]
    channels, bias = spec["output"][1], spec["bias"]
    forward = functools.partial(torch.ops.aten.convolution, x, w, tensor([channels], kind) if bias else None, *rest)
    if list(forward().shape) != spec["output"]:
        raise ValueError("its padding is not the same on both sides, as PyTorch's convolution has it")
    mask = {"backward-data": [True, False, False], "backward-weights": [False, True, bias]}.get(spec["direction"])
    backward = torch.ops.aten.convolution_backward
    return functools.partial(backward, g, x, w, [channels] if bias else None, *rest, mask) if mask else forward


def product(spec, kind, layout):
    def operand(rows, columns, is_swapped):
        dims = [spec["batch"]] if spec["batch"] > 1 else []
        if not is_swapped or layout == "contiguous":
            return tensor([*dims, rows, columns], kind)
        return tensor([*dims, columns, rows], kind).swapaxes(-1, -2)

    a, b = operand(spec["m"], spec["k"], spec["a"]), operand(spec["k"], spec["n"], spec["b"])
    return functools.partial(framework.matmul, a, b, out=framework.matmul(a, b))


def inner_product(spec, kind, layout):
    x, w = tensor([spec["m"], spec["k"]], kind), tensor([spec["n"], spec["k"]], kind)
    if layout == "contiguous":
        return functools.partial(torch.nn.functional.linear, x, w)
    return functools.partial(torch.ops.aten.mkldnn_linear, x.to_mkldnn(), w.to_mkldnn(), None)


@functools.lru_cache(4)  # the variants of a problem in turns
def made(number, kind, layout):
    spec = problems[number]
    return globals()[spec["op"]](spec, getattr(framework, kind or spec["type"]), layout or spec["format"])


def queued_ns(files):
    """How long each thread has waited for a processor."""
    return [int(os.pread(file, 100, 0).split()[1]) for file in files]


class Threads:
    """The scheduler's files of this process's threads."""
    def __enter__(self):
        self.files = []
        for thread in os.listdir("/proc/self/task"):
            try:
                self.files.append(os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY))
            except OSError:  # no such kernel; the thread has ended
                pass
        return self

    def __exit__(self, *_):
        for file in self.files:
            os.close(file)

    def timed(self, call, count=1):
        """Of one call its time without the longest that a thread of it waited for a processor, and that wait."""
        before, start = queued_ns(self.files), time.perf_counter_ns()
        for _ in range(count):
            call()
        end = time.perf_counter_ns()
        queued = max([now - then for now, then in zip(queued_ns(self.files), before)], default=0)
        return max(end - start - queued, 1) / count, queued / count


def least_disturbed(samples):
    """The half in which threads waited least for processors."""
    return sorted(range(len(samples)), key=lambda i: samples[i][1] / sum(samples[i]))[:(len(samples) + 1) // 2]


def warm_time(call):
    with Threads() as threads:
        first = min(sum(threads.timed(call)) for _ in range(DROPPED))
        count, samples, spent, cpu = max(1, int(SAMPLE_NS / first)), [], 0, time.process_time_ns()
        while len(samples) < MOST and (spent < ENOUGH_NS or len(samples) < FEWEST):
            samples.append(threads.timed(call, count))
            spent += sum(samples[-1]) * count
    return samples, (time.process_time_ns() - cpu) / (len(samples) * count)


def cold_time(call):
    """Other memory goes through the caches before each call."""
    other, samples = (ctypes.c_char * (2 * int(sys.argv[2])))(), []
    with Threads() as threads:
        for value in range(COLD):
            ctypes.memset(other, value, len(other))
            samples.append(threads.timed(call))
    return samples, 0


def primitives(call):
    """What oneDNN's log tells of a call: of several the shortest, as few as they are for a busy machine."""
    LOG.truncate(0)
    LOG.seek(0)
    with Threads() as threads, torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
        samples = [threads.timed(call) for _ in range(LOGGED)]
    LOG.seek(0)
    lines = [line.split(",")[-8:] for line in LOG.read().decode().splitlines() if ",exec," in line]
    count = len(lines) // LOGGED
    for first, (kind, implementation, _, tensors, _, _, problem, _) in enumerate(lines[:count]):
        ns = min(float(lines[i * count + first][-1]) * 1e6 for i in least_disturbed(samples))
        yield {"kind": kind, "implementation": implementation, "tensors": tensors, "problem": problem, "ns": ns}


def measured(problem, type=None, format=None, mkldnn=True, threads=None, cold=False):
    if torch:
        torch.set_num_threads(threads or THREADS)
        torch.backends.mkldnn.set_flags(mkldnn)
    call = made(problem, type, format)
    samples, cpu = cold_time(call) if cold else warm_time(call)
    least = [samples[i] for i in least_disturbed(samples)]
    return {"ns": statistics.median_low(ns for ns, _ in least), "cpu_ns": cpu,
            "queued": sum(queued for _, queued in least) / sum(map(sum, least)),
            "log": list(primitives(call)) if torch and not cold else []}


problems = json.loads(sys.stdin.readline())
print(json.dumps({"name": f"{framework.__name__} {framework.__version__}"}), file=ANSWERS, flush=True)
while line := sys.stdin.readline():
    try:
        result = measured(**json.loads(line))
    except Exception as error:  # whatever a framework raises
        result = {"failure": (str(error) or type(error).__name__).splitlines()[0]}
    print(json.dumps(result), file=ANSWERS, flush=True)
