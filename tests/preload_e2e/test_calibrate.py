"""`dlhook calibrate`: its measurements, its reports of missing values, and its file. Figures are only checked by order
of magnitude: tests share their machine."""

import glob
import json
import os
import re
import unittest

import e2e

FAKES = os.environ.get("DLHOOK_TEST_FAKES", "")  # fake CUDA libraries
GPU = {"gpu launch", "gpu launch and wait", "gpu copy to device", "gpu copy to device, pageable", "gpu copy to host", "gpu copy inside"}


def calibrate(*words, **extra):
    return e2e.run([e2e.DLHOOK, "calibrate", *words], env=e2e.clean_environment(**extra))


def rows_of(output):
    (table,) = json.loads(output)["tables"]
    names = [column["name"] for column in table["columns"]]
    return [dict(zip(names, row, strict=True)) for row in table["rows"]], table["notes"]


def cpuinfo(key):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return dict(re.findall(r"^([\w ]+?)\s*: (.*)$", file.read().split("\n\n")[0], re.MULTILINE)).get(key)


class Measured(e2e.Case):
    """Everything is measured once, with OpenBLAS and a fake GPU."""

    processors = len(os.sched_getaffinity(0))

    def measured(self):
        cache = os.path.join(self.folder, "cache")
        libraries = os.path.join(FAKES, "cuda12")
        result = calibrate("--library", "libopenblas.so.0", "--format", "json", DLHOOK_CACHE=cache, LD_LIBRARY_PATH=libraries)
        self.assertEqual((result.code, result.err), (0, b""))
        (path,) = glob.glob(os.path.join(cache, "*"))
        return rows_of(result.out), path, cache

    @unittest.skipUnless(os.path.isdir(FAKES), "no fake CUDA libraries: DLHOOK_TEST_FAKES")
    def test_and_kept(self):
        (rows, notes), path, cache = self.measured()
        measured = {(row["what"], row["threads"]): row for row in rows if row["best"] is not None}
        missing = {row["what"]: row["method"] for row in rows if row["best"] is None}
        threads = sorted({1, self.processors})
        for what, unit in (("f32", "GFLOP/s"), ("f64", "GFLOP/s"), ("memory read", "GB/s")):
            for count in threads:
                self.assertEqual(measured[what, count]["unit"], unit)
        self.assertEqual({what for what, count in measured if count is None}, GPU)
        self.assertEqual({what for what in missing if what not in ("L2 read", "L3 read", "bf16")}, {"int8"})
        for row in measured.values():
            self.assertGreater(row["low_quartile"], 0)
            self.assertLessEqual(row["low_quartile"], row["median"])
            self.assertLessEqual(row["median"], row["high_quartile"])
            is_time = row["unit"] == "ns"
            self.assertTrue(row["best"] <= row["low_quartile"] if is_time else row["best"] >= row["high_quartile"])
            self.assertGreaterEqual(row["repeats"], 5)
        self.assertRegex(measured["f32", 1]["method"], r"^sgemm_ of /\S*openblas\S*, (\d+)x\1x\1$")
        self.assertIn("GPU: dlhook fake GPU 0.", notes)
        self.check_kept(rows, path, cache)

    def check_kept(self, rows, path, cache):
        with open(path, encoding="utf-8") as file:
            kept = json.load(file)
        self.assertEqual(kept["processor"]["vendor"], cpuinfo("vendor_id"))
        self.assertEqual(kept["microcode"], cpuinfo("microcode") or "")
        self.assertEqual(kept["processors"], self.processors)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        shown = calibrate("--show", "--format", "json", DLHOOK_CACHE=cache)
        self.assertEqual((shown.code, rows_of(shown.out)[0]), (0, rows))

        kept["processor"]["model"] += 1
        with open(path, "w", encoding="utf-8") as file:
            json.dump(kept, file)
        shown = calibrate("--show", DLHOOK_CACHE=cache)
        self.assertEqual((shown.code, shown.err.decode()), (1, f"dlhook: calibrate: {path} is of another machine\n"))

        with open(path, "r+", encoding="utf-8") as file:
            file.truncate(100)
        shown = calibrate("--show", DLHOOK_CACHE=cache)
        self.assertEqual((shown.code, shown.out), (2, b""))
        self.assertEqual(shown.err.decode(), f"dlhook: calibrate: {path}: is no calibration of dlhook's; dlhook calibrate measures\n")


class Bounds(e2e.Case):
    """A calibration by hand, and what reports make of it."""

    PEAKS = {"f32": 100.0, "f64": 50.0}

    def calibration(self, run, **changed):
        measured = [{"what": what, "threads": 1, "unit": "", "best": rate, "median": rate, "low_quartile": rate, "high_quartile": rate,
                     "repeats": 5, "method": ""} for what, rate in [*self.PEAKS.items(), ("memory read", 1e9)]]
        told = e2e.one(run.trace().header, "processor")
        processor = {name: e2e.one(told, name, "") for name in ("vendor", "name")}
        processor |= {name: e2e.one(told, name, 0) for name in ("family", "model", "stepping", "threads_per_core", "instruction_sets")}
        processor |= changed
        path = os.path.join(self.folder, "calibration.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"format": 1, "processor": processor, "microcode": "", "processors": 4096,
                       "l2_bytes": 0, "l3_bytes": 0, "gpu": "", "date": "2026-11-23T05:40:00Z", "tool_version": "", "waiting_percent": 0,
                       "measured": measured, "not_measured": []}, file)
        return path

    def test_of_a_run(self):
        run = self.recorded("launcher", [e2e.victim("linked"), "1", "50"], expected_code=3, OMP_NUM_THREADS="1")
        path = self.calibration(run)
        (table,) = run.report("--table", "gemm", "--calibration", path)["tables"]
        columns = [column["name"] for column in table["columns"]]
        rows = [dict(zip(columns, row, strict=True)) for row in table["rows"]]
        judged = [row for row in rows if row["types"] in self.PEAKS]
        self.assertGreater(len(judged), 0)
        for row in judged:
            least_ns = row["flops"] * row["calls"] / self.PEAKS[row["types"]]
            if least_ns > row["total_time"]:  # then it is no bound
                self.assertEqual((row["bound"], row["bound_percent"], row["lost_time"]), (None, None, None))
                continue
            self.assertEqual(row["bound"], "compute")
            self.assertAlmostEqual(row["bound_percent"], 100 * least_ns / row["total_time"], places=6)
            self.assertAlmostEqual(row["lost_time"], row["total_time"] - least_ns, delta=1)
        self.assertIn("Bounds use peaks that dlhook calibrate measured on 2026-11-23, for 1 thread.", table["notes"])
        (table,) = run.report("--table", "gemm", "--calibration", "off")["tables"]
        self.assertFalse([note for note in table["notes"] if "dlhook calibrate measured on" in note])

    def test_of_another_machine(self):
        run = self.recorded("launcher", [e2e.victim("linked"), "1", "50"], expected_code=3)
        path = self.calibration(run, name="Another", stepping=77)
        result = e2e.run([e2e.DLHOOK, "report", self.run_path, "--calibration", path], env=e2e.clean_environment())
        self.assertEqual((result.code, result.out), (2, b""))
        self.assertRegex(result.err.decode(), r"^dlhook: report: \S+ is of Another, 4096 processors; the run is of .+, \d+ processors\n$")


class Trouble(e2e.Case):
    def test_that_can_not_be_kept(self):
        """Without any library, bandwidths are still measured."""
        file = os.path.join(self.folder, "file")
        with open(file, "w", encoding="utf-8"):
            pass
        result = calibrate("--library", "/none.so", "--format", "json", DLHOOK_CACHE=os.path.join(file, "cache"))
        self.assertEqual(result.code, 1)
        self.assertRegex(result.err.decode(), r"^dlhook: calibrate: what was measured is not kept: \S+\.json can't be written: "
                         r"Not a directory; --output FILE stores it elsewhere\n$")
        rows, notes = rows_of(result.out)
        self.assertIn("memory read", {row["what"] for row in rows if row["best"] is not None})
        self.assertIn("Not measured: /none.so: /none.so: cannot open shared object file: No such file or directory.", notes)

    def test_usage(self):
        for words, extra, message in ((["--show"], {}, "there is no cache folder (DLHOOK_CACHE=off, or no HOME)"),
                                      (["--show"], {"DLHOOK_CACHE": self.folder},
                                       r"\.json: there is no such file; dlhook calibrate measures"),
                                      (["--show", "--format", "xml"], {}, "unknown format 'xml'"),
                                      (["--library"], {}, "--library"),
                                      (["RUN"], {}, "RUN")):
            result = calibrate(*words, **extra)
            self.assertEqual((result.code, result.out), (2, b""), words)
            self.assertRegex(result.err.decode(), re.escape(message) if "\\" not in message else message)


if __name__ == "__main__":
    e2e.main()
