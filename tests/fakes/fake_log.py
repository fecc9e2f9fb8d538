"""Reads the log of the fake vendor libraries; README.md describes its columns.

    calls = fake_log.read(path)                    in the order in which the calls began
    fake_log.stable(calls)                         the same without what differs from run to run

Run as a program it prints a log in that stable form: fake_log.py LOG…
"""

import dataclasses
import re
import sys

# Where the fakes put what they give out (core/memory.cc): the same in every run. Other addresses are the process's own.
HANDLES = range(0x7E8000000000, 0x7E9000000000)
MEMORY = range(0x7E9000000000, 0x7EF000000000)
SMALL = 0x10000  # null and the handles of the default streams
ADDRESS = re.compile(r"0x[0-9a-f]+")


@dataclasses.dataclass
class Call:
    sequence: int  # in the order of beginning, over all threads
    thread: int  # in the order of the first logged call
    depth: int  # 0: called by something that is not a fake
    library: str
    function: str
    status: str  # returned number or pointer; '' for void
    note: dict  # what the fake did: key=value words; words without '=' have the value ''
    arguments: dict  # name -> text, as the table names them

    def number(self, name):
        """An argument as an integer; of `ADDRESS>VALUE` the address."""
        return int(self.arguments[name].split(">")[0], 0)

    def written(self, name):
        """What lies at an address after the call, or None."""
        _, arrow, value = self.arguments[name].partition(">")
        return int(value, 0) if arrow else None

    def returned(self):
        return int(self.status, 0) if self.status else None


def parse(line):
    sequence, thread, depth, library, function, status, note, *arguments = line.split("\t")
    notes = dict(word.partition("=")[::2] for word in note.split(" ") if word)
    values = dict(argument.partition("=")[::2] for argument in arguments)
    return Call(int(sequence), int(thread), int(depth), library, function, status, notes, values)


def read(path):
    with open(path, "rb") as file:
        text = file.read().rstrip(b"\0").decode(errors="replace")  # zeros: the process was killed
    calls = [parse(line) for line in text.split("\n") if line]
    calls.sort(key=lambda call: call.sequence)
    return calls


def stable(calls, handles=True):
    """One text a call, without sequence numbers and without addresses that the fakes did not choose.

    handles=False leaves out those of handles too: they change when something creates handles between the program's own.
    """

    def shown(match):
        value = int(match[0], 16)
        return match[0] if value in MEMORY or value < SMALL or (handles and value in HANDLES) else "0x…"

    lines = []
    for call in calls:
        arguments = [f"{name}={ADDRESS.sub(shown, value)}" for name, value in call.arguments.items()]
        notes = [f"{name}={value}" if value else name for name, value in call.note.items()]
        status = ADDRESS.sub(shown, call.status)
        lines.append(" ".join([f"{call.thread}/{call.depth}", call.function, f"-> {status}", *notes, *arguments]))
    return lines


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print("\n".join(stable(read(name))))
