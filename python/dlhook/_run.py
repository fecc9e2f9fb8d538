"""Runs: recorded, read, compared."""

from __future__ import annotations

import html
import itertools
import json
import os
import pathlib
import subprocess
import tempfile
import time
from typing import Any, Iterable, Mapping, NamedTuple, Optional, Sequence, Union

from dlhook import _command
from dlhook._command import ProgramFailed
from dlhook._table import Table

PathLike = Union[str, "os.PathLike[str]"]


class Finding(NamedTuple):
    """What could be faster: a row of the table `findings`. `gain`: what a mean step could lose, in ns, None: not known; `gain_percent`: the
    same as a part of the step."""

    rule: str
    gain: Optional[int]
    gain_percent: Optional[float]
    where: str
    line: str
    finding: str
    advice: str
    basis: str
    confidence: str
    kind: str
    evidence: str


class Step(NamedTuple):
    """The steady steps of a run, those that the report speaks of: their `kind` "training", "inference" …; how many there are, and how many
    were left out (`run.report["steps"]` says why); mean, median and quartiles in ms."""

    kind: str
    used: int
    left_out: int
    mean_ms: float
    lower_quartile_ms: float
    median_ms: float
    upper_quartile_ms: float


class Run:
    """A recorded run. Each table is computed by the command when it is asked for; nothing is kept here."""

    def __init__(self, path: Union[PathLike, Sequence[PathLike]]) -> None:
        self._paths = [os.fspath(path)] if isinstance(path, (str, os.PathLike)) else [os.fspath(part) for part in path]

    @property
    def path(self) -> str:
        """The run's folder. An Error if it has several."""
        if len(self._paths) == 1:
            return self._paths[0]
        raise _command.Error(f"{', '.join(self._paths)}: expected a run of one folder; a folder with these folders in it is one")

    def __repr__(self) -> str:
        """What ran and how long a step takes."""
        try:
            return f"<dlhook run {' '.join(self.report['answer'][:2])}>"
        except _command.Error as error:
            return f"<dlhook run: {error}>"

    def _words(self) -> list[str]:
        return ["report", *map(_command.path_of, self._paths)]

    def _report(self, **options: object) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(_command.start([*self._words(), *_command.flags(format="json", **options)])[1])
        return report

    @property
    def report(self) -> dict[str, Any]:
        """The report for programs, at most 8 KB: `dlhook report RUN --format json`, described in docs/schema.md.

        >>> run.report["schema"], run.report["version"]
        ('dlhook-report', 1)
        """
        return self._report()

    @property
    def step(self) -> Step:
        """How long a steady step takes. An Error if the run has none that repeats.

        >>> run.step.lower_quartile_ms <= run.step.median_ms <= run.step.upper_quartile_ms
        True
        """
        steps = self.report["steps"]
        if steps is None:
            raise _command.Error(f"{', '.join(self._paths)}: no repeating step was found")
        return Step(steps["kind"], steps["used"], steps["all"] - steps["used"],
                    *(steps[f"{name}_ns"] / 1e6 for name in ("mean", "lower_quartile", "median", "upper_quartile")))

    @property
    def samples_per_second(self) -> Optional[float]:
        """What all processes of the run compute together in steady steps; None: not known."""
        return (self.report["steps"] or {}).get("samples_per_second")

    def read(self, table: str, **options: object) -> Table:
        """A table as it came, without pandas. Options: those of `table`.

        >>> table = run.read("gemm")
        >>> table.units["total_time"]
        'ns'
        >>> len(table) == len(table.column("calls"))
        True
        """
        return Table(self._report(table=table, **options)["tables"][0])

    def table(self, name: str, *, by: Optional[str] = None, depth: Optional[int] = None, step: Optional[str] = None,
              sort: Optional[str] = None, limit: Optional[int] = None, interval: Optional[float] = None, **options: object) -> Any:
        """A table as a pandas DataFrame: the names and meanings of `dlhook report --table`, numbers in the units of
        ``frame.attrs["units"]`` (times in ns). The keywords are the command's flags: `by` and `depth` group layers, `step` chooses steps of
        training, validation or inference, `interval` is in ms.

        >>> frame = run.table("ops", sort="calls", limit=2)
        >>> len(frame), frame.attrs["units"]["total_time"]
        (2, 'ns')
        """
        return self.read(name, by=by, depth=depth, step=step, sort=sort, limit=limit, interval=interval, **options).pandas()

    def layers(self, by: Optional[str] = None, **options: Any) -> Any:
        """What each layer costs, forward and backward: ``table("layers")``, times in ns in a mean step.

        >>> list(run.layers(by="type").columns)[:2]
        ['step', 'type']
        """
        return self.table("layers", by=by, **options)

    @property
    def findings(self) -> list[Finding]:
        """What could be faster, the largest gain first.

        >>> [(finding.rule, finding.gain) for finding in run.findings][:1]
        [('layout-conversions', 626953)]
        """
        return [Finding(**{name: row[name] for name in Finding._fields}) for row in self.read("findings")]

    @property
    def tables(self) -> list[str]:
        """The names of the tables that have rows.

        >>> "layers" in run.tables
        True
        """
        return [table["name"] for table in self._report(table="all")["tables"] if table["rows"]]

    @property
    def facts(self) -> dict[str, Any]:
        """Processes, losses, capabilities and anomalies of the run: `run` in the command's json.

        >>> run.facts["processes"][0]["end"]
        'exited'
        """
        return dict(self._report(table="summary")["run"])

    @property
    def answer(self) -> str:
        """The screen of `dlhook report RUN`."""
        return _command.start(self._words())[1]

    def html(self, file: Optional[PathLike] = None) -> str:
        """The report as one page for a browser; written to `file` if one is named."""
        return _page(self._words(), file)

    def _repr_html_(self) -> str:
        """For notebooks, which keep it: the screen, a few KB; the page is `html`."""
        try:
            return _screen(f"{self.answer}\nThe page with pictures: run.html('report.html')")
        except _command.Error as error:
            return _screen(str(error))


class Diff:
    """What changed from one run to another. Tables are those of `dlhook diff`: verdict, causes, differences, findings, layers, work,
    layout; numbers are in the units of ``frame.attrs["units"]``."""

    def __init__(self, base: Sequence[str], new: Sequence[str]) -> None:
        self._words = ["diff", *([base[0], new[0]] if len(base) == len(new) == 1 else ["--base", *base, "--new", *new])]
        answer = json.loads(_command.start([*self._words, "--format=json"])[1])
        self._tables = {table["name"]: Table(table) for table in answer["tables"]}
        self.environment: str = answer["environment"]  # what the sides ran on differently; empty: nothing

    @property
    def verdict(self) -> str:
        """Whether a step got faster or slower, and why, as a sentence."""
        return self._tables["verdict"].title

    def read(self, name: str) -> Table:
        """A table as it came, without pandas."""
        if name not in self._tables:
            answer = json.loads(_command.start([*self._words, "--format=json", f"--table={name}"])[1])
            self._tables.update({table["name"]: Table(table) for table in answer["tables"]})
        return self._tables[name]

    def table(self, name: str) -> Any:
        """A table as a pandas DataFrame."""
        return self.read(name).pandas()

    def is_slower(self, by_percent: float) -> bool:
        """Whether a step takes longer in the new run by more than this and noise together: `dlhook diff --fail-above`. An Error where no
        noise is known."""
        code, output = _command.start([*self._words, "--format=json", f"--fail-above={by_percent}"], answers=(0, 1))
        if code not in (0, 1):
            raise _command.Error(f"is_slower: not to be told of these runs: {self.verdict}", code)
        return code == 1

    def html(self, file: Optional[PathLike] = None) -> str:
        """The comparison as one page for a browser; written to `file` if one is named."""
        return _page(self._words, file)

    def __repr__(self) -> str:
        return f"<dlhook diff: {self.verdict}>"

    def _repr_html_(self) -> str:
        return _screen(f"{self.verdict}\nThe page with pictures: diff.html('diff.html')") + self.read("causes")._repr_html_()


def _screen(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"


def _page(words: Sequence[str], file: Optional[PathLike]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html") if file is None else os.fspath(file)
        _command.start([*words, f"--html={path}"])
        return pathlib.Path(path).read_text(encoding="utf-8")


def open(path: Union[PathLike, Sequence[PathLike]]) -> Run:  # noqa: A001
    """The run in this folder, or one process trace; a list: several folders of one job. An Error if there is none.

    >>> dlhook.open("no-such-run")
    Traceback (most recent call last):
    dlhook.Error: report: no-such-run: no such file or folder; expected a run...
    """
    run = Run(path)
    run._report(table="summary")
    return run


Runs = Union[Run, PathLike, Iterable[Union[Run, PathLike]]]


def diff(base: Runs, new: Runs) -> Diff:
    """Compares two runs, or several of each side: a list is one side. Runs may be named by their folders.

    >>> dlhook.diff(run, run.path).is_slower(by_percent=3)
    False
    """
    sides = [[side] if isinstance(side, (Run, str, os.PathLike)) else list(side) for side in (base, new)]
    return Diff(*([_command.path_of(run) for run in side] for side in sides))


def profile(program: Sequence[str], output: Optional[PathLike] = None, *, variables: Optional[Mapping[str, str]] = None,
            check: bool = True, **popen: Any) -> Run:
    """Runs a program under dlhook and returns its run. `output`: the folder of the run (default: dlhook-PROGRAM-DATE-TIME in this folder);
    `variables`: what is recorded, {"DLHOOK_STACKS": "all"}; other keywords are subprocess.run's. If the program does not end with 0, raises
    ProgramFailed, unless `check` is False."""
    if isinstance(program, (str, bytes)):
        raise TypeError("program: expected a list of words, ['python', 'train.py']")
    words = [os.fspath(word) for word in program]
    if not words:
        raise ValueError("program: expected at least one word, ['python', 'train.py']")
    path = _free(os.fspath(output)) if output is not None else _new_folder(words[0])
    env = dict(popen.pop("env", None) or _command.unrecorded_environment())
    env.update(variables or {})
    done = subprocess.run([_command.command_path(), "run", f"--output={path}", "--", *words], env=env, check=False, **popen)
    run = Run(path)
    if check and done.returncode != 0:
        raise ProgramFailed(f"{' '.join(words)}: ended with {done.returncode}", done.returncode, run if holds_a_run(path) else None)
    return run


def holds_a_run(path: str) -> bool:
    return os.path.isdir(path) and any(name.endswith(".dlh") for name in os.listdir(path))


def _free(path: str) -> str:
    """`path`, or path-2, path-3 ... if it holds a run already, as the command names them."""
    names = itertools.chain([path], (f"{path}-{number}" for number in itertools.count(2)))
    return next(name for name in names if not holds_a_run(name))


def _new_folder(program: str) -> str:
    stem = f"dlhook-{os.path.basename(program)}-{time.strftime('%Y%m%d-%H%M%S')}"
    number = 0
    while True:
        path = os.path.abspath(f"{stem}-{number}" if number else stem)
        try:
            os.mkdir(path)
            return path
        except FileExistsError:
            number += 1
