"""torch|numpy CACHE_BYTES: runs problems of a recorded run again, alone. replay.cc runs it with the run's Python, as text.

Standard input: a line of JSON with the list of problems, then a line for each measurement: {"problem": 2, "format": "channels_last",
"type": "bfloat16", "mkldnn": false, "threads": 1, "cold": true}, all but the first as the run did if they are absent. Each is
answered with a line of JSON, {"failure": "…"} if it fails.
"""
import os
import sys

sys.path[:] = [path for path in sys.path if path and os.path.abspath(path) != os.getcwd()]  # nothing of the working folder
import contextlib
import ctypes
import functools
import importlib
import json
import statistics
import tempfile
import time

ANSWERS, LOG = os.fdopen(os.dup(1), "w"), tempfile.TemporaryFile("w+b")
os.dup2(LOG.fileno(), 1)  # where oneDNN writes its log
LOGGED, COLD = 12, 8  # calls of a measurement
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
    axes = [axis for axis in "dhw" if "k" + axis in spec]
    ins, outs, kernel, stride, padding, dilation = (
        [spec.get(name + axis, standard) for axis in axes] for name, standard in zip("iokspd", (1, 1, 1, 1, 0, 0)))
    dilation = [between + 1 for between in dilation]
    channels, bias, is_transposed, groups = spec["oc"], spec["bias"], spec["transposed"], spec.get("g", 1)
    ends = [spec["ic"], channels // groups] if is_transposed else [channels, spec["ic"] // groups]
    output_padding = [o - (i - 1) * s - d * (k - 1) - 1 + 2 * p if is_transposed else 0
                      for i, o, k, s, p, d in zip(ins, outs, kernel, stride, padding, dilation)]
    formats = {2: torch.channels_last, 3: torch.channels_last_3d} if layout == "channels_last" else {}
    x, w, g = (tensor(dims, kind).contiguous(memory_format=formats.get(len(axes), torch.contiguous_format))
               for dims in ([spec["mb"], spec["ic"], *ins], [*ends, *kernel], [spec["mb"], channels, *outs]))
    rest = [stride, padding, dilation, is_transposed, output_padding, groups]
    forward = functools.partial(torch.ops.aten.convolution, x, w, tensor([channels], kind) if bias else None, *rest)
    if forward().shape != g.shape:
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


@functools.lru_cache(4)  # the variants of a problem in turns
def made(number, kind, layout):
    spec = problems[number]
    return globals()[spec["op"]](spec, getattr(framework, kind or spec["type"]), layout or spec["format"])


def scheduler_files():
    """One for each thread of this process."""
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # no such kernel; the thread has ended
            yield open(f"/proc/self/task/{thread}/schedstat", "rb", buffering=0)


def queued_ns(files):
    """How long each thread has waited for a processor."""
    return [int(os.pread(file.fileno(), 100, 0).split()[1]) for file in files]


def timed(files, call, count=1):
    """Of one call its time without the longest that a thread of it waited for a processor, and that wait."""
    before, start = queued_ns(files), time.perf_counter_ns()
    for _ in range(count):
        call()
    end = time.perf_counter_ns()
    queued = max([now - then for now, then in zip(queued_ns(files), before)], default=0)
    return max(end - start - queued, 1) / count, queued / count


def least_disturbed(samples):
    """The half in which threads waited least for processors."""
    return sorted(range(len(samples)), key=lambda i: samples[i][1] / sum(samples[i]))[:(len(samples) + 1) // 2]


def warm_samples(files, call):
    count, samples, spent = max(1, int(SAMPLE_NS / sum(timed(files, call)))), [], 0
    while len(samples) < MOST and (spent < ENOUGH_NS or len(samples) < FEWEST):
        samples.append(timed(files, call, count))
        spent += sum(samples[-1]) * count
    return samples


def cold_samples(files, call):
    """Other memory goes through the caches before each call."""
    other, samples = (ctypes.c_char * (2 * int(sys.argv[2])))(), []
    for value in range(COLD):
        ctypes.memset(other, value, len(other))
        samples.append(timed(files, call))
    return samples


def primitives(files, call):
    """What oneDNN's log tells of a call: of several the shortest, as few as they are for a busy machine."""
    LOG.truncate(0)
    LOG.seek(0)
    with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
        least = least_disturbed([timed(files, call) for _ in range(LOGGED)])
    LOG.seek(0)
    lines = [line.split(",")[-8:] for line in LOG.read().decode().splitlines() if ",exec," in line]
    count = len(lines) // LOGGED
    for first, (kind, implementation, _, tensors, _, _, problem, _) in enumerate(lines[:count]):
        ns = min(float(lines[i * count + first][-1]) * 1e6 for i in least)
        yield {"kind": kind, "implementation": implementation, "tensors": tensors, "problem": problem, "ns": ns}


def measured(problem, type=None, format=None, mkldnn=True, threads=None, cold=False):
    if torch:
        torch.set_num_threads(threads or THREADS)
        torch.backends.mkldnn.set_flags(mkldnn)
    call = made(problem, type, format)
    call()  # starts its threads, and ends those of a call with more
    files = list(scheduler_files())
    samples = (cold_samples if cold else warm_samples)(files, call)
    least = [samples[i] for i in least_disturbed(samples)]
    return {"ns": statistics.median_low(ns for ns, _ in least),
            "queued": sum(queued for _, queued in least) / sum(map(sum, least)),
            "log": list(primitives(files, call)) if torch and not cold else []}


problems = json.loads(sys.stdin.readline())
print(json.dumps({"name": f"{framework.__name__} {framework.__version__}"}), file=ANSWERS, flush=True)
while line := sys.stdin.readline():
    try:
        result = measured(**json.loads(line))
    except Exception as error:  # whatever a framework raises
        result = {"failure": (str(error) or type(error).__name__).splitlines()[0]}
    print(json.dumps(result), file=ANSWERS, flush=True)
