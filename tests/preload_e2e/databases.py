"""Databases of `dlhook export --format sqlite`, read by Python's sqlite3."""

import contextlib
import os
import sqlite3

import exports


@contextlib.contextmanager
def sqlite(case, run, *options):
    path = os.path.join(case.folder, "run.sqlite")
    exports.export(run, "--format", "sqlite", "--out", path, *options)
    case.assertFalse(os.path.exists(path + ".part"))
    with contextlib.closing(sqlite3.connect(path)) as database:
        yield database


def value(database, query):
    ((found,),) = database.execute(query).fetchall()
    return found


def check(case, run):
    """Each table of the report is there cell by cell, everything has a description, and sums are the tables'."""
    with sqlite(case, run) as database:
        check_tables(case, run, database)
        summary = {row["metric"]: row["value"] for row in run.table("summary")}
        case.assertEqual(value(database, "SELECT coalesce((SELECT sum(self_ns) FROM raw_calls), 0) + "
                               "coalesce((SELECT sum(total_ns - nested_ns) FROM raw_call_totals), 0)"),
                         summary["thread_time"])  # fmt: skip
        case.assertEqual(value(database, "SELECT count(*) FROM raw_steps"), summary.get("steps") or 0)
        case.assertEqual(database.execute("SELECT left_out, no_processor_ns, steady FROM raw_steps ORDER BY step_id").fetchall(),
                         [(row["left_out"], row["no_processor"], int(row["left_out"] is None)) for row in run.table("steps")])
        # Sums over windows are those of the calls; a call of the same kind inside another is a part of it.
        for op in ("convolution", "gemm", "batch_normalization"):
            case.assertEqual(value(database, f"SELECT sum(sum_ns) FROM raw_work WHERE op = '{op}' AND NOT on_gpu"),
                             value(database, "SELECT sum(self_ns) FROM raw_calls JOIN raw_ops USING (op_id) JOIN raw_steps USING (step_id) "
                                   f"WHERE steady AND op = '{op}'"))  # fmt: skip
        case.assertEqual(value(database, "SELECT sum(sum_ns) FROM raw_work WHERE on_gpu"),
                         value(database, "SELECT sum(g.end_ns - g.start_ns) FROM raw_gpu_activities g JOIN raw_steps USING (step_id) "
                               "WHERE steady"))  # fmt: skip
        # Time is divided exactly, as in accounting.
        case.assertEqual(dict(database.execute("SELECT process_id, sum(share_ns) FROM raw_time GROUP BY 1")),
                         {process: summary["wall"] for process in range(summary["processes"])})
        by_activity = ("SELECT activity, sum({}) FROM {} {} GROUP BY 1 ORDER BY 1")
        case.assertEqual(database.execute(by_activity.format("wall_share", "accounting", "")).fetchall(),
                         database.execute(by_activity.format("share_ns", "activities", "WHERE steady")).fetchall())
        # The rows of a step, and those inside a scope, are found without reading all.
        for query in ("calls WHERE step_id = 1", "activities WHERE step_id = 1", "gpu_activities WHERE step_id = 1",
                      "raw_calls WHERE scope_id = 1", "raw_scopes WHERE parent_scope_id = 1"):
            plan = " ".join(row[3] for row in database.execute(f"EXPLAIN QUERY PLAN SELECT * FROM {query}"))
            case.assertNotIn("SCAN", plan, query)
        # Views lose no row.
        for view, table in (("calls", "raw_calls"), ("scopes", "raw_scopes"), ("activities", "raw_time"),
                            ("gpu_activities", "raw_gpu_activities")):
            case.assertEqual(value(database, f"SELECT count(*) FROM {view}"),
                             value(database, f"SELECT count(*) FROM {table}"))


def check_tables(case, run, database):
    described = set(database.execute("SELECT table_name, name FROM columns"))
    for name, kind in database.execute("SELECT name, kind FROM tables"):
        columns = [row[1] for row in database.execute(f'PRAGMA table_info("{name}")')]
        case.assertTrue(columns, name)
        if kind != "view":
            case.assertLessEqual({(name, column) for column in columns}, described)
    for table in run.report("--table", "all")["tables"]:
        rows = [list(row) for row in database.execute(f'SELECT * FROM "{table["name"]}"')]
        case.assertEqual(rows, [[cell or None if cell == "" else cell for cell in row] for row in table["rows"]])
