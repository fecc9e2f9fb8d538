"""DATABASE FOLDER: the tables of a database that sqlite.cc wrote as Parquet files. parquet.cc runs it with the user's Python, as text.

One pass over each table in pieces; rows of a process are mostly in a row. Prints rows done and rows in all as it goes.
"""
import sys

sys.path[:] = [path for path in sys.path if path]  # nothing of the working folder
import os
import sqlite3

try:
    import pyarrow
    import pyarrow.parquet
except ImportError as error:
    sys.exit(f"{error}; pip install pyarrow, or name a Python that has it with --python")

database, folder = sqlite3.connect(sys.argv[1]), sys.argv[2]
TYPES = {"INTEGER": pyarrow.int64(), "REAL": pyarrow.float64(), "TEXT": pyarrow.string()}
explained = {(table, name): (unit or "", text or "") for table, name, unit, text in database.execute("SELECT * FROM columns")}
process_of = dict(database.execute("SELECT thread_id, process_id FROM raw_threads"))


class Files:
    def __init__(self, table, fields):
        self.table, self.writer, self.process, self.parts = table, None, None, {}
        names = [name for name, _ in fields]
        self.schema = pyarrow.schema([pyarrow.field(name, TYPES[kind], metadata=dict(zip(("unit", "explanation"),
            explained.get((table, name), ("", ""))))) for name, kind in fields])
        self.by = names.index("process_id") if "process_id" in names else names.index("thread_id") if "thread_id" in names else None
        self.by_thread = self.by is not None and "process_id" not in names
        if not table.startswith("raw_") or table in ("raw_processes", "raw_threads", "raw_steps"):
            self.by = None

    def process_of(self, row):
        return None if self.by is None else process_of[row[self.by]] if self.by_thread else row[self.by]

    def write(self, process, rows):
        if self.writer is None or process != self.process:
            self.close()
            self.process, part = process, self.parts.get(process, 0)
            self.parts[process] = part + 1
            path = f"{self.table}.parquet" if process is None else f"{self.table}/process={process}/part-{part}.parquet"
            path = os.path.join(folder, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self.writer = pyarrow.parquet.ParquetWriter(path, self.schema)
        columns = zip(*rows) if rows else [()] * len(self.schema)
        self.writer.write_table(pyarrow.table([pyarrow.array(column, field.type) for column, field in zip(columns, self.schema)],
                                              schema=self.schema))

    def close(self):
        if self.writer:
            self.writer.close()


def rows_of(table):
    return database.execute(f'SELECT max(rowid) FROM "{table}"').fetchone()[0] or 0


TABLES = [table for (table,) in database.execute("SELECT name FROM tables WHERE kind != 'view'")] + ["tables", "columns", "notes"]
done, all_rows = 0, sum(map(rows_of, TABLES))
for table in TABLES:
    files = Files(table, [(row[1], row[2]) for row in database.execute(f'PRAGMA table_info("{table}")')])
    cursor = database.execute(f'SELECT * FROM "{table}"')
    if files.by is None:
        files.write(None, [])
    while rows := cursor.fetchmany(1 << 16):
        print(done, all_rows, flush=True)
        done, begin = done + len(rows), 0
        for end in range(1, len(rows) + 1):
            if end == len(rows) or files.process_of(rows[end]) != files.process_of(rows[begin]):
                files.write(files.process_of(rows[begin]), rows[begin:end])
                begin = end
    files.close()
