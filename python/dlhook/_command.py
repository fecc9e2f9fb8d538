"""The command dlhook: where it is, how it is started, and its errors."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import shutil
import subprocess
import warnings
from typing import Any, Optional, Sequence


class Error(RuntimeError):
    """What the command dlhook said was wrong, in its words. `exit_code`: the command's."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class ProgramFailed(Error):
    """The recorded program did not end with 0. `run`: what was recorded of it, None if nothing; `exit_code`: its own, negative: the
    signal that ended it."""

    def __init__(self, message: str, exit_code: int, run: Any) -> None:
        super().__init__(message, exit_code)
        self.run = run


class DamagedRunWarning(UserWarning):
    """A part of the run cannot be read; what the tables show is whole."""


@functools.lru_cache(maxsize=None)
def command_path() -> str:
    """The absolute path of the command: the one that this package was installed with, else the first in PATH."""
    try:
        installed = importlib.metadata.files("dlhook") or []
    except importlib.metadata.PackageNotFoundError:
        installed = []
    for file in installed:
        if file.name == "dlhook" and file.parent.name == "bin":
            path = os.path.abspath(file.locate())
            if os.access(path, os.X_OK):
                return path
    found = shutil.which("dlhook")
    if found is None:
        raise Error("the command dlhook is neither installed with this package nor in PATH", 127)
    return os.path.abspath(found)


def unrecorded_environment() -> dict[str, str]:
    """The environment for the command itself: it need not be recorded where this process is."""
    preloads = os.environ.get("LD_PRELOAD", "").replace(" ", ":").split(":")
    others = ":".join(path for path in preloads if path and os.path.basename(path) != "libdlhook.so")
    return {**os.environ, "LD_PRELOAD": others}


def _message(text: str) -> str:
    return "\n".join(line.removeprefix("dlhook: ") for line in text.strip().splitlines())


def start(words: Sequence[str], answers: Sequence[int] = (0,)) -> tuple[int, str]:
    """Exit code and output of the command. Raises Error, unless the exit code is one of `answers`. What is whole of a damaged run is
    returned with a DamagedRunWarning."""
    done = subprocess.run([command_path(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=unrecorded_environment(), check=False)
    output = done.stdout.decode("utf-8", "replace")
    message = _message(done.stderr.decode("utf-8", "replace"))
    if done.returncode in answers:
        return done.returncode, output
    if done.returncode != 2 or not output.strip():
        raise Error(message or f"dlhook {words[0]} ended with {done.returncode}", done.returncode)
    warnings.warn(message, DamagedRunWarning, stacklevel=4)
    return done.returncode, output


def version() -> str:
    """The command's version, "0.1.0"."""
    return start(["--version"])[1].split()[1]


def flags(**options: object) -> list[str]:
    """Keyword arguments as the command's flags: fail_above=3 is --fail-above 3, None and False are none, a list is one flag with commas.

    >>> flags(by="type", depth=1, sort=None, table=["ops", "gemm"])
    ['--by=type', '--depth=1', '--table=ops,gemm']
    """
    words = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        flag = "--" + name.replace("_", "-")
        words.append(flag if value is True else f"{flag}={value}")
    return words


def path_of(run: object) -> str:
    """A run's folder as the command takes it: a name is never taken for a flag."""
    path: Optional[str] = getattr(run, "path", None)
    path = os.fspath(run) if path is None else path  # type: ignore[call-overload]
    return os.path.join(".", path) if path.startswith("-") else path
