"""Figures of programs that only make calls: cost per call, including the background; bytes per call; memory.

Every round runs each variant once, in random order, in a new process; only differences and ratios within a round count.
"""

import random

from runner import DLHOOK, SHIM, RunFolder, program, run, say
from stats import Estimate, Row

RING_64_MIB = 983040  # DLHOOK_RING_KIB: a fifteenth of it for each of the first eight threads
FLOOR_RING_KIB = 65536
RING_4_MIB = 61440
MAX_LOST = 0.01
WARM_UP = 4  # gemm_caller's


def per_call(threads, rounds):
    """Application threads only: no drain, and the rings hold all records of the run."""
    say(f"cost per call, {threads} thread(s)")
    caller = [program("gemm_caller"), threads, 20, 20000]
    costs = {"floor": [], "dlhook": []}
    ratios = []
    for _ in range(rounds):
        spent = {}
        for variant in random.sample(["none", "floor", "dlhook"], 3):
            spent[variant] = _thread_ns(variant, caller)
        floor, dlhook = spent["floor"] - spent["none"], spent["dlhook"] - spent["none"]
        costs["floor"].append(floor)
        costs["dlhook"].append(dlhook)
        ratios.append(dlhook / floor)
    name = f"a call, {threads} thread{'s' if threads > 1 else ''}"
    return [
        Row(f"{name}: floor (2 rdtsc, 128 B)", "ns CPU", Estimate(costs["floor"])),
        Row(f"{name}: dlhook", "ns CPU", Estimate(costs["dlhook"])),
        Row(f"{name}: dlhook / floor", "ratio", Estimate(ratios), limit=1.25, digits=3),
    ]


def _thread_ns(variant, caller):
    """CPU time of the application threads per call; the mean of their medians."""
    if variant == "dlhook":
        with RunFolder() as folder:
            result = run(caller, LD_PRELOAD=SHIM, DLHOOK_OUT=folder.path, DLHOOK_RING_KIB=RING_64_MIB, DLHOOK_DRAIN="none")
    elif variant == "floor":
        result = run(caller, LD_PRELOAD=program("libfloor.so"), FLOOR_RING_KIB=FLOOR_RING_KIB)
    else:
        result = run(caller)
    return sum(result["thread_ns"]) / len(result["thread_ns"])


def with_drain(rounds, threads=1, batches=1000):
    """Application and drain together. Bursts of 2000 calls with pauses and rings of 4 MiB: a drain that waits long for
    a processor may still lose calls, but not more than MAX_LOST of them."""
    caller = [program("gemm_caller"), threads, batches, 2000, 1000, 300]
    calls = threads * (batches * 2000 + WARM_UP)
    costs = {"writer thread": [], "dlhook run": []}
    size, problems = [], dict.fromkeys(costs, "")
    for i in range(rounds):
        say(f"application and drain, round {i + 1} of {rounds}")
        results = {}
        for host in random.sample(["none", *costs], 1 + len(costs)):
            results[host], folder_facts = _drained(host, caller)
            if folder_facts is not None:
                recorded, lost, trace_bytes = folder_facts
                size.append(trace_bytes / calls)
                if recorded + lost != calls or lost > MAX_LOST * calls:
                    problems[host] = f"{recorded} of {calls} calls recorded, {lost} lost"
        for host, samples in costs.items():
            samples.append(_cpu_ns(results[host]) - _cpu_ns(results["none"]))
    rows = [
        Row(f"application and drain, {host}", "ns CPU a call", Estimate(samples), limit=80, digits=1,
            problem=problems[host])
        for host, samples in costs.items()
    ]
    rows.append(Row("trace of the same calls", "B a call", Estimate(size), limit=32, note="addresses included"))
    return rows


def _drained(host, caller):
    if host == "none":
        return run(caller), None
    with RunFolder() as folder:
        if host == "dlhook run":
            result = run([DLHOOK, "run", "-o", folder.path, "--", *caller], DLHOOK_RING_KIB=RING_4_MIB)
        else:
            result = run(caller, LD_PRELOAD=SHIM, DLHOOK_OUT=folder.path, DLHOOK_RING_KIB=RING_4_MIB)
        return result, (*folder.counts(), folder.trace_bytes())


def _cpu_ns(result):
    """CPU time per call of the process and of the drain outside of it."""
    return result["process_ns"] + result["background_ns"]


def memory(rounds=3):
    """RssAnon + RssShmem in addition to the same program without dlhook, all threads alive, default rings, writer
    thread."""
    rows = []
    for name, threads, batches, calls in [("1 thread", 1, 5000, 2000), ("200 threads", 200, 50, 1000)]:
        say(f"memory, {name}")
        caller = [program("gemm_caller"), threads, batches, calls, 0, 300]
        added, grown = [], []
        for _ in range(rounds):
            plain = run(caller)
            with RunFolder() as folder:
                hooked = run(caller, LD_PRELOAD=SHIM, DLHOOK_OUT=folder.path)
            added.append(_mib(hooked, 2) - _mib(plain, 2))
            grown.append((_mib(hooked, 2) - _mib(hooked, 1)) - (_mib(plain, 2) - _mib(plain, 1)))
        rows.append(Row(f"memory, {name}, 10^7 calls", "MiB", Estimate(added), limit=16))
        rows.append(Row(f"memory, {name}: growth after the first tenth", "MiB", Estimate(grown), limit=0.5))
    return rows


def _mib(result, moment):
    return (result["anon_kib"][moment] + result["shmem_kib"][moment]) / 1024
