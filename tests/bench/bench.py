#!/usr/bin/env python3
"""Runs dlhook's benchmarks and prints tables with verdicts; scripts/bench.sh builds and calls it. Standard library only.

Verdicts: pass or FAIL if the whole 95 % interval is on one side of the limit, else undecided.
Exit codes: 0; 1 if a figure fails or is invalid; 2 for a wrong command line.
"""

import argparse
import os
import subprocess
import sys

import figures_calls
import figures_cuda
import figures_drain
import figures_gpu
import figures_peers
import figures_reader
import figures_report
import peers
import runner
from stats import markdown


def calls(scale):
    return figures_calls.per_call(1, rounds(61, scale)) + figures_calls.per_call(2, rounds(61, scale))


def cuda(scale):
    return figures_cuda.cuda_figures(rounds(61, scale))


def gpu(scale):
    return figures_gpu.gpu_figures(rounds(21, scale))


def drain(scale):
    return figures_calls.with_drain(rounds(11, scale)) + figures_drain.drain(rounds(15, scale))


def memory(scale):
    return figures_calls.memory()


def reader(scale):
    return figures_reader.reader(rounds(9, scale))


def report(scale):
    return figures_report.report(rounds(5, scale))


def torch(scale):
    if not runner.TORCH_PYTHON:
        print("SKIPPED: torch: no Python with torch; name one by PYTHON_WITH_TORCH", file=sys.stderr)
        return []
    import figures_torch

    return figures_torch.torch_figures(scale)


def scopes(scale):
    if not runner.TORCH_PYTHON:
        print("SKIPPED: scopes: no Python with torch; name one by PYTHON_WITH_TORCH", file=sys.stderr)
        return []
    import figures_scopes

    return figures_scopes.scopes_figures(scale)


def torch_cuda(scale):
    if not runner.CUDA_PYTHON:
        print("SKIPPED: torch_cuda: no PyTorch for CUDA: run scripts/setup.sh --frameworks", file=sys.stderr)
        return []
    import figures_torch_cuda

    return figures_torch_cuda.torch_cuda_figures(scale)


def peer_calls(scale):
    with figures_peers.recorders() as found:
        return figures_peers.calls(found, rounds(21, scale))


def peer_onednn(scale):
    return figures_peers.onednn(rounds(21, scale))


def peer_reading(scale):
    with figures_peers.recorders() as found:
        return figures_peers.reading(found, rounds(13, scale))


def peer_torch(scale):
    if not runner.TORCH_PYTHON:
        print("SKIPPED: peer_torch: no Python with torch; name one by PYTHON_WITH_TORCH", file=sys.stderr)
        return []
    import figures_peers_torch

    return figures_peers_torch.torch(rounds(16, scale))


FIGURES = {figure.__name__: figure for figure in (calls, cuda, gpu, drain, memory, reader, report, torch, scopes, torch_cuda)}
PEERS = {figure.__name__: figure for figure in (peer_calls, peer_onednn, peer_reading, peer_torch)}


def rounds(count, scale):
    return max(3, int(count * scale))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = {**FIGURES, **PEERS}
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"which ones: {', '.join(known)}")
    parser.add_argument("--peers", action="store_true", help="all that compare with other profilers; without it and without "
                                                             "a name: all others")
    parser.add_argument("--scale", type=float, default=1, help="number of rounds, as a factor (0.2: a quick look)")
    options = parser.parse_args()
    unknown = [name for name in options.figures if name not in known]
    if unknown:
        parser.error(f"unknown figure '{unknown[0]}', expected {', '.join(known)}")
    names = [*(PEERS if options.peers else []), *options.figures] or [*FIGURES]
    for name in ("SHIM", "DLHOOK", "PROGRAMS"):
        if not os.path.exists(getattr(runner, name)):
            parser.error(f"DLHOOK_BENCH_{name} names nothing that exists; run scripts/bench.sh")
    failed = False
    if any(name in PEERS for name in names):
        print(f"{peers.machine()}; {peers.versions()}", end="\n\n", flush=True)
    for name in names:  # each table as soon as it is available: the rest takes minutes
        try:
            rows = known[name](options.scale)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:  # the other figures are still useful
            print(f"FAILED: {name}: {error}", end="\n\n", file=sys.stderr, flush=True)
            failed = True
            continue
        if rows:
            print(markdown(rows), end="\n\n", flush=True)
        failed = failed or any(row.verdict().startswith(("FAIL", "INVALID")) for row in rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
