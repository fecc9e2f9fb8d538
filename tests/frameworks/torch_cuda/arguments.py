"""The arguments that dlhook should have recorded for a call, derived only from the arguments in the fakes' log."""

import re

from fake_gpu import e2e

# cudaDataType_t and cudnnDataType_t as named in op.proto.
CUDA_TYPES = {0: "F32", 1: "F64", 2: "F16", 4: "C32", 5: "C64", 14: "BF16", 28: "F8_E4M3", 29: "F8_E5M2"}
CUDNN_TYPES = {0: "F32", 1: "F64", 2: "F16", 9: "BF16"}
LETTERS = {"S": "F32", "D": "F64", "C": "C32", "Z": "C64", "H": "F16"}
TRANSPOSES = {0: "N", 1: "T", 2: "C"}
OPERATIONS = {"10": "convolution_forward", "11": "convolution_backward_weights", "12": "convolution_backward_data"}
PLACES = {"H": ("HOST", "PAGEABLE"), "P": ("HOST", "PINNED"), "D": ("DEVICE", None), "M": ("DEVICE", "MANAGED")}


# Calls that a captured stream puts into its graph.
WORK = re.compile(r"Async|Launch|gemm|Matmul$|Execute|cudnnConvolution")


def numbers(call, *names):
    return {name: call.number(name) for name in names}


def check(test, pair):
    """Compares the arguments of one pair if its function is one of those supported here. Returns whether it is."""
    for pattern, function in CHECKS:
        if re.fullmatch(pattern, pair.fake.function):
            function(test, pair)
            if WORK.search(pair.fake.function):
                equal(test, pair, pair.recorded.op, {"captured": "captured" in pair.fake.note})
            return True
    return False


def message(pair, kind):
    (found,) = pair.recorded.op.get(kind, [None])
    if found is None:
        raise AssertionError(f"{pair.fake.function} has no {kind}: {sorted(pair.recorded.op)}")
    return found


def equal(test, pair, found, expected):
    """`expected`: {field: value}; a field that is missing in `found` counts as 0, '' or false."""
    ours = {name: e2e.one(found, name, type(value)()) for name, value in expected.items()}
    test.assertEqual(ours, expected, pair.fake)


# --- copies, memory, launches --------------------------------------------------------------------------------------


def check_copy(test, pair):
    fake = pair.fake
    source, destination = fake.note["copy"].split(">")
    direction = f"{PLACES[source][0]}_TO_{PLACES[destination][0]}"
    host = PLACES[source if source != "D" else destination][1] or "NONE"
    by_rows = "height" in fake.arguments
    found = message(pair, "copy")
    equal(
        test,
        pair,
        found,
        {
            "direction": direction,
            "asynchronous": "Async" in fake.function,
            "bytes": fake.number("width") * fake.number("height") if by_rows else fake.number("bytes"),
        },
    )
    test.assertEqual(e2e.one(found, "host_memory", "NONE"), host, fake)
    test.assertEqual(pair.addresses[:2], [fake.number("dst"), fake.number("src")], fake)
    if "stream" in fake.arguments:
        test.assertEqual(pair.addresses[2], fake.number("stream"), fake)


def check_set(test, pair):
    equal(
        test,
        pair,
        message(pair, "copy"),
        {"direction": "SET", "bytes": pair.fake.number("bytes"), "asynchronous": "Async" in pair.fake.function},
    )
    test.assertEqual(pair.addresses[0], pair.fake.number("dst"))


def check_allocation(test, pair):
    kinds = {
        "cudaMalloc": "DEVICE",
        "cudaHostAlloc": "PINNED",
        "cudaMallocHost": "PINNED",
        "cudaMallocManaged": "MANAGED",
    }
    equal(
        test,
        pair,
        message(pair, "allocation"),
        {"kind": kinds[pair.fake.function], "bytes": pair.fake.number("bytes"), "is_free": False},
    )
    test.assertEqual(pair.addresses[0], pair.fake.written("out") or 0, pair.fake)


def check_free(test, pair):
    equal(test, pair, message(pair, "allocation"), {"is_free": True})


def check_launch(test, pair):
    fake = pair.fake
    expected = {"kernel": fake.note["kernel"], "shared_bytes": fake.number("shared_bytes")}
    for what in ("grid", "block"):
        sizes = (
            fake.arguments[what].split(",")
            if what in fake.arguments
            else [fake.arguments[f"{what}_{x}"] for x in "xyz"]
        )
        expected.update({f"{what}_{axis}": int(size) for axis, size in zip("xyz", sizes)})
    equal(test, pair, message(pair, "launch"), expected)
    test.assertEqual(pair.addresses[-1], fake.number("stream"), fake)


# --- products ------------------------------------------------------------------------------------------------------


def check_cublas(test, pair):
    fake = pair.fake
    expected = numbers(fake, "m", "n", "k", "lda", "ldb", "ldc")
    expected["trans_a"], expected["trans_b"] = (TRANSPOSES[fake.number(f"trans_{x}")] for x in "ab")
    expected["batch"] = fake.number("batch") if "batch" in fake.arguments else 1
    letter = re.match(r"cublas([SDCZH])gemm", fake.function)
    for operand in "abc":
        by_name = LETTERS[letter[1]] if letter else None
        expected[f"{operand}_type"] = by_name or CUDA_TYPES[fake.number(f"{operand}_type")]
    equal(test, pair, message(pair, "gemm"), expected)
    test.assertEqual(pair.addresses[:3], [fake.number(name) for name in "abc"], fake)
    if "compute_type" in fake.arguments:
        found = e2e.one(message(pair, "gemm"), "cuda")
        equal(test, pair, found, {"compute_type": fake.number("compute_type"), "algorithm": fake.number("algorithm")})


def check_lt(test, pair):
    note = pair.fake.note
    product = message(pair, "gemm")
    equal(
        test,
        pair,
        product,
        {
            **{name: int(note[name]) for name in ("m", "n", "k", "batch")},
            **{name: TRANSPOSES[int(note[name])] for name in ("trans_a", "trans_b")},
            "a_type": CUDA_TYPES[int(note["a_type"])],
            "c_type": CUDA_TYPES[int(note["d_type"])],
        },
    )
    expected = {"lt": True, "compute_type": int(note["compute"]), "epilogue": int(note["epilogue"])}
    for operand in ("a", "b"):
        if note[f"scale_{operand}"] != "0":
            expected[f"scale_mode_{operand}"] = int(note[f"scale_{operand}"])
    if "algo" in note:
        expected.update(
            algorithm=int(note["algo"]),
            tile=int(note["tile"]),
            stages=int(note["stages"]),
            split_k=int(note["split_k"]),
        )
    expected["workspace_bytes"] = pair.fake.number("workspace_bytes")
    equal(test, pair, e2e.one(product, "cuda"), expected)


# --- cuDNN ---------------------------------------------------------------------------------------------------------


def sizes(text):
    return [int(number) for number in text.split("x")] if text else []


def check_tensors(test, pair, found, types):
    tensors = {e2e.one(tensor, "role"): tensor for tensor in found.get("tensor", [])}
    for name in ("x", "w", "y", "dx", "dw", "dy"):
        text = pair.fake.note.get(name)
        if text is None:
            test.assertNotIn(name.upper(), tensors, pair.fake)
            continue
        dims, _, strides = text.partition(":")
        tensor = tensors[name.upper()]
        test.assertEqual(tensor["dim"], sizes(dims), (name, pair.fake))
        if strides:
            test.assertEqual(tensor["stride"], sizes(strides), (name, pair.fake))
        if types and f"{name}_type" in pair.fake.note:
            test.assertEqual(
                e2e.one(tensor, "type"), CUDNN_TYPES[int(pair.fake.note[f"{name}_type"])], (name, pair.fake)
            )


def check_convolution(test, pair, found):
    check_tensors(test, pair, found, types=True)
    for name in ("pad", "stride", "dilation"):
        test.assertEqual(found.get(name, []), sizes(pair.fake.note[name]), (name, pair.fake))


def check_plan(test, pair):
    found = message(pair, "cudnn")
    plan = e2e.one(found, "plan")
    kinds = pair.fake.note["operations"].split("+")
    equal(test, pair, plan, {"engine": int(pair.fake.note["engine"])})
    test.assertEqual(len(plan["node"]), len(kinds))
    for node, kind in zip(plan["node"], kinds):
        if kind in OPERATIONS:
            test.assertEqual(e2e.one(node, "operation"), OPERATIONS[kind])
    if kinds[0] in OPERATIONS:
        equal(test, pair, found, {"operation": OPERATIONS[kinds[0]]})
        check_convolution(test, pair, found)


def check_legacy_convolution(test, pair):
    found = message(pair, "cudnn")
    equal(
        test,
        pair,
        found,
        {
            **numbers(pair.fake, "algorithm", "workspace_bytes"),
            "groups": int(pair.fake.note["groups"]),
            "math_type": int(pair.fake.note["math_type"]),
        },
    )
    check_convolution(test, pair, found)


RNN = {
    "cudnnRNNForward": "rnn_forward",
    "cudnnRNNBackwardData_v8": "rnn_backward_data",
    "cudnnRNNBackwardWeights_v8": "rnn_backward_weights",
}


def check_rnn(test, pair):
    found = message(pair, "cudnn")
    expected = {"operation": RNN[pair.fake.function], "groups": int(pair.fake.note["layers"])}
    equal(test, pair, found, {**expected, "mode": int(pair.fake.note["mode"]), **numbers(pair.fake, "workspace_bytes")})
    check_tensors(test, pair, found, types=False)


def check_search(test, pair):
    found = message(pair, "cudnn_search")
    candidates = [
        (e2e.one(candidate, "algorithm", 0), e2e.one(candidate, "time_ns", 0))
        for candidate in found.get("candidate", [])
    ]
    expected = [
        (int(algorithm), round(float(time) * 1e6))
        for algorithm, time in (item.split(":") for item in pair.fake.note if item[0].isdigit())
    ]
    equal(test, pair, found, {"measured": "Find" in pair.fake.function, **numbers(pair.fake, "requested")})
    test.assertEqual(candidates, expected, pair.fake)


# --- collectives ---------------------------------------------------------------------------------------------------

COLLECTIVES = {
    "ncclAllReduce": "ALL_REDUCE",
    "ncclBroadcast": "BROADCAST",
    "ncclBcast": "BROADCAST",
    "ncclReduce": "REDUCE",
    "ncclAllGather": "ALL_GATHER",
    "ncclReduceScatter": "REDUCE_SCATTER",
}
NCCL_BYTES = {0: 1, 1: 1, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2}


def check_collective(test, pair):
    fake = pair.fake
    equal(
        test,
        pair,
        message(pair, "collective"),
        {
            "kind": COLLECTIVES[fake.function],
            "count": fake.number("count"),
            "bytes": fake.number("count") * NCCL_BYTES[fake.number("datatype")],
        },
    )


CHECKS = (
    (r"cudaMemcpy(2D|Peer)?(Async)?|cuMemcpy[HD]to[HD](Async)?_v2", check_copy),
    (r"cudaMemset(Async)?", check_set),
    (r"cudaMalloc(Host|Managed)?|cudaHostAlloc", check_allocation),
    (r"cudaFree(Host)?", check_free),
    (r"__cudaLaunchKernel|cudaLaunchKernel|cuLaunchKernel", check_launch),
    (r"cublas([SDCZH]gemm(_v2|StridedBatched)|Gemm(StridedBatched)?Ex)", check_cublas),
    (r"cublasLtMatmul", check_lt),
    (r"cudnnBackendExecute", check_plan),
    (r"cudnnConvolution(Forward|BackwardData|BackwardFilter)", check_legacy_convolution),
    ("|".join(RNN), check_rnn),
    (r"cudnn(Find|Get)Convolution\w+Algorithm(Ex|_v7)?", check_search),
    ("|".join(COLLECTIVES), check_collective),
)
