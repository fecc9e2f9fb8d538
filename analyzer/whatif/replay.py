"""THROUGH CACHE_BYTES: runs problems of a recorded run again, alone. replay.cc runs it with the run's Python, as text.

THROUGH: torch, numpy, tensorflow, jax, or onednn, the system's own library of that name. Standard input: a line of JSON with the list
of problems, then a line for each measurement: {"problem": 2, "format": "channels_last", "type": "bfloat16", "mkldnn": false,
"threads": 1, "through": "openblas", "implementation": ["own", 3], "tf32": true, "cold": true}, all but the first as the run did if they
are absent;
or {"offers": 2}: in which ways it can compute this problem. Each is answered with a line of JSON, {"failure": "…"} if it fails.
"""
import os
import sys

sys.path[:] = [path for path in sys.path if path and os.path.abspath(path) != os.getcwd()]  # nothing of the working folder
import contextlib
import ctypes
import functools
import importlib
import itertools
import json
import re
import statistics
import tempfile
import time

THROUGH = sys.argv[1]
if THROUGH == "tensorflow":
    os.environ.update(ONEDNN_VERBOSE="1", TF_CPP_MIN_LOG_LEVEL="2")
ANSWERS, LOG = os.fdopen(os.dup(1), "w"), tempfile.TemporaryFile("w+b")
os.dup2(LOG.fileno(), 1)  # where oneDNN writes its log
LOGGED, COLD = 12, 8  # calls of a measurement
GPU_MOST, GPU_BUSY_CYCLES, GPU_BYTES = 20, 2_000_000, 1 << 28  # samples; while it is given work; more than its caches have
ENOUGH_NS, SAMPLE_NS, FEWEST, MOST = 60_000_000, 200_000, 4, 200  # of a measurement; samples
CREATED = contextlib.ExitStack()  # destroys what oneDNN made for a problem
bytearray(31 << 20)  # freed: from now on glibc keeps memory of tensors, as it does after the first steps of a program
framework = None if THROUGH == "onednn" else importlib.import_module(THROUGH)
torch = framework if THROUGH == "torch" else None
if torch:
    torch.set_grad_enabled(False)
    THREADS = torch.get_num_threads()
    torch.backends.cudnn.benchmark, torch.backends.cudnn.benchmark_limit = "REPLAY_CUDNN_BENCHMARK" in os.environ, 0  # all plans


def tensor(dims, kind):
    if THROUGH == "tensorflow":
        return framework.cast(framework.random.normal(dims), kind)
    if THROUGH == "jax":
        return framework.random.normal(framework.random.key(0), dims, kind)
    return torch.randn(dims).to(getattr(torch, kind)) if torch else framework.random.standard_normal(dims).astype(kind)


class Window:
    """The numbers of a convolution, by axis."""

    def __init__(self, spec):
        axes = [axis for axis in "dhw" if "k" + axis in spec]
        self.ins, self.outs, self.kernel, self.stride, self.padding, between = (
            [spec.get(name + axis, standard) for axis in axes] for name, standard in zip("iokspd", (1, 1, 1, 1, 0, 0)))
        self.dilation = [gap + 1 for gap in between]
        ends = (self.outs, self.ins) if spec["transposed"] else (self.ins, self.outs)
        self.behind = [(o - 1) * s + d * (k - 1) + 1 - i - p  # padding
                       for i, o, k, s, p, d in zip(*ends, self.kernel, self.stride, self.padding, self.dilation)]


def torch_convolution(spec, kind, layout):
    window, is_transposed, bias, channels, groups = Window(spec), spec["transposed"], spec["bias"], spec["oc"], spec.get("g", 1)
    ends = [spec["ic"], channels // groups] if is_transposed else [channels, spec["ic"] // groups]
    output_padding = [p - behind if is_transposed else 0 for p, behind in zip(window.padding, window.behind)]
    formats = {2: torch.channels_last, 3: torch.channels_last_3d} if layout == "channels_last" else {}
    x, w, g = (tensor(dims, kind).contiguous(memory_format=formats.get(len(window.kernel), torch.contiguous_format))
               for dims in ([spec["mb"], spec["ic"], *window.ins], [*ends, *window.kernel], [spec["mb"], channels, *window.outs]))
    rest = [window.stride, window.padding, window.dilation, is_transposed, output_padding, groups]
    forward = functools.partial(torch.ops.aten.convolution, x, w, tensor([channels], kind) if bias else None, *rest)
    if forward().shape != g.shape:
        raise ValueError("its padding is not the same on both sides, as PyTorch's convolution has it")
    mask = {"backward-data": [True, False, False], "backward-weights": [False, True, bias]}.get(spec["direction"])
    backward = functools.partial(torch.ops.aten.convolution_backward, g, x, w, [channels] if bias else None, *rest, mask)
    return backward if mask else forward


def tensorflow_convolution(spec, kind, layout):
    window, tf = Window(spec), framework
    if len(window.kernel) != 2 or spec.get("g", 1) != 1 or spec["transposed"]:
        raise ValueError("it is none of TensorFlow's Conv2D")
    image, filters = [spec["mb"], *window.ins, spec["ic"]], [*window.kernel, spec["ic"], spec["oc"]]
    is_same = all(o == -(-i // s) and p == max(p + behind, 0) // 2
                  for o, i, s, p, behind in zip(window.outs, window.ins, window.stride, window.padding, window.behind))
    explicit = [0, 0, *(max(side, 0) for both in zip(window.padding, window.behind) for side in both), 0, 0]
    padding = "VALID" if not any(explicit) else "SAME" if is_same else "EXPLICIT"
    how = {"strides": [1, *window.stride, 1], "dilations": [1, *window.dilation, 1], "padding": padding,
           "explicit_paddings": explicit if padding == "EXPLICIT" else []}
    x, w, g = tensor(image, kind), tensor(filters, kind), tensor([spec["mb"], *window.outs, spec["oc"]], kind)
    forward = functools.partial(tf.raw_ops.Conv2D, input=x, filter=w, **how)
    if forward().shape != g.shape:
        raise ValueError("its padding is none of TensorFlow's")
    if spec["direction"] == "backward-data":
        return functools.partial(tf.raw_ops.Conv2DBackpropInput, input_sizes=image, filter=w, out_backprop=g, **how)
    if spec["direction"] == "backward-weights":
        return functools.partial(tf.raw_ops.Conv2DBackpropFilter, input=x, filter_sizes=filters, out_backprop=g, **how)
    return forward


def jax_convolution(spec, kind, layout):
    """As XLA's program has it: a gradient by weights is a convolution, too."""
    window, jax, shapes, words = Window(spec), framework, {}, {}
    for role, letters in (("src", "NC"), ("wei", "OI"), ("dst", "NC")):
        dims, _, tag = spec["tensors"][role]
        if spec["transposed"] or tag == "any":
            raise ValueError("it is a transposed one, or its formats are not known")
        if role == "wei" and len(dims) > len(tag):  # groups apart
            dims = [dims[0] * dims[1], *dims[2:]]
        shapes[role] = [dims[ord(letter) - ord("a")] for letter in tag]
        words[role] = "".join((letters + "DHW"[3 - len(window.kernel):])[ord(letter) - ord("a")] for letter in tag)
    convolution = functools.partial(
        jax.lax.conv_general_dilated, window_strides=window.stride, padding=list(zip(window.padding, window.behind)),
        rhs_dilation=window.dilation, feature_group_count=spec.get("g", 1), dimension_numbers=(words["src"], words["wei"], words["dst"]))
    x, w, g = (tensor(shapes[role], kind) for role in ("src", "wei", "dst"))
    if jax.eval_shape(convolution, x, w).shape != g.shape:
        raise ValueError("its sizes are not known whole")
    run, ends = jax.jit(convolution), (x, w)
    if spec["direction"] == "backward-data":
        run, ends = jax.jit(lambda g, w: jax.linear_transpose(lambda x: convolution(x, w), x)(g)[0]), (g, w)
    return lambda: run(*ends).block_until_ready()


def product(spec, kind, layout):
    def operand(rows, columns, is_swapped):
        return tensor([spec["batch"]] * (spec["batch"] > 1) + ([columns, rows] if is_swapped else [rows, columns]), kind)

    def plain(*ends):
        return [end.swapaxes(-1, -2) if is_swapped else end for end, is_swapped in zip(ends, swapped)]

    swapped = [spec[name] and layout != "contiguous" for name in ("a", "b")]
    a, b = operand(spec["m"], spec["k"], swapped[0]), operand(spec["k"], spec["n"], swapped[1])
    if THROUGH == "tensorflow":
        run = functools.partial(framework.linalg.matmul, a, b, transpose_a=swapped[0], transpose_b=swapped[1])
        if not spec["bias"]:
            return run
        bias = tensor([spec["n"]], kind)  # the program's graph has both in one
        return framework.function(lambda: framework.nn.bias_add(run(), bias)).get_concrete_function()
    if THROUGH == "jax":
        run = framework.jit(lambda a, b: framework.numpy.matmul(*plain(a, b)))
        return lambda: run(a, b).block_until_ready()
    a, b = plain(a, b)
    if torch and spec["inner"]:  # as Inductor's programs call it
        bias = tensor([spec["n"]], kind) if spec["bias"] else None
        return functools.partial(torch.ops.mkldnn._linear_pointwise, a, b.swapaxes(0, 1).contiguous(), bias, "none", [], "")
    return functools.partial(framework.matmul, a, b, out=framework.matmul(a, b))


def library(*names):
    for name in names:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    raise ValueError(f"there is no {names[0]} on this machine")


def openblas_product(spec, kind, layout):
    """By the system's library of that name."""
    a, b = (tensor([spec[name] for name in (sides[::-1] if spec[end] else sides)], kind) for end, sides in (("a", "mk"), ("b", "kn")))
    c = tensor([spec["m"], spec["n"]], kind)
    at = [ctypes.c_void_p(end.data_ptr() if torch else end.ctypes.data) for end in (a, b, c)]
    name, number = {"float32": ("cblas_sgemm", ctypes.c_float), "float64": ("cblas_dgemm", ctypes.c_double)}[kind]
    row_major, swaps = 101, (111 + spec["a"], 111 + spec["b"])  # CblasRowMajor, CblasNoTrans or CblasTrans
    run = functools.partial(getattr(library("libopenblas.so.0"), name), row_major, *swaps, spec["m"], spec["n"], spec["k"], number(1),
                            at[0], a.shape[1], at[1], b.shape[1], number(0), at[2], c.shape[1])
    run.keeps = a, b, c
    return run


ARGUMENTS = {"src": 1, "wei": 33, "bia": 41, "dst": 17}  # DNNL_ARG_SRC …; of a gradient 128 more
GRADIENTS = {"backward-data": ("src", "dst"), "backward-weights": ("wei", "bia", "dst")}
ALGORITHMS = {"convolution": (1, 2), "deconvolution": (10, 11)}  # direct, Winograd
TYPES = {"f16": 1, "bf16": 2, "f32": 3, "s32": 4, "s8": 5, "u8": 6}
FORWARD_TRAINING, IMPLEMENTATION, ARGUMENT, MOST_DIMS = 64, 8, 255, 12  # of a propagation; of queries; of an array


def dnnl(name, *arguments):
    if status := getattr(DNNL, "dnnl_" + name)(*arguments):
        raise ValueError(f"dnnl_{name}: {DNNL.dnnl_status2str(status).decode()}")


def created(name, *arguments):
    """Lives until the next problem, unlike engine and stream."""
    made = ctypes.c_void_p()
    dnnl(name, ctypes.byref(made), *arguments)
    if kind := re.search("(primitive|memory)(_desc)?(_iterator)?(?=_create)", name):
        CREATED.callback(getattr(DNNL, f"dnnl_{kind[0]}_destroy"), made)
    return made


if THROUGH == "onednn":  # its C interface of releases 2 and 3
    DNNL = library("libdnnl.so.3", "libdnnl.so.2")
    DNNL.dnnl_status2str.restype = DNNL.dnnl_fmt_tag2str.restype = ctypes.c_char_p
    DNNL.dnnl_primitive_desc_query_md.restype = ctypes.c_void_p
    DNNL.dnnl_memory_desc_get_size.restype = ctypes.c_size_t
    DNNL.dnnl_version.restype = ctypes.POINTER(ctypes.c_int * 3)
    VERSION = tuple(DNNL.dnnl_version().contents)
    ENGINE = created("engine_create", 1, ctypes.c_size_t(0))
    STREAM = created("stream_create", ENGINE, 1)
    DNNL.dnnl_set_primitive_cache_capacity(0)  # release 2.6 takes another implementation of the same problem from it
    TAGS = {DNNL.dnnl_fmt_tag2str(tag).decode(): tag for tag in range(1, 1000)}


def described(dims, kind, tag):
    if tag not in TAGS or kind not in TYPES:
        raise ValueError(f"oneDNN {VERSION[0]}.{VERSION[1]} has no format {tag} of {kind}")
    arguments = len(dims), (ctypes.c_int64 * MOST_DIMS)(*dims), TYPES[kind], TAGS[tag]
    if VERSION[0] >= 3:
        return created("memory_desc_create_with_tag", *arguments)
    description = ctypes.create_string_buffer(4096)  # larger than the structure
    dnnl("memory_desc_init_by_tag", description, *arguments)
    return description


def implementations(name, is_backward, *arguments):
    """Descriptors of primitives, each until the next one is asked for."""
    if VERSION[0] >= 3:
        primitive = created(name + "_primitive_desc_create", ENGINE, *arguments, *[None] * is_backward, None)
        while True:
            yield primitive
            if DNNL.dnnl_primitive_desc_next_impl(primitive):
                return
    operation = ctypes.create_string_buffer(16384)
    dnnl(name.replace("convolution_", "dilated_convolution_").replace("dedilated_", "dilated_de") + "_desc_init", operation, *arguments)
    iterator = created("primitive_desc_iterator_create", operation, None, ENGINE, None)
    DNNL.dnnl_primitive_desc_iterator_fetch.restype = ctypes.c_void_p
    while True:
        fetched = ctypes.c_void_p(DNNL.dnnl_primitive_desc_iterator_fetch(iterator))
        CREATED.callback(DNNL.dnnl_primitive_desc_destroy, fetched)
        yield fetched
        if DNNL.dnnl_primitive_desc_iterator_next(iterator):
            return


def offered(spec, formats):
    """All ways to compute it that the library has, its choice first."""
    kind, direction = spec["kind"].replace("gemm_api", "matmul"), spec["direction"]
    ends = {role: described(dims, kind_of, "any" if formats == "own" and kind != "reorder" else tag)
            for role, (dims, kind_of, tag) in spec["tensors"].items()}
    if kind == "reorder":
        yield created("reorder_primitive_desc_create", ends["src"], ENGINE, ends["dst"], ENGINE, None)
        return
    rest = [ends.get(role) for role in ARGUMENTS if role != "bia" or direction != "backward-data"]
    if kind in ALGORITHMS:
        window = Window(spec)
        rest += [(ctypes.c_int64 * MOST_DIMS)(*numbers)
                 for numbers in (window.stride, [gap - 1 for gap in window.dilation], window.padding, window.behind)]
    name, first = kind if kind == "matmul" else kind + "_" + direction.replace("-", "_"), [FORWARD_TRAINING] * (direction == "forward")
    yield from implementations(name, "backward" in name, *first, *ALGORITHMS.get(kind, ())[:1], *rest)
    for winograd in ALGORITHMS.get(kind, ())[1:]:
        with contextlib.suppress(ValueError):  # none of this problem
            yield from implementations(name, "backward" in name, *first, winograd, *rest)


def name_of(primitive):
    name = ctypes.c_char_p()
    dnnl("primitive_desc_query", primitive, IMPLEMENTATION, 0, ctypes.byref(name))
    return name.value.decode()


def memories(spec, primitive):
    """{role: (number of its argument, what it needs)}."""
    of = {role: ARGUMENTS[role] + 128 * (role in GRADIENTS.get(spec["direction"], ())) for role in spec["tensors"]}
    return {role: (number, ctypes.c_void_p(DNNL.dnnl_primitive_desc_query_md(primitive, ARGUMENT, number))) for role, number in of.items()}


def library_call(spec, formats, wanted):
    primitive = next(itertools.islice(offered(spec, formats), wanted, None))
    arguments, buffers = [], []
    for number, description in memories(spec, primitive).values():
        size = DNNL.dnnl_memory_desc_get_size(description)
        buffers.append((ctypes.c_char * (size + 64))())
        at = ctypes.addressof(buffers[-1]) + -ctypes.addressof(buffers[-1]) % 64
        ctypes.memset(at, 0x3c, size)  # a number in each type
        arguments += number, created("memory_create", description, ENGINE, ctypes.c_void_p(at))  # a structure of both
    made, is_what = created("primitive_create", primitive), ctypes.c_void_p()
    dnnl("primitive_get_primitive_desc", made, ctypes.byref(is_what))
    if name_of(is_what) != name_of(primitive):
        raise ValueError(f"the library made {name_of(is_what)} instead")
    call = functools.partial(DNNL.dnnl_primitive_execute, made, STREAM, len(buffers), (ctypes.c_void_p * len(arguments))(*arguments))
    call.keeps = buffers
    if status := call():
        raise ValueError(DNNL.dnnl_status2str(status).decode())
    return call


def formats_of(spec):
    """The run's, or, where this release does not have them, the library's own."""
    with contextlib.suppress(ValueError):
        return next(offered(spec, "recorded")) and "recorded"
    return "own"


def ways(spec):
    """Other ways to compute it, what asks for each, and its formats. Without reference implementations: nothing is slower."""
    has_blas = THROUGH in ("torch", "numpy") and "device" not in spec
    if has_blas and spec["op"] == "product" and spec["batch"] == 1 and spec["type"] in ("float32", "float64"):
        with contextlib.suppress(ValueError):  # there is none
            config = library("libopenblas.so.0").openblas_get_config
            config.restype = ctypes.c_char_p
            yield " ".join(config().decode().split()[:2]), {"through": "openblas"}, ""
    if THROUGH != "onednn":
        return
    recorded = {role: described(*end) for role, end in spec["tensors"].items()} if formats_of(spec) == "recorded" else {}
    seen = set()
    for formats in ("recorded", "own") if recorded else ("own", ):
        for number, primitive in enumerate(offered(spec, formats)):
            name = name_of(primitive)
            is_same = recorded and all(DNNL.dnnl_memory_desc_equal(description, recorded[role])
                                       for role, (_, description) in memories(spec, primitive).items())
            way = name, "recorded" if is_same else formats
            if way not in seen and seen and "ref" not in name:
                yield name, {"implementation": [formats, number]}, way[1]
            seen.add(way)


def prepare(device):
    torch.set_default_device(device)
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("it ran on a GPU, and PyTorch sees none here")
    if device == "cuda" and "PYTORCH_TUNABLEOP_ENABLED" in os.environ:
        if not hasattr(torch.cuda.tunable, "set_cublaslt_requested_algo_count"):
            raise ValueError("PyTorch tries cuBLASLt's algorithms from release 2.14 on")
        torch.cuda.tunable.set_filename(os.devnull)  # else it is in the working folder


@functools.lru_cache(None)  # all variants of a problem, which are measured in turns
def made(number, kind, layout, through, implementation):
    spec = problems[number]
    if torch:
        prepare(spec.get("device", "cpu"))
    if THROUGH == "onednn":
        return library_call(spec, *(implementation or (formats_of(spec), 0)))
    maker = f"{through or THROUGH}_{spec['op']}"
    return globals().get(maker, product)(spec, kind or spec["type"], layout or spec["format"])


@functools.lru_cache(1)  # runs when it is another problem than that before
def turn_to(number):
    made.cache_clear()
    CREATED.close()


def scheduler_files():
    """One for each thread of this process."""
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # no such kernel; the thread has ended
            yield open(f"/proc/self/task/{thread}/schedstat", "rb", buffering=0)


def queued_ns(files):
    """How long each thread has waited for a processor."""
    return [int(os.pread(file.fileno(), 100, 0).split()[1]) for file in files]


def gpu_ns(call, count):
    """It begins when it has been given all calls: launching them is not in it."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(GPU_BUSY_CYCLES)
    first.record()
    for _ in range(count):
        call()
    last.record()
    last.synchronize()
    return max(first.elapsed_time(last) * 1e6, 1) / count


def timed(files, call, count=1):
    """Of one call its time without the longest that a thread of it waited for a processor, and that wait. Without files: of a GPU."""
    if files is None:
        return gpu_ns(call, count), 0
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
    while len(samples) < (GPU_MOST if files is None else MOST) and (spent < ENOUGH_NS or len(samples) < FEWEST):
        samples.append(timed(files, call, count))
        spent += sum(samples[-1]) * count
    return samples


def cold_samples(files, call):
    """Other memory goes through the caches before each call."""
    other, samples = torch.empty(GPU_BYTES, dtype=torch.uint8) if files is None else (ctypes.c_char * (2 * int(sys.argv[2])))(), []
    for value in range(COLD):
        _ = other.fill_(value) if files is None else ctypes.memset(other, value, len(other))
        samples.append(timed(files, call))
    return samples


def primitives(files, call):
    """What oneDNN's log tells of a call: of several the shortest, as few as they are for a busy machine."""
    LOG.truncate(0)
    LOG.seek(0)
    with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON) if torch else contextlib.nullcontext():
        least = least_disturbed([timed(files, call) for _ in range(LOGGED)])
    LOG.seek(0)
    lines = [line.split(",")[-8:] for line in LOG.read().decode().splitlines() if ",exec," in line]
    count = len(lines) // LOGGED
    for first, (kind, implementation, _, tensors, _, _, problem, _) in enumerate(lines[:count]):
        ns = min(float(lines[i * count + first][-1]) * 1e6 for i in least)
        yield {"kind": kind, "implementation": implementation, "tensors": tensors, "problem": problem, "ns": ns}


def measured(problem, type=None, format=None, mkldnn=True, threads=None, through=None, implementation=None, cold=False,
             tf32=False):
    on_gpu = problems[problem].get("device") == "cuda"
    if torch:
        torch.set_num_threads(threads or THREADS)
        torch.backends.mkldnn.set_flags(mkldnn)
    if on_gpu:
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32 or problems[problem]["tf32"]
    call = made(problem, type, format, through, tuple(implementation or ()))
    call()  # starts its threads, and ends those of a call with more
    files = None if on_gpu else list(scheduler_files())
    samples = (cold_samples if cold else warm_samples)(files, call)
    least = [samples[i] for i in least_disturbed(samples)]
    return {"ns": statistics.median_low(ns for ns, _ in least),
            "queued": sum(queued for _, queued in least) / sum(map(sum, least)),
            "log": list(primitives(files, call)) if THROUGH in ("torch", "tensorflow") and not cold and not on_gpu else []}


def answered(offers=None, **measurement):
    turn_to(measurement["problem"] if offers is None else offers)
    if offers is None:
        return measured(**measurement)
    spec, is_library = problems[offers], THROUGH == "onednn"
    formats = formats_of(spec) if is_library else ""
    return {"ways": list(ways(spec)), "formats": formats, "chosen": name_of(next(offered(spec, formats))) if is_library else ""}


problems = json.loads(sys.stdin.readline())
if THROUGH == "jax":
    framework.config.update("jax_enable_x64", any(spec and spec.get("type") == "float64" for spec in problems))
name = "oneDNN " + ".".join(map(str, VERSION)) if THROUGH == "onednn" else f"{THROUGH} {framework.__version__}"
on_gpu = torch and any(spec and "device" in spec for spec in problems) and torch.cuda.is_available()
print(json.dumps({"name": name, "gpu": torch.cuda.get_device_name() if on_gpu else ""}), file=ANSWERS, flush=True)
while line := sys.stdin.readline():
    try:
        result = answered(**json.loads(line))
    except Exception as error:  # whatever a framework raises
        result = {"failure": (str(error) or type(error).__name__).splitlines()[0]}
    print(json.dumps(result), file=ANSWERS, flush=True)
