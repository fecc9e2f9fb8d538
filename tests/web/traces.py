"""Runs for the pages' tests: the recorded ones of tests/golden, and small ones made here."""
import gzip
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
GOLDEN = os.path.join(ROOT, "tests", "golden")

# Shown as text, never executed, in the order in which it is written.
HOSTILE = "</script><img src=x onerror=window.pwned=1><script>window.pwned=1</script>'\"&lt;`\n\x1b[31m\u202eRTL\u2066"

HEADER = """
packet { header { schema_major: 1 tool_version: "test" process {
  pid: 4711 program: "python3" script: "%s" host: "%s" shim_loaded_ticks: 1000000 }
  clock { kind: MONOTONIC ticks_per_second: 1000000000 } capture_families: "blas,onednn" } }
packet { clock_sample { ticks: 1000000 monotonic_ns: 1000000 realtime_ns: 1700000000000000000 } }
packet { thread { thread_id: 1 tid: 4711 name: "%s" } }
"""


PLAIN = HEADER % ("train.py", "host", "python3")


def footer(end, calls=0):
    return f"packet {{ footer {{ end: EXITED end_ticks: {end} }} }}"


def quoted(text):
    """As textproto has it."""
    return "".join(f"\\{byte:03o}" if byte < 32 or byte in b"\"\\" or byte > 126 else chr(byte) for byte in text.encode())


def encoded(textproto):
    command = ["protoc", "--encode=dlhook.trace.Trace", f"-I{ROOT}/proto", f"{ROOT}/proto/trace.proto"]
    return subprocess.run(command, input=textproto.encode(), stdout=subprocess.PIPE, check=True).stdout


def write(folder, name, *parts, file="1.dlh"):
    """A trace in a run folder: textprotos and bytes one after another; the folder's path."""
    run = os.path.join(folder, name)
    os.makedirs(run, exist_ok=True)
    with open(os.path.join(run, file), "wb") as trace:
        for part in parts:
            trace.write(part if isinstance(part, bytes) else encoded(part))
    return run


def golden(folder, trace, name=None):
    with open(os.path.join(GOLDEN, trace + ".textproto"), encoding="utf-8") as file:
        return write(folder, name or trace, file.read())


def recorded(folder, name):
    """A run of tests/golden/gpu, of an H200."""
    with gzip.open(os.path.join(GOLDEN, "gpu", name + ".dlh.gz")) as file:
        return write(folder, name, file.read())


def convolution(iid, channels, direction):
    descriptors = "src:f32::blocked:abcd::f0 wei:f32::blocked:abcd::f0 bia:undef::undef::: dst:f32::blocked:abcd::f0"
    return (f'op {{ iid: {iid} function: "onednn:exec" family: "onednn" time_source: ONEDNN_LOG onednn {{ operation: "exec" engine: "cpu" '
            f'primitive: "convolution" implementation: "jit:avx2" prop_kind: "{direction}" memory_descriptors: "{descriptors}" '
            f'auxiliary: "alg:convolution_direct" problem: "mb2_ic{channels}oc{channels + 1}_ih5oh5kh3sh1dh0ph1_iw5ow5kw3sw1dw0pw1" }} }}')


def calls(ops, slow=0, duration=10_000):
    """These ops one after another; the op of number `slow` takes five times as long."""
    count = len(ops)
    durations = [duration * (5 if op == slow else 1) for op in ops]
    return ("packet { call_batch { thread_id: 1 base_sequence: 0 base_end_ticks: 1000000 "
            f"op_iid: {ops} sequence_delta: {[0] * count} end_delta_ticks: {[one + duration for one in durations]} duration: {durations} "
            f"parent_distance: {[0] * count} }} }}")


def network(folder, name, layers, steps, slow=0, rank=None, more=""):
    """A chain of that many convolutions, each of another size, forward and backward; the `slow`th forward one is slower."""
    forward = [convolution(layer + 1, layer + 1, "forward_training") for layer in range(layers)]
    backward = [convolution(layers + layer + 1, layer + 1, "backward_weights") for layer in range(layers)]
    one = [*range(1, layers + 1), *range(2 * layers, layers, -1)]
    end = 1_000_000 + (20_000 * len(one) + 40_000) * steps + 1_000_000
    ops = forward + backward
    interned = "".join("packet { interned { " + "\n".join(ops[i:i + 1000]) + " } }\n" for i in range(0, len(ops), 1000))
    header, file = PLAIN, "1.dlh"
    if rank is not None:
        header = PLAIN.replace("pid: 4711", f"pid: {4711 + rank}").replace(
            "process {", f'rank_variable {{ name: "RANK" value: "{rank}" }} process {{')
        file = f"{rank}.dlh"
    return write(folder, name, header + interned + calls(one * steps, slow) + more + footer(end), file=file)


def one_call(folder):
    op = convolution(1, 3, "forward_training")
    return write(folder, "one call", f"{PLAIN} packet {{ interned {{ {op} }} }} {calls([1])} {footer(3_000_000)}")


def no_calls(folder):
    return write(folder, "no calls", PLAIN + footer(3_000_000))


def hostile(folder):
    """Every name is HOSTILE: of the program, its machine, a thread, a function, a problem, an implementation."""
    name = quoted(HOSTILE)
    op = convolution(1, 3, "forward_training")
    for known in ("jit:avx2", "mb2_ic3oc4_ih5oh5kh3sh1dh0ph1_iw5ow5kw3sw1dw0pw1"):
        op = op.replace(known, known + name)
    product = (f'op {{ iid: 2 function: "sgemm_{name}" family: "blas" time_source: CLOCK_TICKS gemm {{ a_type: F32 b_type: F32 '
               'c_type: F32 m: 10 n: 20 k: 30 trans_a: "T" trans_b: "N" lda: 30 ldb: 30 ldc: 10 batch: 1 } }')
    capability = f'packet {{ capability {{ name: "{name}" state: REFUSED object: "{name}" reason: "{name}" }} }}'
    return write(folder, "hostile", HEADER % (name, name, name) + capability + f"packet {{ interned {{ {op} {product} }} }}" +
                 calls([1, 2] * 6) + footer(9_000_000))


def field(number, value):
    """Of a message, as bytes, whatever its schema says."""
    tag = number << 3 | 2
    return bytes([tag] if tag < 128 else [tag & 127 | 128, tag >> 7]) + bytes([len(value)]) + value


# What a later version may add: a kind of packet, and a field of a thread (number 9 of a packet).
NEW = field(1, field(999, b"new")) + field(1, field(9, b"\x08\x01" + field(999, b"new")))


def newer(folder, name="newer", major=1):
    """Of a version with a newer minor number, or of another major one."""
    header = PLAIN.replace("schema_major: 1", f"schema_major: {major} schema_minor: 99").replace('"test"', '"9.0"')
    op = convolution(1, 3, "forward_training")
    return write(folder, name, f"{header} packet {{ interned {{ {op} }} }} {calls([1] * 20)}", NEW, footer(9_000_000), file="2.dlh")


def two_versions(folder, major=1):
    """One process of the version before, which had fewer packets and fields, and one of a newer one."""
    return newer(folder, os.path.basename(golden(folder, "training", f"two versions {major}")), major)
