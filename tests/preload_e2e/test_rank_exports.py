"""`python -m dlhook.ranks`: its answers to simulated exports (python_package/check_ranks.py, in build/venv-exports), which have the columns
of a real one; the command line. Real ranks: tests/frameworks/test_processes.py. Spark: test_rank_spark.py."""

import csv
import json
import os
import sys
import unittest

import e2e
import exports

PYTHON = os.environ.get("DLHOOK_TEST_EXPORTS_PYTHON", "")
PACKAGE = os.path.join(exports.ROOT, "python")
SIMULATED = os.path.join(e2e.HERE, "python_package")

# Writes FOLDER/late: rank 2's loader is late from step 200 on; or of another export prints {table: {column: type}}.
MAKE = """
import sys, rank_exports
job = rank_exports.Job(library="gloo")
job.input[200:, 2] += 6 * rank_exports.MS
job.run().write(sys.argv[1])
"""
DESCRIBE = """
import json, os, sys, pyarrow.parquet, rank_exports
of = {}
for name in rank_exports.SCHEMA:
    for path in (name + ".parquet", os.path.join(name, "process=0", "part-0.parquet")):
        if os.path.exists(os.path.join(sys.argv[1], path)):
            schema = pyarrow.parquet.read_schema(os.path.join(sys.argv[1], path))
            of[name] = [(field.name, str(field.type)) for field in schema]
rows = pyarrow.parquet.read_table(os.path.join(sys.argv[1], "columns.parquet")).to_pylist()
columns = {name: [row["name"] for row in rows if row["table_name"] == name] for name in rank_exports.SCHEMA}
written = {name: [(field.name, str(field.type)) for field in rank_exports.schema_of(name)] for name in rank_exports.SCHEMA}
print(json.dumps([of, columns, written]))
"""


class Case(e2e.Case):
    def setUp(self):
        super().setUp()
        if not os.access(PYTHON, os.X_OK):
            self.skipTest("no virtual environment: run scripts/setup.sh --test")

    def python(self, *words, code=0, python=PYTHON, **variables):
        env = e2e.clean_environment(PYTHONPATH=os.pathsep.join((PACKAGE, SIMULATED)), **variables)
        result = e2e.run([python, "-B", *words], env=env, cwd=self.folder)
        self.assertEqual(result.code, code, result.err.decode()[-3000:])
        return result

    def late(self):
        path = os.path.join(self.folder, "late")
        self.python("-c", MAKE, path)
        return path


class Ranks(Case):
    def test_answers(self):
        result = self.python(os.path.join(SIMULATED, "check_ranks.py"))
        self.assertRegex(result.err, rb"Ran \d\d tests")

    def test_columns_are_those_of_a_real_export(self):
        folder = os.path.join(self.folder, "torch_cnn_level2")
        os.mkdir(folder)
        with open(os.path.join(exports.ROOT, "tests", "golden", "torch_cnn_level2.textproto"), "rb") as file:
            data = exports.encoded(file.read())
        with open(os.path.join(folder, "1.dlh"), "wb") as file:
            file.write(data)
        path = os.path.join(self.folder, "real")
        exports.export(e2e.Run(folder), "--format", "parquet", "--out", path, "--python", PYTHON)
        real, columns, written = json.loads(self.python("-c", DESCRIBE, path).out)
        self.assertGreaterEqual(set(real), {"raw_processes", "raw_steps", "raw_phases", "raw_work", "capabilities", "tables"})
        for name, fields in real.items():
            self.assertEqual(written[name], fields, name)
        for name, names in columns.items():
            if name != "tables":  # describes the others
                self.assertEqual([field for field, _ in written[name]], names, name)
        # One process without a rank.
        said = self.python("-m", "dlhook.ranks", path, code=2).out.decode()
        self.assertTrue(said.startswith("Nothing can be said across these ranks.\nNot known: anything across ranks, because these exports "
                                        "hold no process with a rank.\n"), said)

    def test_formats(self):
        path = self.late()
        text = self.python("-m", "dlhook.ranks", path).out.decode()
        answer = json.loads(self.python("-m", "dlhook.ranks", "--format", "json", path).out)
        paths = [os.path.join(path, f"rank{rank}") for rank in range(8)]
        lines = self.python("-m", "dlhook.ranks", "--format=csv", *paths).out.decode().splitlines()
        rows = [[line] if line.startswith("#") else next(csv.reader([line]), []) for line in lines]
        self.assertEqual((answer["schema"], answer["version"]), ("dlhook-ranks", 1))
        (finding,) = answer["findings"]
        self.assertTrue(text.startswith(finding + "\nNot known: "), text)
        self.assertRegex(finding, r"^Rank 2 \(host node0\) is waited for since step 200: the others lose [\d.]+ % of their steps \("
                         r"[\d.]+ ms in each\); what takes it longer is input\.$")
        self.assertEqual(rows[0], [f"# {finding}"])
        for table in answer["tables"]:
            names = [column["name"] for column in table["columns"]]
            self.assertFalse([column for column in table["columns"] if not column["explanation"]], table["name"])
            begin = rows.index(["# " + table["name"] + ": " + table["title"]])
            self.assertEqual(rows[begin + 1], names)
            for cells, row in zip(rows[begin + 2:], table["rows"]):
                self.assertEqual(cells, ["" if cell is None else str(cell) for cell in row])
            if table["rows"]:
                self.assertIn(f"\n{table['name']}: {table['title']}\n", text)

    def test_errors(self):
        path = self.late()
        self.assertIn(b"nothing: no export; expected folders that dlhook export --format parquet wrote",
                      self.python("-m", "dlhook.ranks", "nothing", code=2).err)
        half = os.path.join(path, "rank5", "raw_steps.parquet")
        os.truncate(half, 100)
        said = self.python("-m", "dlhook.ranks", path, code=2).out.decode()
        self.assertRegex(said, rf"damaged file +{half} is left out: ")
        self.assertIn("Rank 2 (host node0) is waited for since step 200", said)
        if not e2e.run([sys.executable, "-c", "import duckdb"]).code:
            raise unittest.SkipTest("this Python has duckdb")
        error = self.python("-m", "dlhook.ranks", path, code=2, python=sys.executable).err
        self.assertIn(b'No module named \'duckdb\': pip install "dlhook[ranks]"', error)


if __name__ == "__main__":
    e2e.main()
