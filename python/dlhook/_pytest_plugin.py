"""The pytest plugin: performance tests. A test with the mark `dlhook` runs in a child process under dlhook, and fails if its run is not as
the mark demands:

    @pytest.mark.dlhook(max_step_ms=5, no_findings=["float64"], baseline="runs/train")
    def test_training(): ...
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import warnings
from typing import Any, Iterator, NamedTuple, Optional, Sequence, Union

import pytest

from dlhook import _command, _run

INSIDE = "--dlhook-inside"
UPDATE = "--dlhook-update-baselines"
DEMANDS = ("max_step_ms", "no_findings", "baseline", "fail_above")
# Rules whose findings depend on how busy the machine is: no_findings=True leaves them out.
OF_LOAD = {"denormals", "gpu-idle", "growing-steps", "input-wait", "late-rank", "longer-steps", "machine-busy", "one-thread",
           "processor-quota", "python-bound", "slow-lines", "spinning-threads", "too-many-threads", "uneven-threads", "warm-up"}
MARK = ("dlhook(max_step_ms=None, no_findings=(), baseline=None, fail_above=3): runs the test under dlhook. max_step_ms: what the median "
        "steady step may take; no_findings: rules that must find nothing, True: all that find losses and do not depend on the machine's "
        "load; baseline: the folder of a run than "
        "which a step must not be slower by more than fail_above percent and noise")


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("dlhook")
    group.addoption(UPDATE, action="store_true", help="keep the runs of tests with the mark dlhook as their baselines")
    group.addoption(INSIDE, metavar="FILE", help="(in the child process that is recorded: where it says how its tests ended)")


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", MARK)


def pytest_collection_modifyitems(config: Any, items: Sequence[Any]) -> None:
    if config.getoption(INSIDE):
        return
    for item in items:
        mark = item.get_closest_marker("dlhook")
        if mark is not None:
            unknown = [*map(repr, mark.args), *(name for name in mark.kwargs if name not in DEMANDS)]
            if unknown:
                raise pytest.UsageError(f"{item.nodeid}: the mark dlhook does not know {unknown[0]}; expected "
                                        f"{', '.join(f'{name}=…' for name in DEMANDS)}")
            try:
                for rule in _rules(mark.kwargs.get("no_findings", ())):
                    _command.start(["report", "--explain=rule", f"--ignore={rule}"])  # an error for an unknown one
            except _command.Error as error:
                raise pytest.UsageError(f"{item.nodeid}: no_findings: {error}") from None
            # Fixtures are set up in the child only.
            item.setup = lambda: None
            item.runtest = lambda item=item, mark=mark: _run_outside(item, **mark.kwargs)


class Result(NamedTuple):
    """How a test ended in the child, in the process `pid`; `run`: what was recorded of it."""

    pid: int
    failed: Optional[str]
    skipped: Optional[str]
    run: Optional[_run.Run] = None


_results: dict[str, Result] = {}  # of a file's tests, by their ids


def _run_outside(item: Any, **demands: Any) -> None:
    run = _recorded(item)
    try:
        step = run.step
        item.user_properties += [("dlhook_steps", step.used), ("dlhook_median_ms", step.median_ms), ("dlhook_mean_ms", step.mean_ms),
                                 ("dlhook_samples_per_second", run.samples_per_second)]
    except _command.Error:
        pass  # the demands say what is wrong
    try:
        failures = list(_failures(run, item.config, **demands))
    except _command.Error as error:
        failures = [str(error) if _run.holds_a_run(run.path) else "the test made no call that dlhook sees"]
    if failures:
        pytest.fail("\n".join([*failures, f"run: {run.path}"]), pytrace=False)


def _recorded(item: Any) -> _run.Run:
    """The run of the test in a child process, which runs its file's other marked tests, too; fails or is skipped as the test there."""
    if item.nodeid not in _results:
        _record([item, *(one for one in item.session.items if one.path == item.path and one.get_closest_marker("dlhook")
                         and one.nodeid not in _results and one is not item and "PYTEST_XDIST_WORKER" not in os.environ)])
    result = _results[item.nodeid]
    if result.failed is not None:
        pytest.fail(result.failed, pytrace=False)
    if result.skipped is not None:
        pytest.skip(result.skipped)
    assert result.run is not None
    return result.run


def _record(items: Sequence[Any]) -> None:
    """Results of these tests of a file; of the first at least."""
    first, config = items[0], items[0].config
    folder = pathlib.Path(config._tmp_path_factory.mktemp("dlhook"))
    results, output = folder / "results", folder / "output.txt"
    words = [sys.executable, "-m", "pytest", *(f"{item.path}::{item.nodeid.split('::', 1)[1]}" for item in items), f"{INSIDE}={results}",
             "-p", __name__, "-o", "addopts=", f"--rootdir={config.rootpath}", "-p", "no:cacheprovider"]
    if config.inipath:
        words += ["-c", str(config.inipath)]
    with open(output, "wb") as file:
        run = _run.profile(words, folder / "run", check=False, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                           cwd=config.invocation_params.dir)
    lines = results.read_text("utf-8").splitlines() if results.exists() else []
    found = {name: Result(*result) for name, *result in map(json.loads, lines)}
    _results[first.nodeid] = Result(0, output.read_text("utf-8", "replace"), None)
    _results.update(_with_runs(run, folder, found) if len(found) > 1 else {name: one._replace(run=run) for name, one in found.items()})


def _with_runs(run: _run.Run, folder: pathlib.Path, found: dict[str, Result]) -> dict[str, Result]:
    """Each test's traces, those of processes that it started among them, as a run of their own."""
    runs = {result.pid: folder / f"run-{result.pid}" for result in found.values()}
    for path in runs.values():
        path.mkdir()
    try:
        processes = {process["pid"]: process for process in run.facts["processes"]}
    except _command.Error:
        processes = {}  # nothing was recorded
    for pid, process in processes.items():
        while pid not in runs and pid in processes:
            pid = processes[pid]["parent_pid"]
        if pid in runs:
            os.rename(os.path.join(run.path, process["file"]), runs[pid] / process["file"])
    return {name: result._replace(run=_run.Run(runs[result.pid])) for name, result in found.items()}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: Any) -> Optional[bool]:
    """In the child, which has imported what the file needs: runs each test in a fork, so that it has a trace of its own; where other
    threads forbid to fork, only the first test, and the next one has a child of its own."""
    results = item.config.getoption(INSIDE)
    if results is None:
        return None
    if len(item.session.items) == 1 or not _is_alone():
        if item is item.session.items[0]:
            _run_inside(item, results)
        return True
    pid = os.fork()
    if pid == 0:
        _run_inside(item, results)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    if status != 0:
        said = item.config.pluginmanager.getplugin("capturemanager").read_global_capture()
        _say(results, item, pid, f"ended with {os.waitstatus_to_exitcode(status)}\n{said.out}{said.err}", None)
    return True


def _is_alone() -> bool:
    """Whether this process has one thread, after those that step aside for a fork (OpenBLAS's) did so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there are threads
        pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return len(os.listdir("/proc/self/task")) == 1


def _run_inside(item: Any, results: str) -> None:
    from _pytest.runner import runtestprotocol

    reports = runtestprotocol(item, log=False, nextitem=None)
    failed = [report for report in reports if report.failed]
    skipped = [str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr) for report in reports if report.skipped]
    text = "\n".join([*(report.longreprtext for report in failed), *(f"{name}\n{said}" for name, said in reports[-1].sections)])
    _say(results, item, os.getpid(), text if failed else None, skipped[0].removeprefix("Skipped: ") if skipped else None)


def _say(results: str, item: Any, *result: Any) -> None:
    with open(results, "a", encoding="utf-8") as file:
        file.write(json.dumps([item.nodeid, *result]) + "\n")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The times of all tests' steady steps, as a table."""
    rows = [(report.nodeid, dict(report.user_properties)) for reports in terminalreporter.stats.values() for report in reports
            if getattr(report, "when", "") == "call"]
    rows = [(name, facts) for name, facts in rows if "dlhook_steps" in facts]
    if not rows:
        return
    terminalreporter.section("dlhook: steady steps")
    width = max(len(name) for name, _ in rows)
    terminalreporter.write_line(f"{'test':{width}} {'steps':>7} {'median ms':>11} {'mean ms':>11} {'samples/s':>11}")
    for name, facts in rows:
        rate = facts["dlhook_samples_per_second"]
        terminalreporter.write_line(f"{name:{width}} {facts['dlhook_steps']:>7} {facts['dlhook_median_ms']:>11.4g} "
                                    f"{facts['dlhook_mean_ms']:>11.4g} {'-' if rate is None else format(rate, '.4g'):>11}")


def _rules(no_findings: Union[bool, str, Sequence[str]]) -> Sequence[str]:
    return [no_findings] if isinstance(no_findings, str) else [] if isinstance(no_findings, bool) else no_findings


def _not_judged(note: str) -> list[str]:
    """The rules that the table findings says it could not judge."""
    beginning, _, rest = note.partition(": ")
    return rest.partition(" (")[0].split(", ") if beginning == "Could not judge" else []


def _failures(run: _run.Run, config: Any, max_step_ms: Union[float, None] = None, no_findings: Union[bool, str, Sequence[str]] = (),
              baseline: Union[str, None] = None, fail_above: float = 3) -> Iterator[str]:
    if max_step_ms is not None:
        median_ms = run.step.median_ms
        if median_ms > max_step_ms:
            yield f"the median step takes {median_ms:.4g} ms, more than {max_step_ms} ms"
    rules = _rules(no_findings)
    notes = run.read("findings").notes if rules else []
    yield from (f"no_findings: {note}" for rule in rules for note in notes if rule in _not_judged(note))
    for finding in run.findings if no_findings else []:
        if finding.rule in rules or (no_findings is True and finding.kind == "loss" and finding.rule not in OF_LOAD):
            yield f"{finding.rule}: {finding.finding} {finding.advice}"
    if baseline is not None:
        path = os.path.join(config.rootpath, baseline)
        if config.getoption(UPDATE):
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(run.path, path)
        elif not os.path.isdir(path):
            yield f"no baseline {path}: pytest {UPDATE} records it"
        elif (found := _run.diff(path, run)).is_slower(fail_above):
            yield f"slower than {path}: {found.verdict}"
