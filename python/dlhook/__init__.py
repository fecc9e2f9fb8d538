"""dlhook from Python: record programs, read their runs as tables, compare them.

.. code-block:: python

    import dlhook

    run = dlhook.profile(["python", "train.py"])     # or dlhook.open("RUN")
    run.layers()                                     # a pandas DataFrame, times in ns
    run.table("gemm").attrs["units"]                 # {"total_time": "ns", …}
    for finding in run.findings:
        print(finding.gain, finding.finding, finding.advice)
    dlhook.diff("BEFORE", "AFTER").verdict

Everything is computed by the command ``dlhook``; this package starts it and reads its json output.
"""

from dlhook._command import DamagedRunWarning, Error, ProgramFailed, command_path, version
from dlhook._recording import recording
from dlhook._run import Diff, Finding, Run, diff, open, profile
from dlhook._table import Column, Table

__all__ = [
    "Column", "DamagedRunWarning", "Diff", "Error", "Finding", "ProgramFailed", "Run", "Table", "command_path", "diff",
    "load_ipython_extension", "open", "profile", "recording", "version",
]

for _public in (Column, DamagedRunWarning, Diff, Error, Finding, ProgramFailed, Run, Table):
    _public.__module__ = __name__  # as tracebacks and help() name them


def load_ipython_extension(shell) -> None:
    """``%load_ext dlhook``: the cell magic ``%%dlhook``."""
    from dlhook import _notebook

    _notebook.load(shell)
