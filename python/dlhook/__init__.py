"""dlhook from Python: record programs, read their runs as tables, compare them.

.. code-block:: python

    import dlhook

    run = dlhook.profile(["python", "train.py"])     # or dlhook.open("RUN")
    run.layers()                                     # a pandas DataFrame, times in ns
    run.step.median_ms, run.samples_per_second       # of steady steps
    run.table("gemm").attrs["units"]                 # {"total_time": "ns", …}
    for finding in run.findings:
        print(finding.gain, finding.finding, finding.advice)
    dlhook.diff("BEFORE", "AFTER").verdict

Everything is computed by the command ``dlhook``; this package starts it and reads its json output.
"""

from dlhook._command import DamagedRunWarning, Error, ProgramFailed, command_path, version
from dlhook._recording import recording
from dlhook._run import Diff, Finding, Run, Step, diff, open, profile
from dlhook._table import Column, Table

__all__ = [
    "Column", "DamagedRunWarning", "Diff", "Error", "Finding", "ProgramFailed", "Run", "Step", "Table", "command_path",
    "diff", "load_ipython_extension", "open", "profile", "recording", "version",
]

for _public in (Column, DamagedRunWarning, Diff, Error, Finding, ProgramFailed, Run, Step, Table):
    _public.__module__ = __name__  # as tracebacks and help() name them

__version__: str


def __getattr__(name: str) -> str:
    if name == "__version__":
        return version()
    raise AttributeError(f"module 'dlhook' has no attribute {name!r}")


def load_ipython_extension(shell: object) -> None:
    """``%load_ext dlhook``: the cell magic ``%%dlhook``."""
    from dlhook import _notebook

    _notebook.load(shell)
