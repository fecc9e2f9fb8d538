"""Run by test_python.py in an environment with pandas and pyarrow: check.py RUN. The doctests, and tables as other libraries have them."""

import doctest
import importlib
import sys

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
    assert "<iframe" in run._repr_html_() and "<table" in run.read("layers")._repr_html_()
    print("as expected")


main()
