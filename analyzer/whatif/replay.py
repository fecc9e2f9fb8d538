"""torch|numpy CACHE_BYTES: runs problems of a recorded run again, alone. replay.cc runs it with the run's Python, as text.

Standard input: a line of JSON with the list of problems, then a line for each measurement: {"problem": 2, "format": "channels_last",
"type": "bfloat16", "mkldnn": false, "threads": 1, "cold": true}, all but the first as the run did if they are absent. Each is
answered with a line of JSON, {"failure": "…"} if it fails.
"""
import sys

sys.path[:] = [path for path in sys.path if path]  # nothing of the working folder
import ctypes
import functools
import json
import os
import resource
import statistics
import tempfile
import time

ANSWERS, LOG = os.fdopen(os.dup(1), "w"), tempfile.TemporaryFile("w+b")
os.dup2(LOG.fileno(), 1)  # where oneDNN writes its log
DROPPED, LOGGED, COLD = 2, 7, 8  # calls of a measurement
ENOUGH_NS, SAMPLE_NS, FEWEST, MOST = 60_000_000, 200_000, 4, 200  # of a measurement; samples
bytearray(31 << 20)  # freed: from now on glibc keeps memory of tensors, as it does after the first steps of a program
THROUGH, CACHE_BYTES = sys.argv[1], int(sys.argv[2])
if THROUGH == "torch":
    import torch as framework
    torch = framework
    torch.set_grad_enabled(False)
    THREADS = torch.get_num_threads()
else:
    import numpy as framework
    numpy = framework


def torch_convolution(spec, kind, layout):
    def tensor(dims):
        made = torch.randn(dims).to(kind)
        formats = {4: torch.channels_last, 5: torch.channels_last_3d} if layout == "channels_last" else {}
        return made.contiguous(memory_format=formats[len(dims)]) if len(dims) in formats else made

    x, w, bias = tensor(spec["input"]), tensor(spec["weight"]), spec["bias"]
    rest = (spec["stride"], spec["padding"], spec["dilation"], spec["transposed"], spec["output_padding"], spec["groups"])
    channels = spec["output"][1]
    b = torch.randn(channels).to(kind) if bias else None
    y = torch.ops.aten.convolution(x, w, b, *rest)
    if list(y.shape) != spec["output"]:
        raise ValueError(f"PyTorch's convolution would return {list(y.shape)}, not {spec['output']}: uneven padding")
    if spec["direction"] == "forward":
        return lambda: torch.ops.aten.convolution(x, w, b, *rest)
    g, mask = tensor(spec["output"]), {"backward-data": [True, False, False]}.get(spec["direction"], [False, True, bias])
    return lambda: torch.ops.aten.convolution_backward(g, x, w, [channels] if bias else None, *rest, mask)


def torch_product(spec, kind, layout):
    def tensor(rows, columns, is_transposed):
        dims = [spec["batch"]] if spec["batch"] > 1 else []
        if is_transposed and layout != "contiguous":
            return torch.randn([*dims, columns, rows]).to(kind).transpose(-1, -2)
        return torch.randn([*dims, rows, columns]).to(kind)

    a, b = tensor(spec["m"], spec["k"], spec["a"]), tensor(spec["k"], spec["n"], spec["b"])
    c = torch.matmul(a, b)
    return lambda: torch.matmul(a, b, out=c)


def torch_inner_product(spec, kind, layout):
    x, w = torch.randn(spec["m"], spec["k"]).to(kind), torch.randn(spec["n"], spec["k"]).to(kind)
    if layout == "contiguous":
        return lambda: torch.nn.functional.linear(x, w)
    x, w = x.to_mkldnn(), w.to_mkldnn()
    return lambda: torch.ops.aten.mkldnn_linear(x, w, None)


def numpy_product(spec, kind, layout):
    def array(rows, columns, is_transposed):
        dims = [spec["batch"]] if spec["batch"] > 1 else []
        swap = is_transposed and layout != "contiguous"
        made = numpy.random.standard_normal([*dims, columns, rows] if swap else [*dims, rows, columns]).astype(kind)
        return made.swapaxes(-1, -2) if swap else made

    a, b = array(spec["m"], spec["k"], spec["a"]), array(spec["k"], spec["n"], spec["b"])
    c = numpy.matmul(a, b)
    return lambda: numpy.matmul(a, b, out=c)


@functools.lru_cache(4)  # the variants of a problem in turns
def made(number, kind, layout):
    spec = problems[number]
    return globals()[f"{THROUGH}_{spec['op']}"](spec, getattr(framework, kind or spec["type"]), layout or spec["format"])


def queued_ns(files):
    """How long each thread has waited for a processor."""
    return [int(os.pread(file, 100, 0).split()[1]) for file in files]


class Threads:
    """The scheduler's files of this process's threads, this one's first."""
    def __enter__(self):
        own, self.files = str(os.getpid()), []
        for thread in sorted(os.listdir("/proc/self/task"), key=lambda name: name != own):
            try:
                self.files.append(os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY))
                queued_ns(self.files[-1:])
            except (OSError, IndexError):  # no such kernel; the thread has ended
                return self
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


def undisturbed(samples):
    """The median of the half in which threads waited least for processors, and how much they did there."""
    least = sorted(samples, key=lambda sample: sample[1] / sum(sample))[:max(2, len(samples) // 2)]
    return {"ns": statistics.median_low(ns for ns, _ in least),
            "queued": sum(queued for _, queued in least) / sum(map(sum, least))}


def warm_time(call):
    with Threads() as threads:
        first = min(sum(threads.timed(call)) for _ in range(DROPPED))
        count, samples, spent = max(1, int(SAMPLE_NS / first)), [], 0
        cpu, faults = time.process_time_ns(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        while len(samples) < MOST and (spent < ENOUGH_NS or len(samples) < FEWEST):
            samples.append(threads.timed(call, count))
            spent += sum(samples[-1]) * count
    calls = len(samples) * count
    return {**undisturbed(samples), "cpu_ns": (time.process_time_ns() - cpu) / calls,
            "faults": (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults) / calls}


def cold_time(call):
    """Other memory goes through the caches before each call."""
    other, samples = bytearray(2 * CACHE_BYTES), []
    call()
    with Threads() as threads:
        for value in range(COLD):
            ctypes.memset((ctypes.c_char * len(other)).from_buffer(other), value, len(other))
            samples.append(threads.timed(call))
    return undisturbed(samples)


def primitives(call):
    """What oneDNN's log tells of a call; times of those in which threads waited least."""
    LOG.truncate(0)
    LOG.seek(0)
    with Threads() as threads, torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
        samples = [threads.timed(call) for _ in range(LOGGED)]
    LOG.seek(0)
    lines = [line.split(",")[-8:] for line in LOG.read().decode().splitlines() if ",exec," in line]
    count = len(lines) // LOGGED
    least = sorted(range(LOGGED), key=lambda call: samples[call][1] / sum(samples[call]))[:LOGGED // 2 + 1]
    for first in range(count):
        kind, implementation, _, tensors, _, _, problem, _ = lines[first]
        ns = statistics.median_low(float(lines[call * count + first][-1]) * 1e6 for call in least)
        yield {"kind": kind, "implementation": implementation, "tensors": tensors, "problem": problem, "ns": ns}


def measured(problem, type=None, format=None, mkldnn=True, threads=None, cold=False):
    if THROUGH == "torch":
        torch.set_num_threads(threads or THREADS)
        torch.backends.mkldnn.set_flags(mkldnn)
    call = made(problem, type, format)
    if cold:
        return cold_time(call)
    return {**warm_time(call), "log": list(primitives(call)) if THROUGH == "torch" else []}


problems = json.loads(sys.stdin.readline())
print(json.dumps({"name": f"{framework.__name__} {framework.__version__}", "path": framework.__file__}), file=ANSWERS, flush=True)
while line := sys.stdin.readline():
    try:
        result = measured(**json.loads(line))
    except Exception as error:  # whatever a framework raises
        result = {"failure": (str(error) or type(error).__name__).splitlines()[0]}
    print(json.dumps(result), file=ANSWERS, flush=True)
