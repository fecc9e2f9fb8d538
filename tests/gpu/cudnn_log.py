"""Reads the log that cuDNN 9 itself writes (CUDNN_LOGLEVEL_DBG=3, CUDNN_LOGDEST_DBG). Independent of dlhook.

An entry is a line that names a function, then fields, indented four blanks a level:

    I! CuDNN (v92400 43) function cudnnBackendExecute() called:
    i!     handle: type=cudnnHandle_t; val=NULL_PTR;
    i!     executionPlan: type=CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
    i!         engcfg: type=CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
    …
    i! Time: 2026-11-21T18:50:16.839865 (0d+0h+0m+0s since start)
    i! Process=21144; Thread=21144; GPU=NULL; Handle=NULL; StreamId=NULL.

A call has one entry with its arguments. Those of the graph API have another one with their `status` where they succeed;
every function may add entries of other letters (W!, E!): warnings and errors. Some functions call others of the library,
which then have entries too.
"""

import collections
import re

Field = collections.namedtuple("Field", "name type value fields")
Entry = collections.namedtuple("Entry", "level function fields")

# An executed plan: its operations, tensors {(uid, dimensions, strides)}, number of its engine, {(knob, value)}.
Execution = collections.namedtuple("Execution", "operations tensors engine knobs")

_CALL = re.compile(r"([IWE])! CuDNN \(v\d+[^)]*\) function (\w+)\(\) called:")
_FIELD = re.compile(
    r"[a-z]!(?P<indent>(?: {4})+)(?P<name>[^:=]+): type=(?P<type>[^;:]+)(?:; val=(?P<value>.*);|:|;)\s*$")

# cudnnBackendKnobType_t (cudnn_graph.h of 9.24), in order.
KNOBS = (
    "SPLIT_K SWIZZLE TILE_SIZE USE_TEX EDGE KBLOCK LDGA LDGB CHUNK_K SPLIT_H WINO_TILE MULTIPLY SPLIT_K_BUF "
    "TILEK STAGES REDUCTION_MODE CTA_SPLIT_K_MODE SPLIT_K_SLC IDX_MODE SLICED SPLIT_RS SINGLEBUFFER LDGC "
    "SPECFILT KERNEL_CFG WORKSPACE TILE_CGA TILE_CGA_M TILE_CGA_N BLOCK_SIZE OCCUPANCY ARRAY_SIZE_PER_THREAD "
    "NUM_C_PER_BLOCK SPLIT_COLS TILE_ROWS TILE_COLS LOAD_SIZE CTA_COUNT STREAM_K SPLIT_P_SLC TILE_M TILE_N "
    "WARP_SPEC_CFG SWAP_AB INPUT_TMA_ENABLE OUTPUT_TMA_ENABLE"
).split()

OPERATIONS = {"CONVOLUTION_BACKWARD_FILTER": "convolution_backward_weights", "NORM_FORWARD": "normalization_forward",
              "NORM_BACKWARD": "normalization_backward", "SDPA_FWD": "attention_forward",
              "SDPA_BWD": "attention_backward"}  # fmt: skip


def entries(text):
    """All entries, each as a tree of fields."""
    result = []
    stack = []
    for line in text.splitlines():
        call = _CALL.match(line)
        if call:
            result.append(Entry(*call.groups(), []))
            stack = [result[-1].fields]
            continue
        match = _FIELD.match(line)
        if not match or not stack:
            continue
        depth = len(match["indent"]) // 4
        if depth > len(stack):
            raise ValueError(f"a field is indented too far: {line!r}")
        field = Field(match["name"].strip(), match["type"].strip(), match["value"], [])
        del stack[depth:]
        stack[-1].append(field)
        stack.append(field.fields)
    return result


def calls(parsed):
    """{function: number of calls}, including inner ones."""
    counts = collections.Counter()
    for entry in parsed:
        ended = any(field.name == "status" and field.type == "cudnnStatus_t" for field in entry.fields)
        if entry.level == "I" and not ended:
            counts[entry.function] += 1
    return counts


def executions(parsed):
    """{Execution: number} of the graph API."""
    counts = collections.Counter()
    for entry in parsed:
        plan = next((field for field in entry.fields if field.name == "executionPlan"), None)
        if entry.function == "cudnnBackendExecute" and plan is not None:
            counts[_execution(plan)] += 1
    return counts


def _execution(plan):
    operations, tensors, knobs, engine = [], set(), set(), None
    for field in _walk(plan.fields):
        if field.type.startswith("CUDNN_BACKEND_OPERATION_") and field.name == "operation":
            operations.append(_operation(field.type))
        elif field.type == "CUDNN_BACKEND_TENSOR_DESCRIPTOR" and field.fields:
            tensors.add(_tensor(field))
        elif field.name == "engine_id":
            engine = int(field.value)
        elif field.name.startswith("CUDNN_KNOB_TYPE_"):
            knobs.add((KNOBS.index(field.name.removeprefix("CUDNN_KNOB_TYPE_")), int(field.value)))
    return Execution(tuple(operations), frozenset(tensors), engine, frozenset(knobs))


def _operation(descriptor_type):
    name = descriptor_type.removeprefix("CUDNN_BACKEND_OPERATION_").removesuffix("_DESCRIPTOR")
    return OPERATIONS.get(name, name.lower())


def _tensor(field):
    values = {inner.name: inner.value for inner in field.fields}
    return (int(values["uid"]), _numbers(values["dimA"]), _numbers(values["strideA"]))


def _numbers(text):
    return tuple(int(number) for number in re.findall(r"-?\d+", text))


def _walk(fields):
    for field in fields:
        yield field
        yield from _walk(field.fields)
