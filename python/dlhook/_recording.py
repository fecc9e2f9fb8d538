"""Recording of a part of a program, from inside."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from typing import Iterator, Optional

from dlhook import _command

_lock = threading.Lock()
_depth = 0


def _run_folder() -> Optional[str]:
    """The folder that this process is recorded into; None: it is not recorded."""
    try:
        with open("/proc/self/maps", "rb") as maps:
            if b"/libdlhook.so" not in maps.read():
                return None
    except OSError:
        return None
    folder = os.environ.get("DLHOOK_OUT")
    if folder:
        return folder
    # Without DLHOOK_OUT a thread of this process writes its trace into a folder that only the library knows.
    for name in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{name}")
        except OSError:  # the descriptor of the listing itself
            continue
        if path.endswith(".dlh"):
            return os.path.dirname(path)
    return ""


def _switch(verb: str) -> None:
    folder = _run_folder()
    if folder is None:
        return
    try:
        if not folder:
            raise _command.Error("the folder of its run is not known")
        _command.start(["ctl", verb, folder, f"--process={os.getpid()}"])
    except _command.Error as error:
        warnings.warn(f"dlhook.recording: can't {verb} recording: {error}", RuntimeWarning, stacklevel=5)


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Records what happens inside, in a program that was started under dlhook, and nothing after it:

        DLHOOK_START=off dlhook run -- python train.py

        with dlhook.recording():
            train_one_epoch()

    Only this process; blocks may be nested, the outermost counts. Import the framework before. Without dlhook it has no effect. If
    recording can't be switched, a RuntimeWarning says why. Also a decorator. Entering and leaving take milliseconds.
    """
    global _depth
    with _lock:
        _depth += 1
        if _depth == 1:
            _switch("start")
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _switch("stop")
