"""`python -m dlhook.ranks [--engine duckdb|spark] [--format text|csv|json] PATH…`: compares the ranks of a job by what `dlhook export
--format parquet` wrote for each. It needs the package duckdb, or pyspark 4: pip install "dlhook[ranks]".

PATH: an export or a folder of exports, with patterns, also s3:// and hdfs://: the engine opens it. The questions are in ranks.sql."""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import signal
import statistics
import sys
import tempfile
from typing import Any, Callable, Iterable, NamedTuple, Optional, Union
from urllib.parse import unquote

from dlhook._table import Table, human, printable

SCHEMA_VERSION = 1  # of the exports that ranks.sql was written for
FAR_APART_NS = 10**9  # of clocks that are set by the network
EARLY_NS = 10**10  # of a rank that ends before the others
SHOWN_ROWS = 20
UNITS = {"_ns": "ns", "_percent": "%", "bytes": "bytes", "_gbs": "GB/s"}
# What is read of an export, and the columns that are texts: the others are integers.
COLUMNS = {
    "raw_processes": "process_id pid start_ns end_ns rank world_size restart time_zero_unix_ns host:t boot_id:t program:t script:t job:t "
                     "dlhook_version:t",
    "raw_steps": "step_id process_id number start_ns end_ns batch steady no_processor_ns exposed_communication_ns",
    "raw_phases": "step_id start_ns end_ns phase:t",
    "raw_collectives": "process_id step communicator_number members sequence bytes start_ns end_ns communicator:t kind:t library:t",
    "raw_work": "process_id first_step steps on_gpu count sum_ns kind:t layer:t direction:t op:t implementation:t",
    "capabilities": "kind:t object:t name:t state:t note:t build_id:t",
    "tables": "name:t schema_version",
}
IN_EXPORT = "(/[a-z_]+/process(=|%3D)[0-9]+)?/[^/]*$"  # of a file's path; as an expression for Python, DuckDB and Java
DIVIDED = ("raw_collectives", "raw_work")  # folders with a part for each process; none where there are no rows
# Problems that are errors.
INCOMPLETE = {"damaged file", "no export", "nothing to compare", *(f"no {name}" for name in COLUMNS if name not in DIVIDED)}


def statements() -> tuple[dict[str, str], list[tuple[str, str, str, str]]]:
    """What columns of results mean; and kind (view, table or result), name, title and text of each statement."""
    with open(os.path.join(os.path.dirname(__file__), "ranks.sql"), encoding="utf-8") as file:
        head, *parts = re.split(r"^-- (view|table|result) (\w+)(?:: (.*))?\n", file.read(), flags=re.MULTILINE)
    columns = head.partition("Columns of results:\n-- ")[2].replace("\n-- ", " ").strip().split(" | ")
    return dict(column.split(": ", 1) for column in columns), list(zip(*(parts[i::4] for i in range(4))))


class DuckDB:
    exactly = staticmethod(lambda path: re.sub(r"[*?\[]", r"[\g<0>]", path))  # a pattern for this path only

    def __init__(self) -> None:
        import duckdb

        self.connection = duckdb.connect(config={"temp_directory": tempfile.gettempdir(), "preserve_insertion_order": False})

    def files(self, pattern: str) -> list[str]:
        return [file for (file,) in self.connection.execute("SELECT file FROM glob(?)", [pattern]).fetchall()]

    def read(self, name: str, files: list[str]) -> list[str]:
        """Makes the files a view with the column `of_file`; its columns. Raises an error if the end of one is damaged."""
        listed = ", ".join("'" + self.exactly(file).replace("'", "''") + "'" for file in files)
        self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * RENAME (filename AS of_file) FROM read_parquet("
                                f"[{listed}], union_by_name = true, filename = true, hive_partitioning = false)")
        return [column for column, *_ in self.connection.execute(f"DESCRIBE {name}").fetchall()]

    def view(self, name: str, text: str, keep: bool = False) -> None:
        self.connection.execute(f"CREATE OR REPLACE TEMP {'TABLE' if keep else 'VIEW'} {name} AS {text}")

    def rows(self, text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        found = self.connection.execute(text)
        return [column[0] for column in found.description], found.fetchall()


class Spark:
    exactly = staticmethod(lambda path: re.sub(r"[*?\[\]{}\\]", r"\\\g<0>", path))

    def __init__(self) -> None:
        from pyspark.sql import SparkSession

        # The master is that of spark-submit, spark-defaults.conf or PYSPARK_SUBMIT_ARGS, else local[*].
        self.session = SparkSession.builder.appName("dlhook.ranks").getOrCreate()
        self.session.sparkContext.setLogLevel("OFF")

    def files(self, pattern: str) -> list[str]:
        context: Any = self.session.sparkContext
        path = context._jvm.org.apache.hadoop.fs.Path(pattern)
        found = path.getFileSystem(context._jsc.hadoopConfiguration()).globStatus(path)
        return [status.getPath().toString() for status in found or []]

    def read(self, name: str, files: list[str]) -> list[str]:
        files = [self.exactly(file) for file in files]
        frame = self.session.read.option("mergeSchema", True).parquet(*files).selectExpr("*", "_metadata.file_path AS of_file")
        frame.createOrReplaceTempView(name)
        return list(frame.columns)

    def view(self, name: str, text: str, keep: bool = False) -> None:
        frame = self.session.sql(text)
        (frame.localCheckpoint() if keep else frame).createOrReplaceTempView(name)  # without its plan: plans of plans do not end

    def rows(self, text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        frame = self.session.sql(text)
        return frame.columns, [tuple(row) for row in frame.collect()]


ENGINES, EXTRAS = {"duckdb": DuckDB, "spark": Spark}, {"duckdb": "ranks", "spark": "spark"}
Problem = tuple[str, Optional[str], str]  # what kind, which ranks, and what it is


def _shown(folder: str) -> str:
    return unquote(re.sub("^file:/+", "/", folder)) if folder.startswith("file:") else folder


def _first_line(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _readable(engine: Any, name: str, files: list[str], whole: bool, damaged: list[tuple[str, str]]) -> list[str]:
    """The files that can be read; the others are added to `damaged`, with the reason. By halves, because nearly all can."""
    try:
        columns = engine.read(name, files) if files else []
        if columns and whole:
            engine.rows(f"SELECT max(hash({', '.join(columns)})) FROM {name}")  # reads all
        return files
    except Exception as error:  # the engine's own
        if len(files) == 1:
            damaged.append((files[0], _first_line(error)))
            return []
        half = len(files) // 2
        return _readable(engine, name, files[:half], whole, damaged) + _readable(engine, name, files[half:], whole, damaged)


def open_exports(engine: Any, paths: list[str], whole: bool = False) -> list[Problem]:
    """Makes views raw_… of all exports below the paths. What is missing or damaged (whole: also in the middle) is left out, and said."""
    problems: list[Problem] = []
    held, without = {}, set(paths)
    patterns = {path: (engine.exactly(path) if os.path.exists(path) else path).rstrip("/") for path in paths}
    for name, columns in COLUMNS.items():
        ends = f"{name}/*/*.parquet" if name in DIVIDED else f"{name}.parquet"
        below = {path: {file for middle in ("", "*/") for file in engine.files(f"{of}/{middle}{ends}")} for path, of in patterns.items()}
        without -= {path for path, files in below.items() if files}
        damaged: list[tuple[str, str]] = []
        files = _readable(engine, f"{name}_files", sorted(set().union(*below.values())), whole, damaged)
        problems += [("damaged file", None, f"{_shown(file)} is left out: {why}") for file, why in damaged]
        held[name] = {re.sub(IN_EXPORT, "", file) for file in [*files, *(file for file, _ in damaged)]}
        found = engine.read(f"{name}_files", files) if files else []
        words = [word.partition(":")[::2] for word in columns.split()]
        cells = [f"TRY_CAST({column if column in found else 'NULL'} AS {'STRING' if t else 'BIGINT'}) AS {column}" for column, t in words]
        export = f"regexp_replace(of_file, '{IN_EXPORT}', '')" if files else "CAST(NULL AS STRING)"
        engine.view(name, f"SELECT {', '.join(cells)}, {export} AS export {f'FROM {name}_files' if files else 'WHERE 1 = 0'}")
    exports = set().union(*held.values())
    if not exports:
        raise FileNotFoundError(f"{', '.join(paths)}: no export; expected folders that dlhook export --format parquet wrote")
    for name, of in held.items():
        if lacking := sorted(map(_shown, exports - of)):
            more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            why = "nothing of the kind was recorded, or the upload is incomplete" if name in DIVIDED else "the upload is incomplete"
            problems.append((f"no {name}", None, f"not in {lacking[0]}{more}: {why}"))
    return problems + [("no export", None, f"{path}: nothing that dlhook export --format parquet wrote") for path in sorted(without)]


def list_of(numbers: Iterable[int]) -> str:
    """[0, 1, 2, 5] as "0-2, 5"."""
    numbers, parts = sorted(set(numbers)), []
    for i, number in enumerate(numbers):
        if i == 0 or number > numbers[i - 1] + 1:
            parts.append([number, number])
        parts[-1][1] = number
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _grouped(rows: list[dict[str, Any]], *columns: str) -> list[tuple[list[dict[str, Any]], str]]:
    """The rows that are equal in these columns, and their ranks."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    return [(of, f"Rank{'s' * (len({row['rank'] for row in of}) > 1)} {list_of([row['rank'] for row in of])}") for of in groups.values()]


def _span(rows: list[dict[str, Any]], column: str, shown: Callable[[Any], str] = str) -> str:
    """The column's least and most, or the one value."""
    known = sorted(row[column] for row in rows if row[column] is not None)
    return " to ".join(dict.fromkeys(map(shown, known[:1] + known[-1:])))


def find_problems(processes: list[dict[str, Any]], clocks: list[dict[str, Any]]) -> list[Problem]:
    """What is missing or mixed among the ranks' processes."""
    members = [process for process in processes if process["role"] == "rank"]
    present = {process["rank"] for process in members}
    world = max((process["world_size"] or 0 for process in members), default=0)
    problems: list[Problem] = []

    def add(problem: str, of: Iterable[int], says: str) -> None:
        of = list(of)
        if of:
            problems.append((problem, list_of(of), says))

    add("missing ranks", set(range(world)) - present, f"{len(present)} of {world} ranks have exports: the one waited for may be missing")
    if len(present) < 2:
        problems.append(("nothing to compare", list_of(present) or None, f"{len(present)} of the two ranks or more that it takes"))
    kept = members[0]["job"] if members else ""
    jobs = _grouped([process for process in processes if process["role"] == "other job"], "of_job")
    is_tie = any(len({process["rank"] for process in of}) == len(present) for of, _ in jobs)
    most = f"{kept}, of as many ranks, began earlier" if is_tie else f"most ranks are of {kept}"
    for role, problem, says in (("other job", "another job", f"left out: {most}"),
                                ("copy", "exported twice", "the same process is in two exports: the second one is left out"),
                                ("twice", "a rank twice", "by two processes at the same time: the second is left out")):
        add(problem, [process["rank"] for process in processes if process["role"] == role], says)
    for column, problem in (("world_size", "two world sizes"), ("dlhook_version", "two versions")):
        groups = _grouped(members, column)
        add(problem, present if len(groups) > 1 else (), "; ".join(f"{ranks}: {of[0][column]}" for of, ranks in groups))
    others = {process["schema_version"] for process in members} - {SCHEMA_VERSION, None}
    add("other schema", [process["rank"] for process in members if process["schema_version"] in others],
        f"schema_version {list_of(others)}: what is compared is that of {SCHEMA_VERSION}")
    came_back = [process["rank"] for process in members if process["attempt"] > 0]
    add("restarts", came_back, "a restart, or another run on the same address: compared by attempt, from 0")
    ahead = {clock["host"]: clock["ahead_ns"] for clock in clocks}
    for attempt in sorted({process["attempt"] for process in members}):
        of = [{**row, "end": row["finish_ns"] - ahead.get(row["host"], 0)} for row in members if row["attempt"] == attempt]
        end, steps = (statistics.median(process[column] for process in of) for column in ("end", "steps"))
        early = [{**process, "early_ns": max(end - process["end"], 0)} for process in of
                 if 0 < process["steps"] < 0.95 * steps - 1 or end - process["end"] > EARLY_NS]
        for alike, _ in _grouped(early, "steps"):
            add("ended early", [row["rank"] for row in alike], f"after {alike[0]['steps']} steps, {_span(alike, 'early_ns', human)} "
                f"before the median rank and its {steps:.0f}")
    for clock in clocks:
        if clock["ahead_ns"] > FAR_APART_NS:
            add("clocks apart", [process["rank"] for process in members if process["host"] == clock["host"]],
                f"{clock['host']} is {human(clock['ahead_ns'])} ahead: aligned to {human(clock['error_ns'])}")
    return problems


def _when(row: dict[str, Any], last_step: int) -> str:
    if row["since_step"] is None:
        return "at times"
    restarted = f" after restart {row['attempt']}" if row["attempt"] else ""
    if row["until_step"] < last_step - 100:
        return f"in steps {row['since_step']} to {row['until_step']}{restarted}"
    return (f"since step {row['since_step']}" if row["since_step"] else "in all steps") + restarted


def find_sentences(rows: dict[str, list[dict[str, Any]]], last_step: int) -> list[str]:
    """The findings, the largest loss first."""
    said = []
    for row in rows["stragglers"]:
        who = f"Rank {row['rank']} (host {row['host']})" if row["ranks"] == 1 else f"Host {row['host']} (its {row['ranks']} ranks)"
        why = f"; what takes it longer is {row['reason']}" if row["reason"] else "; why is not known"
        said.append(f"{who} is waited for {_when(row, last_step)}: the others lose {row['lost_percent']} % of their steps "
                    f"({human(row['lost_ns'])} in each){why}.")
    for row in rows["slow_ranks"]:
        more = row["compute_ns"] - row["usual_ns"]
        row["why"] = f", mostly in {row['most_in']}" if (row["most_ns"] or 0) * 2 > more else ""
        row["why"] += "; it waits for a processor" if (row["no_processor_ns"] or 0) * 2 > more else ""
    for of, ranks in _grouped(rows["slow_ranks"], "host", "attempt", "what", "since_step", "until_step", "why"):
        said.append(f"{ranks} (host {of[0]['host']}): {of[0]['what']} takes {_span(of, 'slower_percent')} % longer than usual "
                    f"{_when(of[0], last_step)}{of[0]['why']}.")
    for of, ranks in _grouped(rows["slow_links"], "kind", "members"):
        said.append(f"{ranks}: {of[0]['kind']} of {_span(of, 'bytes')} bytes among {of[0]['members']} ranks moves {_span(of, 'bus_gbs')} "
                    f"GB/s, {_span(of, 'usual_percent', '{:.0f}'.format)} % of the others'.")
    same: dict[tuple[Any, ...], list[list[dict[str, Any]]]] = {}  # in several places
    for of, ranks in _grouped(rows["differences"], "what", "value", "usual", "kind", "layer", "direction", "op"):
        same.setdefault((ranks, of[0]["what"], of[0]["value"], of[0]["usual"]), []).append(of)
    for (ranks, *_), places in same.items():
        row = places[0][0]
        where = " ".join(filter(None, (row["kind"] if row["kind"] != "training" else "", row["layer"], row["direction"], row["op"])))
        where += f" and {len(places) - 1} more" if len(places) > 1 else ""
        times = _span(sum(places, []), "times_as_long", "{:.2f}".format)
        longer = f": {times} times as long" if times else ""
        what, others = (f"{row['what']} differs", "on the other rank") if row["of_ranks"] == 2 else (f"another {row['what']}", "elsewhere")
        said.append(f"{ranks}: {what}{where and f' ({where})'}: {row['value'] or 'none'}, {others} {row['usual'] or 'none'}{longer}.")
    return said


def find_unknown(counts: dict[str, Any]) -> list[str]:
    """What can't be told of these exports, and why."""
    if counts["ranks"] < 2:
        return ["anything across ranks, because these exports hold " + ("one rank" if counts["ranks"] else "no process with a rank")]
    conditions = (
        (counts["machines"] > 1 and not counts["offsets"], "how clocks differ, because no end of an operation is known on all ranks"),
        (not counts["waits"] and not counts["crossed"], "who is waited for, because no operation that all came to is in a steady step"),
        (counts["silent"] and counts["meetings"], f"whether the others wait for {counts['silent']} of the {counts['ranks']} ranks, because "
         "exports hold none of their operations"),
        (counts["crossed"], f"who came last to {counts['crossed']} of {counts['meetings']} operations, because some rank was done before "
         "another began: several groups of ranks, or lost records"),
        (counts["unmatched"], f"who came last to {counts['unmatched']} operations of a part of the ranks, because which is not recorded"),
        (counts["no_end"], f"how long {counts['no_end']} operations take, because their calls do not wait and GPU times were not recorded"),
        (counts["no_bytes"], f"bandwidths of {counts['no_bytes']} operations, because their bytes were not recorded"),
        (not counts["measures"] or counts["ranks"] < 4, "which rank computes longer than usual, because it takes raw_work of four ranks"),
        (not counts["exposed"], "exposed communication, because GPU times were not recorded"),
    )
    return [sentence for is_so, sentence in conditions if is_so]


class Answer(NamedTuple):
    findings: list[str]
    not_known: list[str]
    tables: list[Table]


def compare(paths: Union[str, os.PathLike[str], Iterable[Union[str, os.PathLike[str]]]], engine: str = "duckdb") -> Answer:
    """Compares the ranks of the exports below these paths."""
    if engine not in ENGINES:
        raise ValueError(f"no engine {engine!r}: {' or '.join(ENGINES)}")
    given = [os.fspath(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    with_engine = ENGINES[engine]()
    try:
        return _answer(with_engine, given, False)
    except Exception:  # a file that is damaged in its middle
        return _answer(with_engine, given, True)


def _answer(with_engine: Any, paths: list[str], whole: bool) -> Answer:
    problems = open_exports(with_engine, paths, whole)
    explanations, questions = statements()
    tables: dict[str, Table] = {}
    for kind, name, title, text in questions:
        if kind == "result":
            columns, cells = with_engine.rows(text)
            tables[name] = _table(name, title, columns, cells, explanations)
        else:
            with_engine.view(name, text, keep=kind == "table")
    rows = {name: list(table) for name, table in tables.items()}
    for name in ("counts", "processes"):
        columns, cells = with_engine.rows(f"SELECT * FROM {name}")
        rows[name] = [dict(zip(columns, row)) for row in cells]
    problems += find_problems(sorted(rows["processes"], key=lambda row: (row["rank"], row["begin_ns"])), rows["clocks"])
    table = _table("problems", "What is missing or mixed", ["problem", "ranks", "says"], problems, explanations)
    not_known = [f"who of the missing ranks ({of}) is waited for, because they have no export" for kind, of, _ in problems
                 if kind == "missing ranks"]
    not_known += find_unknown(rows["counts"][0])
    return Answer(find_sentences(rows, rows["counts"][0]["last_step"]), not_known, [table, *tables.values()])


def _table(name: str, title: str, columns: list[str], rows: list[tuple[Any, ...]], explanations: dict[str, str]) -> Table:
    rows = [tuple(round(cell) if name.endswith("_ns") and cell is not None else cell for name, cell in zip(columns, row)) for row in rows]
    described = []
    for i, column in enumerate(columns):
        kinds = {type(row[i]) for row in rows}
        described.append({"name": column, "unit": next((unit for end, unit in UNITS.items() if column.endswith(end)), ""),
                          "type": "text" if str in kinds else "real" if float in kinds else "integer", "better": "neither",
                          "explanation": explanations.get(column, "")})
    return Table({"name": name, "title": title, "columns": described, "rows": rows, "notes": []})


def _print(answer: Answer, form: str) -> None:
    """As text, csv or json."""
    if form == "json":
        tables = [{"name": table.name, "title": table.title, "columns": [column._asdict() for column in table.columns], "rows": table.rows}
                  for table in answer.tables]
        print(json.dumps({"schema": "dlhook-ranks", "version": 1, **answer._asdict(), "tables": tables}, ensure_ascii=False))
        return
    problems = answer.tables[0].column("problem")
    in_part = any(problem.startswith(("missing", "damaged", "no ")) for problem in problems)
    nothing = ("Nothing can be said across these ranks." if "nothing to compare" in problems else "Nothing was found "
               + ("in what could be compared." if in_part else "that makes a rank slower than the others."))
    said = [printable(sentence) for sentence in (*(answer.findings or [nothing]), *(f"Not known: {text}." for text in answer.not_known))]
    if form == "text":
        print("\n".join([*said, *(f"\n{table.text(SHOWN_ROWS)}" for table in answer.tables if table.rows)]))
        return
    sys.stdout.writelines(f"# {sentence}\n" for sentence in said)
    for table in answer.tables:
        sys.stdout.write(f"\n# {table.name}: {table.title}\n")
        csv.writer(sys.stdout, lineterminator="\n").writerows([[column.name for column in table.columns], *table.rows])


def main(words: Optional[list[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dlhook.ranks", description="Compares the ranks of a job by their exports.")
    parser.add_argument("--engine", choices=ENGINES, default="duckdb", help="that reads and computes (default: %(default)s)")
    parser.add_argument("--format", choices=("text", "csv", "json"), default="text", help="of the answer (default: %(default)s)")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="an export or a folder of exports, also s3:// and hdfs://, with patterns")
    options = parser.parse_args(words)
    try:
        answer = compare(options.paths, options.engine)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if not isinstance(error, (ImportError, OSError)) and not re.match("_?duckdb|pyspark|py4j", type(error).__module__):
            raise
        hint = f': pip install "dlhook[{EXTRAS[options.engine]}]"' if isinstance(error, ImportError) else ""
        parser.exit(2, f"dlhook.ranks: {printable(_first_line(error))}{hint}\n")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # | head
    _print(answer, options.format)
    return 2 if INCOMPLETE & set(answer.tables[0].column("problem")) else 0


if __name__ == "__main__":
    sys.exit(main())
