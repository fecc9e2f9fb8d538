"""FOLDER: makes Parquet files of the tables on standard input. parquet.cc runs it with the user's Python, as text.

A line of JSON begins a table or a batch of its rows. After that of a batch come the buffers of its columns as Arrow has them in
memory, of which pyarrow makes arrays as they are: no value becomes an object of Python's.
"""
import sys

sys.path[:] = [path for path in sys.path if path]  # nothing of the working folder
import json
import os

try:
    import pyarrow
    import pyarrow.parquet
except ImportError as error:
    sys.exit(f"{error}; pip install pyarrow, or name a Python that has it with --python")

folder, stream = sys.argv[1], sys.stdin.buffer
TYPES = {"integer": pyarrow.int64(), "real": pyarrow.float64(), "text": pyarrow.string()}


class Files:
    def __init__(self, table, columns):
        self.table, self.writer, self.process, self.parts = table, None, None, {}
        self.schema = pyarrow.schema([pyarrow.field(name, TYPES[kind], metadata={"unit": unit, "explanation": text})
                                      for name, kind, unit, text in columns], {"schema_version": sys.argv[2]})
        times = [name for name, kind, *_ in columns if kind == "integer" and name.endswith("_ns")]
        self.options = {"compression": "zstd", "column_encoding": dict.fromkeys(times, "DELTA_BINARY_PACKED"),
                        "use_dictionary": [name for name, *_ in columns if name not in times]}

    def write(self, process, rows, sizes):
        if self.writer is None or process != self.process:
            self.close()
            self.process, part = process, self.parts.get(process, 0)
            self.parts[process] = part + 1
            path = f"{self.table}.parquet" if process is None else f"{self.table}/process={process}/part-{part}.parquet"
            path = os.path.join(folder, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self.writer = pyarrow.parquet.ParquetWriter(path, self.schema, **self.options)
        columns = [pyarrow.Array.from_buffers(field.type, rows, [pyarrow.py_buffer(stream.read(size)) for size in of_column])
                   for field, of_column in zip(self.schema, sizes)]
        self.writer.write_batch(pyarrow.record_batch(columns, schema=self.schema))

    def close(self):
        if self.writer:
            self.writer.close()


files = None
while line := stream.readline():
    message = json.loads(line)
    if "table" in message:
        if files:
            files.close()
        files = Files(**message)
    else:
        files.write(**message)
files.close()
