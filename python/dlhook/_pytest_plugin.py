"""The pytest plugin: performance tests. A test with the mark `dlhook` runs in a child process under dlhook, and fails if its run is not as
the mark demands:

    @pytest.mark.dlhook(max_step_ms=5, no_findings=["float64"], baseline="runs/train")
    def test_training(): ...
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import xml.etree.ElementTree
from typing import Any, Iterator, Sequence, Union

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
    group.addoption(INSIDE, action="store_true", help="(in the child process that is recorded)")


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


def _run_outside(item: Any, **demands: Any) -> None:
    folder = pathlib.Path(item.config._tmp_path_factory.mktemp("dlhook"))
    run = _recorded(item, folder)
    try:
        step = run.step
        item.user_properties += [("dlhook_steps", step.used), ("dlhook_median_ms", step.median_ms), ("dlhook_mean_ms", step.mean_ms),
                                 ("dlhook_samples_per_second", run.samples_per_second)]
    except _command.Error:
        pass  # the demands say what is wrong
    try:
        failures = list(_failures(run, item.config, **demands))
    except _command.Error as error:
        failures = [str(error)]
    if failures:
        pytest.fail("\n".join([*failures, f"run: {run.path}"]), pytrace=False)


def _recorded(item: Any, folder: pathlib.Path) -> _run.Run:
    """The run of the test in a child process; fails or is skipped as the test there."""
    config = item.config
    results, output = folder / "results.xml", folder / "output.txt"
    words = [sys.executable, "-m", "pytest", f"{item.path}::{item.nodeid.split('::', 1)[1]}", INSIDE, "-p", __name__, "-o", "addopts=",
             f"--rootdir={config.rootpath}", "-p", "no:cacheprovider", f"--junitxml={results}"]
    if config.inipath:
        words += ["-c", str(config.inipath)]
    with open(output, "wb") as file:
        run = _run.profile(words, folder / "run", check=False, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                           cwd=config.invocation_params.dir)
    text = output.read_text("utf-8", "replace")
    cases = list(xml.etree.ElementTree.parse(results).iter("testcase")) if results.exists() else []
    if len(cases) != 1 or any(case.find(kind) is not None for case in cases for kind in ("failure", "error")):
        pytest.fail(text, pytrace=False)
    skipped = cases[0].find("skipped")
    if skipped is not None:
        pytest.skip(skipped.get("message", ""))
    return run


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
        elif _run.diff(path, run).is_slower(fail_above):
            yield f"slower than {path}: {_run.diff(path, run).verdict}"
