"""Notebooks: `%%dlhook`, which runs a cell as a program of its own under dlhook."""

from __future__ import annotations

import codecs
import os
import shlex
import subprocess
import sys
import tempfile
import threading
from typing import Any


def _show(pipe: int) -> None:
    """Prints text as it comes: lines, the states of a progress bar, a prompt."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with open(pipe, "rb", buffering=0) as unbuffered:
        while data := unbuffered.read(1 << 16):
            print(decoder.decode(data), end="", flush=True)
    print(decoder.decode(b"", final=True), end="")


def run_cell(line: str, cell: str) -> Any:
    """`%%dlhook [RUN] [NAME=VALUE]...`: runs the cell's text as a script in a child process under dlhook, prints what it prints and shows
    the report. RUN: the folder of the run; NAME=VALUE: variables, such as DLHOOK_STACKS=all. `%%dlhook --help` runs nothing."""
    from dlhook._command import ProgramFailed
    from dlhook._run import profile

    words = shlex.split(line)
    flags = [word for word in words if word.startswith("-")]
    if flags and flags[0] not in ("-h", "--help"):
        raise ValueError(f"%%dlhook has no flag {flags[0]}; %%dlhook --help")
    if flags:
        return print(run_cell.__doc__)
    variables = dict(word.split("=", 1) for word in words if "=" in word)
    folders = [word for word in words if "=" not in word]
    if len(folders) > 1:
        raise ValueError(f"%%dlhook: expected one folder for the run, found {' '.join(folders)}")
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "cell.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(cell)
        reading, writing = os.pipe()
        reader = threading.Thread(target=_show, args=(reading,), daemon=True)
        reader.start()
        try:
            return profile([sys.executable, script], folders[0] if folders else None, variables=variables, stdout=writing,
                           stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        except ProgramFailed as error:
            raise ProgramFailed(f"the cell ended with {error.exit_code}", error.exit_code, error.run) from None
        finally:
            os.close(writing)
            reader.join(5)  # a process that the cell left behind may keep the pipe open for ever


def load(shell: Any) -> None:
    """Registers the magic."""
    shell.register_magic_function(run_cell, magic_kind="cell", magic_name="dlhook")
