#!/usr/bin/env python3
"""Runs every command on every bomb (make_bombs.cc): exit code 0 or 2, memory and CPU time in proportion to the recorded
items.

    test_bombs.py DLHOOK MAKE_BOMBS [--large] [BOMB...]

Prints each expensive command. Bounds: 300 MB + 100 bytes per recorded item, 20 s of CPU. --large, which takes minutes
and is meant to be run by hand, adds bombs of four times the size, which may take at most 12 times as much CPU time
(user mode) unless that is below a second.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile

DLHOOK, MAKE_BOMBS = (os.path.abspath(path) for path in sys.argv[1:3])
ONLY = [word for word in sys.argv[3:] if word != "--large"]
BASE_BYTES, BYTES_A_THING = 300 << 20, 100
ADDRESS_SPACE = 4 << 30  # a reader that needs more must say so, not abort
CPU_LIMIT_S = 20
# Exceptions out of hash tables that grow, shared work, two threads.
NEED_MEMORY = {
    "looks": [["report", "--format", "json", "--table", "all"]],
    "reused_buffers": [["report"], ["report", "--format", "markdown"], ["export", "--format", "sqlite", "-o", "calls.sqlite"]],
}
MEMORY_MB = (20, 62, 80, 90, 100, 125, 160, 1000)
SIZES = (1, 4) if "--large" in sys.argv else (1,)
MAX_RATIO, ALWAYS_FINE_S = 12, 1.0


def tables():
    known = subprocess.run([DLHOOK, "report", "none", "--table", "no-such-table"], capture_output=True, text=True)
    _, _, names = known.stderr.partition("expected one of: ")
    if not names:
        sys.exit(f"{DLHOOK} does not name its tables: {known.stderr}")
    return names.strip().replace(", ", ",")


def commands(trace, copy, names):
    report = ["report", trace, "--table", names]
    return [
        report + ["--limit", "0"],
        report + ["--format", "json"],
        ["report", trace],
        ["report", trace, "--by", "stack"],
        ["report", trace, "--table", "counters_over_time,overlap_over_time", "--interval", "1", "--format", "csv"],
        ["export", trace],
        ["export", trace, "--format", "pprof", "-o", "/dev/null"],
        ["export", trace, "--format", "callgrind"],
        ["dump", trace],
        ["diff", trace, copy],
        ["scaling", trace, copy],
    ]


def limits(address_space):
    resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Outcome:
    def __init__(self, words, folder, address_space=ADDRESS_SPACE):
        with open(os.path.join(folder, "out"), "wb") as out, open(os.path.join(folder, "err"), "wb") as err:
            process = subprocess.Popen([DLHOOK] + words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder,
                                       preexec_fn=lambda: limits(address_space), env=dict(os.environ, DLHOOK_CACHE="off"))
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = self.code = os.waitstatus_to_exitcode(status)
        self.bytes = usage.ru_maxrss << 10
        self.user_s = usage.ru_utime
        with open(os.path.join(folder, "err"), errors="replace") as err:
            self.error = err.read()

    def has_ended_well(self):
        return self.code == 0 or (self.code == 2 and self.error.startswith("dlhook: "))


def make(folder, size):
    os.mkdir(folder)
    subprocess.run([MAKE_BOMBS, folder, str(size)], check=True)
    traces = {}
    for name in sorted(os.listdir(folder)):
        bomb, things, _ = name.split(".")
        traces[bomb] = (os.path.join(folder, name), int(things))
        os.link(os.path.join(folder, name), os.path.join(folder, bomb + ".copy"))
    os.mkfifo(os.path.join(folder, "fifo"))
    return traces


def check(bomb, folder, traces, names):
    """The sentences that describe errors."""
    wrong = []
    small_s = {}
    for size in SIZES:
        trace, things = traces[size][bomb]
        most = BASE_BYTES + BYTES_A_THING * things
        for i, words in enumerate(commands(trace, os.path.join(os.path.dirname(trace), bomb + ".copy"), names)):
            outcome = Outcome(words, folder)
            what = f"{bomb} x {size} ({things} things): {words[0]} {' '.join(words[2:])[:60]}"
            took = f"code {outcome.code}, {outcome.bytes >> 20} MB, {outcome.user_s:.2f} s"
            if outcome.user_s > ALWAYS_FINE_S or outcome.bytes > BASE_BYTES:
                print(f"{what}: {took}", flush=True)
            if not outcome.has_ended_well():
                wrong.append(f"{what}: {took}: {outcome.error[-300:]!r}")
            elif outcome.bytes > most:
                wrong.append(f"{what}: {took}; expected at most {most >> 20} MB")
            elif size > 1 and outcome.user_s > max(ALWAYS_FINE_S, MAX_RATIO * small_s[i]):
                wrong.append(f"{what}: {took}; a quarter of it took {small_s[i]:.2f} s")
            small_s.setdefault(i, outcome.user_s)
    return wrong


def check_memory(bomb, folder, trace):
    """With each limit of memory (ulimit -v) commands end with an answer or a message, both of them with some."""
    wrong = []
    for command, *flags in NEED_MEMORY[bomb]:
        words, codes = [command, trace, *flags], set()
        for megabytes in MEMORY_MB:
            outcome = Outcome(words, folder, megabytes << 20)
            codes.add(outcome.code)
            if not outcome.has_ended_well():
                wrong.append(f"{bomb}: {' '.join(words)} with {megabytes} MB: code {outcome.code}: {outcome.error[-300:]!r}")
        if codes != {0, 2}:
            wrong.append(f"{bomb}: {' '.join(words)} with {MEMORY_MB}: codes {sorted(codes)}")
    return wrong


def main():
    folder = tempfile.mkdtemp(prefix="dlhook_bombs.")
    try:
        names = tables()
        traces = {size: make(os.path.join(folder, str(size)), size) for size in SIZES}
        os.mkfifo(os.path.join(folder, "fifo"))
        wrong = []
        bombs = [bomb for bomb in traces[1] if not ONLY or bomb in ONLY]
        for bomb in bombs:
            wrong += check(bomb, folder, traces, names)
            if bomb in NEED_MEMORY:
                wrong += check_memory(bomb, folder, traces[1][bomb][0])
    finally:
        shutil.rmtree(folder)
    print("\n".join(wrong))
    print(f"{len(bombs)} bombs, {len(wrong)} commands too costly")
    return 1 if wrong or not bombs else 0


if __name__ == "__main__":
    sys.exit(main())
