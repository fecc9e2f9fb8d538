"""Reads the times of calls from `dlhook dump`, to check that a benchmark's modes behaved as expected."""

import bisect
import re
import subprocess

from runner import DLHOOK, clean_environment


def call_times(folder, batch="call_batch"):
    """End times of all calls (of all scopes: batch="scope_batch"), in ns of CLOCK_MONOTONIC, sorted."""
    command = [DLHOOK, "dump", folder]
    text = subprocess.run(command, check=True, capture_output=True, text=True, env=clean_environment()).stdout
    samples, ticks = [], []
    now = 0
    inside = ""
    for begun, name, values in re.findall(
            r"\b(?:(call_batch|scope_batch) \{|(base_end_ticks|end_delta_ticks|ticks|monotonic_ns): \[?([-0-9, ]+))", text):
        if begun:
            inside = begun
        elif name == "base_end_ticks":
            now = int(values)
        elif name == "end_delta_ticks":
            for delta in map(int, values.split(",")):
                now += delta
                if inside == batch:
                    ticks.append(now)
        elif name == "ticks":
            sample_ticks = int(values)
        else:
            samples.append((sample_ticks, int(values)))
    return sorted(_to_nanoseconds(ticks, sorted(samples)))


def _to_nanoseconds(ticks, samples):
    keys = [sample[0] for sample in samples]
    for tick in ticks:
        i = min(max(bisect.bisect(keys, tick), 1), len(samples) - 1)
        (tick0, ns0), (tick1, ns1) = samples[i - 1], samples[i]
        yield ns0 + (tick - tick0) * (ns1 - ns0) / (tick1 - tick0)


def calls_between(times, start, end):
    return bisect.bisect_right(times, end) - bisect.bisect_left(times, start)
