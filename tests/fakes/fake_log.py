"""Reads the log of the fake vendor libraries; README.md describes its columns.

    calls = fake_log.read(path)                    in the order in which the calls began
    fake_log.stable(calls)                         the same without what differs from run to run

Run as a program it prints a log in that stable form: fake_log.py LOG…
"""

import dataclasses
import re
import sys

# The fakes' addresses (core/memory.cc): the same in every run. Other addresses are the process's own.
HANDLES = range(0x7E8000000000, 0x7E9000000000)
MEMORY = range(0x7E9000000000, 0x7EF000000000)
SMALL = 0x10000  # null and the handles of the default streams
# dlhook queries each device once (preload/gpu/gpu_devices.cc), on a thread of its own.
DEVICE_QUESTIONS = frozenset(("cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute", "cuDeviceTotalMem_v2", "cuDeviceGetUuid",
                              "cuDeviceGetUuid_v2", "cuDeviceGetPCIBusId"))
ADDRESS = re.compile(r"0x[0-9a-f]+")


@dataclasses.dataclass
class Activity:
    """Work of a device: a word `gpu=…` of the notes."""

    kind: str  # K: kernel, C: copy, S: memset, G: a launched graph as a whole (in addition to its nodes)
    device: int
    stream: int  # CUPTI's number
    start_ns: int  # of CLOCK_REALTIME
    end_ns: int
    requested_ns: int
    correlation: int
    node: int  # CUPTI's number of the executable graph's node; 0: none
    graph: int  # of the executable graph; 0: none
    bytes: int
    name: str  # of kernels: mangled; of copies as in `copy=`


@dataclasses.dataclass
class Call:
    sequence: int  # in the order of beginning, over all threads
    thread: int  # in the order of the first logged call
    depth: int  # 0: called from outside of the fakes
    library: str
    function: str
    status: str  # returned number or pointer; '' for void
    note: dict  # what the fake did: key=value words but `gpu=`; words without '=' have the value ''
    arguments: dict  # name -> text, as the table names them
    gpu: list  # Activity, in the order of the requests

    def number(self, name):
        """An argument as an integer; for `ADDRESS>VALUE` the address."""
        return int(self.arguments[name].split(">")[0], 0)

    def written(self, name):
        """The value at an address after the call, or None."""
        _, arrow, value = self.arguments[name].partition(">")
        return int(value, 0) if arrow else None

    def returned(self):
        return int(self.status, 0) if self.status else None


def parse_activity(text):
    kind, *numbers, name = text.split(":", 10)
    return Activity(kind, *map(int, numbers), name)


def parse(line):
    sequence, thread, depth, library, function, status, note, *arguments = line.split("\t")
    words = [word.partition("=")[::2] for word in note.split(" ") if word]
    notes = {name: value for name, value in words if name != "gpu"}
    gpu = [parse_activity(value) for name, value in words if name == "gpu"]
    values = dict(argument.partition("=")[::2] for argument in arguments)
    return Call(int(sequence), int(thread), int(depth), library, function, status, notes, values, gpu)


def read(path):
    with open(path, "rb") as file:
        text = file.read().rstrip(b"\0").decode(errors="replace")  # zeros: the process was killed
    calls = [parse(line) for line in text.split("\n") if line]
    calls.sort(key=lambda call: call.sequence)
    return calls


def activities(calls):
    """The work of the devices, in the order of the requests: all but whole graphs."""
    return [activity for call in calls for activity in call.gpu if activity.kind != "G"]


def stable(calls, handles=True):
    """One text a call, without sequence numbers, addresses that the fakes did not choose, times on the host's clock.

    Without calls of CUPTI: dlhook makes some of its own. Threads are renumbered: it also has threads that make calls.

    handles=False leaves out those of handles too: they change when something creates handles between the program's own.
    """

    def shown(match):
        value = int(match[0], 16)
        return match[0] if value in MEMORY or value < SMALL or (handles and value in HANDLES) else "0x…"

    lines = []
    threads = {}  # renumbered: dlhook's own thread has no number here
    for call in calls:
        if call.library == "cupti":
            continue
        arguments = [f"{name}={ADDRESS.sub(shown, value)}" for name, value in call.arguments.items()]
        notes = [f"{name}={value}" if value else name for name, value in call.note.items()]
        status = ADDRESS.sub(shown, call.status)
        thread = threads.setdefault(call.thread, len(threads))
        lines.append(" ".join([f"{thread}/{call.depth}", call.function, f"-> {status}", *notes, *arguments]))
    return lines


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print("\n".join(stable(read(name))))
