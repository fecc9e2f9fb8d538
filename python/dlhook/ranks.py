"""`python -m dlhook.ranks [--engine duckdb|spark] [--format text|csv|json] PATH…`: compares the ranks of a job by what `dlhook export
--format parquet` wrote for each. It needs the package duckdb, or pyspark 4: pip install "dlhook[ranks]".

PATH: an export, or a folder of exports; patterns and remote paths (s3://, hdfs://) as the engine reads them. The questions are ranks.sql."""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import sys
import tempfile
from typing import Any, Callable, NamedTuple, Optional, Sequence
from urllib.parse import unquote

from dlhook._table import Table, human

SCHEMA_VERSION = 1  # of the exports that ranks.sql was written for
FAR_APART_NS = 10**9  # of clocks that somebody sets
SHOWN_ROWS = 20
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
}  # fmt: skip
DIVIDED = ("raw_collectives", "raw_work")  # folders with a part for each process; none where there are no rows


class Statement(NamedTuple):
    kind: str  # view, table or result
    name: str
    title: str
    explanations: dict[str, str]
    text: str


def statements() -> list[Statement]:
    with open(os.path.join(os.path.dirname(__file__), "ranks.sql"), encoding="utf-8") as file:
        parts = re.split(r"^-- (view|table|result) (\w+)(?:: (.*))?\n", file.read(), flags=re.MULTILINE)[1:]
    return [Statement(*parts[i:i + 3], dict(re.findall(r"^-- (\w+): (.*)", parts[i + 3], re.MULTILINE)), parts[i + 3])
            for i in range(0, len(parts), 4)]


class DuckDB:
    def __init__(self) -> None:
        import duckdb

        self.connection = duckdb.connect()
        self.connection.execute(f"SET temp_directory = '{tempfile.gettempdir()}'; SET preserve_insertion_order = false")

    def files(self, pattern: str) -> list[str]:
        return [file for (file,) in self.connection.execute("SELECT file FROM glob(?)", [pattern]).fetchall()]

    def read(self, name: str, files: list[str]) -> list[str]:
        """Makes the files a view with the column `of_file`; its columns. Raises an error if one is not whole."""
        listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
        self.connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * RENAME (filename AS of_file) FROM read_parquet([{listed}], "
                                "union_by_name = true, filename = true, hive_partitioning = false)")  # fmt: skip
        return [column for column, *_ in self.connection.execute(f"DESCRIBE {name}").fetchall()]

    def view(self, name: str, text: str, keep: bool = False) -> None:
        self.connection.execute(f"CREATE TEMP {'TABLE' if keep else 'VIEW'} {name} AS {text}")

    def rows(self, text: str) -> tuple[list[str], list[tuple]]:
        found = self.connection.execute(text)
        return [column[0] for column in found.description], found.fetchall()


class Spark:
    def __init__(self) -> None:
        from pyspark import SparkConf
        from pyspark.sql import SparkSession

        conf = SparkConf()
        if not conf.contains("spark.master"):  # of spark-submit, spark-defaults.conf or PYSPARK_SUBMIT_ARGS
            conf.setMaster("local[*]").set("spark.ui.enabled", "false")
        self.session = SparkSession.builder.appName("dlhook.ranks").config(conf=conf).getOrCreate()
        self.session.sparkContext.setLogLevel("OFF")

    def files(self, pattern: str) -> list[str]:
        context: Any = self.session.sparkContext
        path = context._jvm.org.apache.hadoop.fs.Path(pattern)
        found = path.getFileSystem(context._jsc.hadoopConfiguration()).globStatus(path)
        return [status.getPath().toString() for status in found or []]

    def read(self, name: str, files: list[str]) -> list[str]:
        frame = self.session.read.option("mergeSchema", True).parquet(*files).selectExpr("*", "_metadata.file_path AS of_file")
        frame.createOrReplaceTempView(name)
        return frame.columns

    def view(self, name: str, text: str, keep: bool = False) -> None:
        frame = self.session.sql(text)
        (frame.localCheckpoint() if keep else frame).createOrReplaceTempView(name)  # without its plan: plans of plans do not end

    def rows(self, text: str) -> tuple[list[str], list[tuple]]:
        frame = self.session.sql(text)
        return frame.columns, [tuple(row) for row in frame.collect()]


Engine = Any  # DuckDB or Spark


class Problem(NamedTuple):
    problem: str
    ranks: Optional[str]
    says: str


def _folder(file: str) -> str:
    return re.sub(r"(/\w+/process(=|%3D)\d+)?/[^/]*$", "", file)


def _shown(folder: str) -> str:
    return unquote(re.sub("^file:/+", "/", folder)) if folder.startswith("file:") else folder


def _whole(engine: Engine, name: str, files: list[str], damaged: list[tuple[str, str]]) -> list[str]:
    """The files that can be read; the others are added to `damaged`, with the reason. By halves, because nearly all can."""
    try:
        if files:
            engine.read(name, files)
        return files
    except Exception as error:  # the engine's own
        if len(files) == 1:
            damaged.append((files[0], next((line for line in str(error).splitlines() if line.strip()), "unreadable")))
            return []
        half = len(files) // 2
        return _whole(engine, name, files[:half], damaged) + _whole(engine, name, files[half:], damaged)


def open_exports(engine: Engine, paths: Sequence[str]) -> list[Problem]:
    """Makes views raw_… of all exports below the paths. What is missing or damaged is left out, and said."""
    problems, held = [], {}
    for name, columns in COLUMNS.items():
        ends = f"{name}/*/*.parquet" if name in DIVIDED else f"{name}.parquet"
        files = sorted({file for path in paths for middle in ("", "*/") for file in engine.files(f"{path.rstrip('/')}/{middle}{ends}")})
        damaged: list[tuple[str, str]] = []
        files = _whole(engine, f"{name}_files", files, damaged)
        problems += [Problem("damaged file", None, f"{_shown(file)} is left out: {why}") for file, why in damaged]
        held[name] = {_folder(file) for file in files} | {_folder(file) for file, _ in damaged}
        found = engine.read(f"{name}_files", files) if files else []
        words = [word.partition(":")[::2] for word in columns.split()]
        cells = [column if column in found else f"CAST(NULL AS {'STRING' if kind else 'BIGINT'}) AS {column}" for column, kind in words]
        export = r"regexp_replace(of_file, '(/[a-z_]+/process(=|%3D)[0-9]+)?/[^/]*$', '') AS export"
        if files:
            engine.view(name, f"SELECT {', '.join(cells)}, {export} FROM {name}_files")
        else:
            engine.view(name, f"SELECT {', '.join(cells)}, CAST(NULL AS STRING) AS export WHERE 1 = 0")
    exports = set().union(*held.values())
    if not exports:
        raise FileNotFoundError(f"{', '.join(paths)}: no export; expected folders that dlhook export --format parquet wrote")
    for name, of in held.items():
        lacking = sorted(map(_shown, exports - of))
        if lacking and (of or name not in DIVIDED):
            says = "has none" if len(lacking) == 1 else f"and {len(lacking) - 1} more have none"
            why = "the upload may be incomplete" if name not in DIVIDED else "the others have: nothing of the kind was recorded, or the upload is incomplete"
            problems.append(Problem(f"no {name}", None, f"{lacking[0]} {says}: {why}"))
    return problems


def list_of(numbers: Sequence[int]) -> str:
    """[0, 1, 2, 5] as "0-2, 5"."""
    numbers, parts = sorted(set(numbers)), []
    for i, number in enumerate(numbers):
        if i == 0 or number > numbers[i - 1] + 1:
            parts.append([number, number])
        parts[-1][1] = number
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _differing(ranks: dict[Any, list[int]]) -> str:
    return "; ".join(f"{value} on rank{'s' * (len(of) > 1)} {list_of(of)}" for value, of in sorted(ranks.items(), key=lambda item: -len(item[1])))


def find_problems(processes: list[dict], clocks: list[dict]) -> list[Problem]:
    """What is missing or mixed among the ranks' processes."""
    members = [process for process in processes if process["role"] == "rank"]
    present = {process["rank"] for process in members}
    problems = []

    def by(column: str, of: list[dict]) -> dict[Any, list[int]]:
        found: dict[Any, list[int]] = {}
        for process in of:
            found.setdefault(process[column], []).append(process["rank"])
        return found

    worlds = by("world_size", members)
    world = max((size for size in worlds if size is not None), default=None)
    missing = set(range(world or 0)) - present
    if missing:
        problems.append(Problem("missing ranks", list_of(sorted(missing)), f"{len(present)} of {world} ranks have exports: who is waited for may be a missing one"))
    if len(worlds) > 1:
        problems.append(Problem("two world sizes", None, _differing(worlds)))
    others = by("job", [process for process in processes if process["role"] == "other job"])
    for job, ranks in others.items():
        chosen = members[0]["job"] if members else None
        problems.append(Problem("another job", list_of(ranks), f"{job or 'a job without a name'} is left out: most ranks are of {chosen or 'one without a name'}"))
    for role, problem, says in (("copy", "exported twice", "the same process is in {}: left out there"),
                                ("twice", "a rank twice", "two processes at the same time, of two jobs or of clocks apart: left out is {}")):
        for process in processes:
            if process["role"] == role:
                problems.append(Problem(problem, str(process["rank"]), says.format(_shown(process["export"]))))
    for column, problem in (("dlhook_version", "two dlhook versions"), ("schema_version", "two schema versions")):
        found = by(column, members)
        if len(found) > 1:
            problems.append(Problem(problem, None, _differing(found)))
    newer = sorted({process["schema_version"] for process in members} - {SCHEMA_VERSION, None})
    if newer:
        problems.append(Problem("other schema", None, f"schema_version {newer[-1]}: this dlhook.ranks knows {SCHEMA_VERSION}"))
    again = [process["rank"] for process in members if process["attempt"] > 0]
    if again:
        most = max(process["attempt"] for process in members)
        problems.append(Problem("restarts", list_of(again), f"came back, up to {most} times: compared by attempt, the first is 0"))
    for clock in clocks:
        if abs(clock["ahead_ns"]) > FAR_APART_NS:
            side = "ahead of" if clock["ahead_ns"] > 0 else "behind"
            problems.append(Problem("clocks apart", None, f"{clock['host']}'s is {human(abs(clock['ahead_ns']))} {side} the others': aligned to {human(clock['error_ns'])}"))
    return problems


def _when(row: dict, last_step: int) -> str:
    restarted = f" after restart {row['attempt']}" if row["attempt"] else ""
    if row["until_step"] < last_step - 100:
        return f"in steps {row['since_step']} to {row['until_step']}{restarted}"
    return (f"since step {row['since_step']}" if row["since_step"] else "in all steps") + restarted


def _grouped(rows: list[dict], *columns: str) -> list[tuple[dict, str]]:
    """The first of the rows that are equal in these columns, and the ranks of all."""
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault(tuple(row[column] for column in columns), []).append(row)
    return [(of[0], f"Rank{'s' * (len({row['rank'] for row in of}) > 1)} {list_of([row['rank'] for row in of])}") for of in groups.values()]


def find_sentences(rows: dict[str, list[dict]], counts: dict) -> list[str]:
    """The findings, the largest loss first."""
    said, last_step = [], counts["last_step"]
    for row in rows["stragglers"]:
        who = f"Rank {row['rank']} (host {row['host']})" if row["ranks"] == 1 else f"Host {row['host']} (its {row['ranks']} ranks)"
        why = f"; what takes it longer is {row['reason']}" if row["reason"] else "; why is not known"
        said.append(f"{who} is waited for {_when(row, last_step)}: the others lose {row['lost_percent']} % of their steps ({human(row['lost_ns'])} in each){why}.")
    slow = _grouped(rows["slow_ranks"], "host", "attempt", "what", "since_step")
    for row, ranks in slow:
        more = row["compute_ns"] - row["usual_ns"]
        where = f", most of it in {row['most_in']}" if (row["most_ns"] or 0) * 2 > more else ""
        queued = "; it waits for a processor" if (row["no_processor_ns"] or 0) * 2 > more else ""
        said.append(f"{ranks} (host {row['host']}) {'is' if ranks.startswith('Rank ') else 'are'} slow {_when(row, last_step)}: {row['what']} takes "
                    f"{row['slower_percent']} % longer than on the median rank{where}{queued}.")
    for row, ranks in _grouped(rows["slow_links"], "kind", "members"):
        said.append(f"{ranks}: {row['kind']} of {row['bytes']} bytes among {row['members']} ranks moves {row['bus_gbs']} GB/s, elsewhere {row['usual_gbs']}.")
    for row, ranks in _grouped(rows["differences"], "what", "value", "usual"):
        where = " ".join(filter(None, (row["layer"], row["direction"], row["op"])))
        longer = f": {row['times_as_long']:.2f} times as long" if row["times_as_long"] else ""
        said.append(f"{ranks}: another {row['what']}{where and f' ({where})'}: {row['value'] or 'none'}, elsewhere {row['usual'] or 'none'}{longer}.")
    return said


def find_unknown(counts: dict) -> list[str]:
    """What can't be told of these exports, and why."""
    if counts["ranks"] < 2:
        return [f"anything across ranks, because {counts['ranks']} process with a rank is in these exports"]
    conditions = (
        (counts["machines"] > 1 and not counts["offsets"], "how the machines' clocks differ, because no operation that synchronizes was recorded with its end on all ranks"),
        (not counts["meetings"], "who is waited for, because no operation was recorded that all ranks came to"),
        (counts["crossed"], f"who came last to {counts['crossed']} of {counts['meetings']} operations, because ranks left them before the last one came: several groups of ranks, or lost records"),
        (counts["unmatched"], f"who came last to {counts['unmatched']} operations of communicators of a part of the ranks, because their members are not recorded"),
        (counts["no_end"], f"how long {counts['no_end']} operations take, because their calls do not wait and GPU times were not recorded"),
        (counts["no_bytes"], f"bandwidths of {counts['no_bytes']} operations, because gloo and UCC tell no bytes"),
        (not counts["measures"], "which rank computes longer, because no export has raw_work"),
        (counts["measures"] and counts["ranks"] < 4, "which rank computes longer than usual, because fewer than four ranks have no usual"),
        (not counts["exposed"], "exposed communication, because GPU times were not recorded"),
    )  # fmt: skip
    return [sentence for is_so, sentence in conditions if is_so]


class Answer(NamedTuple):
    findings: list[str]
    not_known: list[str]
    tables: list[Table]


def compare(paths: Sequence[str], engine: str = "duckdb") -> Answer:
    """Compares the ranks of the exports below these paths."""
    with_engine = {"duckdb": DuckDB, "spark": Spark}[engine]()
    problems = open_exports(with_engine, paths)
    tables: dict[str, Table] = {}
    for kind, name, title, explanations, text in statements():
        if kind != "result":
            with_engine.view(name, text, keep=kind == "table")
            continue
        columns, rows = with_engine.rows(text)
        tables[name] = _table(name, title, columns, rows, explanations)
    dicts = {name: list(table) for name, table in tables.items()}

    def read(name: str) -> list[dict]:
        columns, rows = with_engine.rows(f"SELECT * FROM {name}")
        return [dict(zip(columns, row)) for row in rows]

    (counts,) = read("counts")
    problems += find_problems(sorted(read("processes"), key=lambda row: (row["rank"], row["begin_ns"])), dicts["clocks"])
    explanations = {"problem": "What kind.", "ranks": "Which ranks.", "says": "What it is, and what is done about it."}
    table = _table("problems", "What is missing or mixed", list(Problem._fields), list(problems), explanations)
    return Answer(find_sentences(dicts, counts), find_unknown(counts), [table, *tables.values()])


def _table(name: str, title: str, columns: list[str], rows: list[tuple], explanations: dict[str, str]) -> Table:
    ends = {"_ns": "ns", "_percent": "%", "bytes": "bytes", "_gbs": "GB/s"}
    described = []
    for i, column in enumerate(columns):
        kinds = {type(row[i]) for row in rows} - {type(None)}
        kind = "text" if str in kinds else "real" if float in kinds else "integer"
        described.append({"name": column, "unit": next((unit for end, unit in ends.items() if column.endswith(end)), ""), "type": kind,
                          "better": "neither", "explanation": explanations.get(column, "")})  # fmt: skip
    return Table({"name": name, "title": title, "columns": described, "rows": rows, "notes": []})


def _print_text(answer: Answer, write: Callable[[str], Any]) -> None:
    for sentence in answer.findings or ["Nothing was found that makes a rank slower than the others."]:
        write(f"{sentence}\n")
    for sentence in answer.not_known:
        write(f"Not known: {sentence}.\n")
    for table in answer.tables:
        if table.rows:
            write(f"\n{table.text(SHOWN_ROWS)}")


def main(words: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dlhook.ranks", description="Compares the ranks of a job by their exports (dlhook export --format parquet).")
    parser.add_argument("--engine", choices=("duckdb", "spark"), default="duckdb")
    parser.add_argument("--format", choices=("text", "csv", "json"), default="text")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="an export, or a folder of exports")
    options = parser.parse_args(words)
    try:
        answer = compare(options.paths, options.engine)
    except ImportError as error:
        sys.exit(f'dlhook.ranks: {error}: pip install "dlhook[{"spark" if options.engine == "spark" else "ranks"}]"')
    except FileNotFoundError as error:
        sys.exit(f"dlhook.ranks: {error}")
    if options.format == "json":
        tables = [{"name": table.name, "title": table.title, "columns": [column._asdict() for column in table.columns], "rows": table.rows} for table in answer.tables]
        json.dump({"schema": "dlhook-ranks", "version": 1, "findings": answer.findings, "not_known": answer.not_known, "tables": tables}, sys.stdout, ensure_ascii=False)
        print()
    elif options.format == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerows([f"# {sentence}"] for sentence in [*answer.findings, *(f"Not known: {sentence}" for sentence in answer.not_known)])
        for table in answer.tables:
            writer.writerows([[], [f"# {table.name}: {table.title}"], [column.name for column in table.columns], *table.rows])
    else:
        _print_text(answer, sys.stdout.write)
    return 2 if any(row["problem"] == "damaged file" for row in answer.tables[0]) else 0


if __name__ == "__main__":
    sys.exit(main())
