"""Run by test_python.py in an environment with pandas and pyarrow: check.py RUN. The doctests, and tables as other libraries have them."""

import contextlib
import doctest
import importlib
import io
import sys
import types

import pandas
import pyarrow

import dlhook


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
    from dlhook._pytest_plugin import _failures

    losses = [finding.rule for finding in run.findings if finding.kind == "loss"]
    assert "layout-conversions" in losses
    for demanded, expected in (("layout-conversions", ["layout-conversions"]), (["layout-conversions", "float64"], ["layout-conversions"]),
                               (["float64"], []), (True, losses), (False, [])):
        assert [failure.split(":")[0] for failure in _failures(run, None, no_findings=demanded)] == expected, demanded


def check_notebook():
    magics = {}
    dlhook.load_ipython_extension(types.SimpleNamespace(
        register_magic_function=lambda function, magic_kind, magic_name: magics.update({(magic_kind, magic_name): function})))
    with contextlib.redirect_stdout(io.StringIO()) as said:
        run = magics["cell", "dlhook"]("CELL DLHOOK_STACKS=native", "import numpy\nnumpy.ones((9, 9)) @ numpy.ones((9, 9))\nprint('said')")
    assert said.getvalue().startswith("said\n"), said.getvalue()
    assert run.path == "CELL" and len(run.read("gemm")) == 1
    assert run._repr_html_().startswith("<iframe srcdoc=") and "<script>" not in run._repr_html_()
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(dlhook.ProgramFailed):
        magics["cell", "dlhook"]("", "raise SystemExit('why')")
        raise AssertionError("a cell that fails is an error")
    assert said.getvalue().startswith("why\n")


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
    check_demands(run)
    check_notebook()
    print("as expected")


main()
