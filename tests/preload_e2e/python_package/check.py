"""Run by test_python.py in an environment with pandas and pyarrow: check.py RUN. The doctests, and tables as other libraries have them."""

import contextlib
import doctest
import glob
import gzip
import importlib
import io
import json
import os
import sys
import types

import jsonschema
import pandas
import pyarrow

import dlhook
from dlhook import _command

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "golden")


def validator_of(name):
    """By docs/NAME.schema.json, which allows no other key."""
    with open(os.path.join(GOLDEN, "..", "..", "docs", f"{name}.schema.json"), encoding="utf-8") as file:
        validator = jsonschema.Draft202012Validator(json.load(file))
    validator.check_schema(validator.schema)
    return validator


def check_schema(run):
    """The schemas are what real traces give; docs/schema.md says what must add up."""
    validator = validator_of("report")
    paths = [run.path]
    for name in glob.glob(os.path.join(GOLDEN, "gpu", "*.gz")):
        paths.append(os.path.splitext(os.path.basename(name))[0])
        with gzip.open(name) as packed, open(paths[-1], "wb") as file:
            file.write(packed.read())
    assert len(paths) > 6
    evidence = 0
    for path in paths:
        text = _command.start(["report", path, "--format=json"])[1]
        report = json.loads(text)
        validator.validate(report)
        assert len(text.encode()) <= 8192, path
        assert sum(part["percent"] for part in report["parts"]) == 100, path
        steps = report["steps"]
        assert steps["used"] + sum(left_out["steps"] for left_out in steps["left_out"]) == steps["all"], path
        rows = [(finding["rule"], str(row)) for finding in report["findings"] for row in finding["evidence"]["rows"]]
        assert len(set(rows)) == len(rows), path  # no row is evidence of two findings of a rule
        evidence += len(rows)
    assert evidence > 10
    for words in (paths[:2], paths[1:3], paths[2:4], [run.path, run.path], ["--table=gemm", *paths[:2]],
                  ["--base", *paths[:2], "--new", *paths[2:4]]):
        diff = json.loads(_command.start(["diff", *words, "--format=json"])[1])
        validator_of("diff").validate(diff)
        verdict, causes = diff["tables"][:2]
        changes = [row[2] for row in verdict["rows"] if row[0] != "sample"]
        assert sum(row[1] for row in causes["rows"]) == (changes or [0])[0], words


def check_doctests(run):
    for name in ("_command", "_table", "_run", "_recording"):
        module = importlib.import_module(f"dlhook.{name}")
        failed, _ = doctest.testmod(module, extraglobs={"run": run, "dlhook": dlhook}, optionflags=doctest.ELLIPSIS)
        assert failed == 0, name


def check_frame(table, frame):
    assert list(frame.columns) == [column.name for column in table.columns]
    for column in table.columns:
        known = [None if pandas.isna(cell) else cell for cell in frame[column.name]]
        assert known == table.column(column.name), column
    assert frame.attrs["units"] == table.units
    assert frame.attrs["explanations"].keys() == set(frame.columns)


def check_arrow(table, arrow):
    assert arrow.to_pylist() == list(table)
    assert {field.name: field.metadata[b"unit"].decode() for field in arrow.schema if field.metadata[b"unit"]} == table.units


def check_demands(run):
    """Those of the pytest plugin that need a run with findings; the rest: PERFORMANCE in test_python.py."""
    from dlhook._pytest_plugin import OF_LOAD, _failures

    _command.start(["report", "--explain=rule", *(f"--ignore={rule}" for rule in OF_LOAD)])  # an error, unless each is a rule
    losses = [finding.rule for finding in run.findings if finding.kind == "loss"]
    assert "layout-conversions" in losses
    for demanded, expected in (("layout-conversions", ["layout-conversions"]), (["layout-conversions", "float64"], ["layout-conversions"]),
                               (["float64"], []), (True, [rule for rule in losses if rule not in OF_LOAD]), (False, [])):
        assert [failure.split(":")[0] for failure in _failures(run, None, no_findings=demanded)] == expected, demanded


def check_notebook():
    magics = {}
    dlhook.load_ipython_extension(types.SimpleNamespace(
        register_magic_function=lambda function, magic_kind, magic_name: magics.update({(magic_kind, magic_name): function})))
    with contextlib.redirect_stdout(io.StringIO()) as said:
        run = magics["cell", "dlhook"]("CELL DLHOOK_STACKS=native", "import numpy\nnumpy.ones((9, 9)) @ numpy.ones((9, 9))\nprint('said')")
    assert said.getvalue().startswith("said\n"), said.getvalue()
    assert run.path == "CELL" and len(run.read("gemm")) == 1
    assert run._repr_html_().startswith("<pre>") and len(run._repr_html_()) < 10000
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert magics["cell", "dlhook"]("--help", "raise SystemExit('ran')") is None
    assert "%%dlhook [RUN]" in said.getvalue() and "ran" not in said.getvalue().split() and not os.path.exists("--help")
    with contextlib.suppress(ValueError):
        magics["cell", "dlhook"]("--stacks", "raise SystemExit('ran')")
        raise AssertionError("an unknown flag is an error")
    assert len(dlhook.diff(run, run)._repr_html_()) < 20000
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(dlhook.ProgramFailed):
        magics["cell", "dlhook"]("", "raise SystemExit('why')")
        raise AssertionError("a cell that fails is an error")
    assert said.getvalue().startswith("why\n")
    with contextlib.redirect_stdout(io.StringIO()):
        silent = magics["cell", "dlhook"]("'a folder'", "pass")
    assert silent.path == "a folder" and "no call that dlhook sees" in silent._repr_html_()  # shown, not raised
    # What a cell prints is seen while it runs: it waits until it was.
    seen = types.SimpleNamespace(write=lambda text: open("seen", "w").close() if "first" in text else None, flush=lambda: None)
    with contextlib.redirect_stdout(seen):
        magics["cell", "dlhook"]("", """import os, time
print('first', end='', flush=True)
end = time.monotonic() + 20
while not os.path.exists('seen'):
    assert time.monotonic() < end, "not seen"
    time.sleep(0.01)""")


def main():
    run = dlhook.open(sys.argv[1])
    check_doctests(run)
    for name in [*run.tables, "copies"]:  # this run has no rows of the latter
        table = run.read(name)
        check_frame(table, run.table(name))
        check_arrow(table, table.arrow())
        check_arrow(table, pyarrow.table(table))  # as any reader of Arrow's interface
    assert len(run.table("copies")) == 0 and len(run.table("copies").columns) > 3
    assert str(run.layers().dtypes["time"]) == "Int64"
    assert "<table" in run.read("layers")._repr_html_()
    check_schema(run)
    check_demands(run)
    check_notebook()
    print("as expected")


main()
