"""`dlhook export` as timelines (perfetto, chrome) and databases (sqlite): what each reader finds adds up to the tables, for recorded
programs, for the traces of tests/golden, and for runs with little or something damaged in them."""

import glob
import json
import os
import re

import databases
import e2e
import exports
import timelines

GOLDEN = sorted(glob.glob(os.path.join(exports.ROOT, "tests", "golden", "*.textproto")))
# Whatever a name may do to a reader.
HOSTILE = "</script>\x1b]0;x\x07\n\r\t\u202e\u009b31m;=1\"'&#27;\\"
SPELLED = "</script>\\x1b]0;x\\x07\\n\\x0d\\t\\u202e\\u009b31m;=1\"'&#27;\\"


def textproto_of(text):
    return "".join(f"\\{byte:03o}" for byte in text.encode())


class Timelines(e2e.Case):
    def check(self, run):
        databases.check(self, run)
        return timelines.check(self, run)

    def run_of(self, textproto, name="run"):
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        with open(os.path.join(folder, "1.dlh"), "wb") as file:
            file.write(exports.encoded(textproto))
        return e2e.Run(folder)

    def test_recorded_traces(self):
        self.assertTrue(GOLDEN)
        for path in GOLDEN:
            with self.subTest(path), open(path, "rb") as file:
                timeline = self.check(self.run_of(file.read(), os.path.basename(path)))
                self.assertTrue(timeline.of_kind("library"))
                self.assertTrue(timeline.of_kind("phase"))

    def test_documented_queries(self):
        with open(os.path.join(exports.ROOT, "docs", "queries.sql"), encoding="utf-8") as file:
            queries = re.findall(r"^[^-\n].*?;\n", file.read(), re.DOTALL | re.MULTILINE)
        self.assertEqual(len(queries), 6)
        with open(next(path for path in GOLDEN if "torch_cnn_level2" in path), "rb") as file:
            run = self.run_of(file.read())
        with databases.sqlite(self, run) as database:
            rows = [database.execute(query).fetchall() for query in queries]
            self.assertEqual([bool(found) for found in rows], [True] * 3 + [False, True, False])  # no GPU, no looks at memory
            steps = databases.value(database, "SELECT count(*) FROM raw_steps WHERE steady")
            whole_ns = databases.value(database, "SELECT sum(wall_share) FROM accounting")
            self.assertAlmostEqual(sum(ms for _, _, ms in rows[0]) * steps, whole_ns / 1e6, places=6)

    def test_calls_in_calls(self):
        timeline = self.check(self.recorded("launcher", [e2e.victim("nested"), "40"]))
        inner = [one for one in timeline.of_kind("library") if one.args["function"] == "sgemm_"]
        self.assertEqual(len(inner), 40)
        for one in inner:
            self.assertEqual(one.around.args["function"], "cblas_sgemm")
            self.assertEqual((one.args["problem"], one.args["flops"]), ("m9 n8 k10 TN f32", 2 * 8 * 9 * 10))

    def test_only_totals(self):
        run = self.recorded("writer", [e2e.victim("nested"), "20000"], DLHOOK_MAX_BYTES=65536)
        timeline = self.check(run)
        self.assertTrue(timeline.instants)
        calls = len(timeline.of_kind("library")) + sum(at.args["calls"] for at in timeline.instants)
        self.assertEqual(calls, 40000)

    def test_one_call(self):
        timeline = self.check(self.recorded("launcher", [e2e.victim("nested"), "1"]))
        self.assertEqual(len(timeline.slices), 3)  # one in the other, and their layer; no steps
        self.assertEqual(len(timeline.of_kind("layer")), 1)

    def test_hostile_names(self):
        run = self.recorded("launcher", [e2e.victim("nested"), "40"])
        text = e2e.run([e2e.DLHOOK, "dump", run.path]).out.decode()
        text = re.sub(r'(\b(?:program|function|path|name): "[^"]+)', lambda at: at[1] + textproto_of(HOSTILE), text)
        hostile = self.run_of(text.encode(), "run" + HOSTILE.replace("/", ""))
        timeline = timelines.check(self, hostile)
        self.assertEqual({one.args["function"] for one in timeline.of_kind("library")},
                         {"cblas_sgemm" + SPELLED, "sgemm_" + SPELLED})
        with databases.sqlite(self, hostile) as database:
            self.assertEqual(database.execute("SELECT DISTINCT function FROM calls ORDER BY 1").fetchall(),
                             [("cblas_sgemm" + SPELLED,), ("sgemm_" + SPELLED,)])

    def test_a_damaged_run(self):
        """What is whole is exported; the exit code says that something is not."""
        run = self.recorded("launcher", [e2e.victim("nested"), "4000"])
        (name,) = run.files()
        with open(os.path.join(run.path, name), "r+b") as file:
            file.truncate(os.path.getsize(file.name) * 2 // 3)
        result = e2e.run([e2e.DLHOOK, "export", run.path, "--format", "chrome"])
        self.assertEqual(result.code, 2)
        self.assertIn(b"; the export holds what is whole", result.err)
        calls = timelines.ChromeReader(json.loads(result.out)).timeline.of_kind("library")
        self.assertTrue(0 < len(calls) < 8000, len(calls))
        path = os.path.join(self.folder, "run.sqlite")
        exports.export(run, "--format", "sqlite", "--out", path, expected_code=2)
        self.assertTrue(os.path.getsize(path))

    def test_files(self):
        run = self.recorded("launcher", [e2e.victim("nested"), "3"])
        self.assertIn("sqlite is a file; expected -o FILE", exports.export(run, "--format", "sqlite", expected_code=2))
        missing = os.path.join(self.folder, "none", "file")
        self.assertIn(f"cannot write {missing}", exports.export(run, "--format", "sqlite", "--out", missing,
                                                                expected_code=2))
        # An error leaves an old file as it is.
        old = os.path.join(self.folder, "old")
        with open(old, "w", encoding="ascii") as file:
            file.write("old")
        exports.export(run, "--format", "sqlite", "--out", old, "--layer", "none", expected_code=2)
        exports.export(run, "--format", "chrome", "--out", old, "--layer", "none", expected_code=2)
        with open(old, encoding="ascii") as file:
            self.assertEqual(file.read(), "old")
        exports.export(run, "--format", "sqlite", "--out", old)
        exports.export(run, "--format", "sqlite", "--out", old)
        with open(old, "rb") as file:
            self.assertTrue(file.read().startswith(b"SQLite format 3"))


if __name__ == "__main__":
    e2e.main()
