"""`dlhook counters`: the counters that it reports as working are those that perf and PAPI's own tools can count here;
and reports of recorded readings from processors that this machine does not have.

Witnesses: `perf stat`, `papi_command_line`, /sys/bus/event_source/devices; for readings the numbers that were published
with them (readings/*.txt).
"""

import csv
import glob
import io
import json
import os
import re
import shutil
import subprocess
import unittest

import e2e

SETS = ["software", "basic", "cache", "flops", "topdown"]


def counters(*words, **extra):
    return e2e.run([e2e.DLHOOK, "counters", *words], env=e2e.clean_environment(**extra))


def tables(*words, expected_codes=(0, 1), **extra):
    """{table: rows as dictionaries}."""
    result = counters("--format", "json", *words, **extra)
    if result.code not in expected_codes:
        raise AssertionError((result.code, result.err))
    found = json.loads(result.out)
    assert "run" not in found
    return {table["name"]: [dict(zip([column["name"] for column in table["columns"]], row, strict=True))
                            for row in table["rows"]]
            for table in found["tables"]}


def works(*words, **extra):
    """{counter: whether it works}."""
    return {row["counter"]: row["works"] == "yes" for row in tables(*words, **extra)["counters"]}


class Witnesses(e2e.Case):
    def perf(self, counter):
        """Whether perf counts it in this user's programs."""
        result = e2e.run(["perf", "stat", "-x", ";", "-e", counter, "--", "true"])
        if result.code != 0:
            return False
        value = result.err.decode().split(";")[0].strip()
        return value[:1].isdigit()

    @unittest.skipUnless(shutil.which("perf") and e2e.run(["perf", "--version"]).code == 0, "no perf of this kernel")
    def test_as_perf(self):
        names = ["task-clock", "cpu-clock", "page-faults", "minor-faults", "major-faults", "context-switches",
                 "cpu-migrations", "cycles", "instructions", "branch-misses", "cache-misses", "L1-dcache-loads",
                 "LLC-loads", "dTLB-load-misses", "r00c0"]
        self.assertEqual(works(*names), {name: self.perf(name) for name in names})

    @unittest.skipUnless(shutil.which("papi_command_line"), "no papi-tools")
    def test_as_papi(self):
        names = ["PAPI_TOT_CYC", "PAPI_TOT_INS", "PAPI_FP_OPS", "PAPI_L1_DCM"]
        told = works(*names)
        for name in names:
            witness = e2e.run(["papi_command_line", name]).out.decode()
            self.assertEqual(told[name], f"Successfully added: {name}" in witness, witness)

    def test_the_pmu_is_the_kernels(self):
        has_pmu = any(re.fullmatch(r"cpu(_core|_atom)?", name) for name in os.listdir("/sys/bus/event_source/devices"))
        facts = {row["fact"]: row["value"] for row in tables()["machine"]}
        self.assertEqual(facts["processor's counters"].startswith("none"), not has_pmu)
        with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
            self.assertTrue(facts["kernel.perf_event_paranoid"].startswith(file.read().strip() + ": "))
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            facts_of_kernel = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", file.read().split("\n\n")[0], re.MULTILINE))
        for key in ("vendor_id", "cpu family", "model"):
            self.assertIn(facts_of_kernel[key], facts["processor"])

    def test_other_users_count_less(self):
        """As nobody: kernel events are refused from paranoid level 2 on, with the level that would allow them."""
        with open("/proc/sys/kernel/perf_event_paranoid", encoding="ascii") as file:
            level = int(file.read())
        if os.geteuid() != 0 or level != 2 or not shutil.which("setpriv"):
            self.skipTest("needs root, setpriv and kernel.perf_event_paranoid=2")
        program = os.path.join(self.folder, "dlhook")  # a place that user nobody may not read
        shutil.copy(e2e.DLHOOK, program)
        os.chmod(self.folder, 0o755)
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
        result = subprocess.run([*nobody, program, "counters", "--format", "json", "cpu-migrations", "cpu-clock", "page-faults"],
                                capture_output=True, check=False, timeout=60)
        rows = {row[0]: row for row in json.loads(result.stdout)["tables"][0]["rows"]}
        self.assertEqual({name: row[1] for name, row in rows.items()},
                         {"cpu-migrations": "no", "cpu-clock": "yes", "page-faults": "yes"})
        self.assertIn("not allowed", rows["cpu-migrations"][-1])
        self.assertIn("sysctl kernel.perf_event_paranoid=1", rows["cpu-migrations"])
        self.assertEqual(rows["cpu-clock"][3], "user")
        self.assertEqual(result.returncode, 1)


class Command(e2e.Case):
    def test_software_works_everywhere(self):
        found = tables("--set", "software", expected_codes=(0,))
        self.assertEqual([(row["set"], row["works"]) for row in found["sets"]], [("software", "yes")])
        self.assertIn("cpus_used", {row["metric"] for row in found["metrics"]})
        for row in found["counters"]:
            self.assertIn(row["source"], ("getrusage", "perf_event"))

    def test_everything(self):
        found = tables(expected_codes=(0,))
        self.assertEqual([row["set"] for row in found["sets"]], SETS)
        names = [row["counter"] for row in found["counters"]]
        self.assertEqual(len(names), len(set(names)))
        for row in found["counters"]:
            self.assertEqual(row["works"] == "no", row["why_not"] is not None, row)

    def test_exit_codes(self):
        self.assertEqual(counters("page-faults").code, 0)
        self.assertEqual(counters("page-faults", "papi::no::such").code, 1)
        for words, message in ((["pagefaults"], b"pagefaults is not understood, expected software, basic"),
                               (["cycles,cyles"], b"; did you mean cycles?"),
                               (["instrctions"], b"; did you mean instructions?"),
                               (["--set", "sofware"], b"unknown set 'sofware'; did you mean software?"),
                               (["--table", "set"], b"unknown table 'set'; did you mean sets?"),
                               (["--format", "xml"], b"unknown format 'xml'"),
                               (["--colour"], b"--colour")):
            result = counters(*words)
            self.assertEqual((result.code, result.out), (2, b""), words)
            self.assertIn(message, result.err)

    def test_formats_have_the_same(self):
        rows = list(csv.reader(io.StringIO(counters("--table", "sets", "--format", "csv").out.decode())))
        self.assertEqual([row[0] for row in rows], ["set", *SETS])
        text = counters("--table", "sets").out.decode()
        for name in SETS:
            self.assertRegex(text, rf"(?m)^{name} ")

    def test_of_other_processors(self):
        row = tables("slots", "fp_ret_sse_avx_ops.all", "ex_ret_ops", "UOPS_ISSUED.ANY")["counters"]
        refused = [counter for counter in row if "on this processor" in (counter["why_not"] or "")]
        self.assertGreater(len(refused), 0)  # no processor has them all

    def test_doctor_says_the_same(self):
        result = e2e.run([e2e.DLHOOK, "doctor", "--format", "json"])
        (finding,) = [found for found in json.loads(result.out)["machine"] if found["id"] == "counters"]
        for row in tables()["sets"]:
            self.assertIn(row["set"], finding["text"])
        self.assertLess(finding["text"].index("software"), finding["text"].index(SETS[-1]))


class PapiInTrouble(e2e.Case):
    """A misbehaving libpapi: dlhook continues and reports it."""

    def told(self, mode):
        folder = os.path.join(self.folder, "papi")
        os.makedirs(folder, exist_ok=True)
        for name in ("libpapi.so.7.2", "libpapi.so.7.1", "libpapi.so.7.0"):
            shutil.copy(e2e.library("papi"), os.path.join(folder, name))
        result = counters("--format", "json", "PAPI_TOT_INS", "page-faults", LD_LIBRARY_PATH=folder, VICTIM_PAPI=mode)
        self.assertEqual((result.code, result.err), (1 if mode else 0, b""))
        (table,) = [table for table in json.loads(result.out)["tables"] if table["name"] == "counters"]
        self.assertEqual(table["rows"][1][:2], ["page-faults", "yes"])
        return table["rows"][0][1], table["rows"][0][-1]

    def test_that_works(self):
        self.assertEqual(self.told(""), ("yes", None))

    def test_that_crashes(self):
        self.assertEqual(self.told("crash"), ("no", "libpapi.so.7.2: it crashed (SIGSEGV)"))

    def test_that_ends_the_process(self):
        self.assertEqual(self.told("exit")[0], "no")

    def test_that_refuses(self):
        reason = "libpapi.so.7.2: it refuses to start for a program of version 5.0 to 7.9"
        self.assertEqual(self.told("refuse"), ("no", reason))


class Readings(e2e.Case):
    """From a counter's reading to a table: published readings result in the published numbers."""

    def check(self, path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        names = re.search(r"^counters (.*)$", text, re.MULTILINE).group(1).split()
        words = re.search(r"^# printed: (.*)$", text, re.MULTILINE).group(1).split()
        run = self.recorded("writer", [e2e.victim("linked"), "1", "50"], expected_code=3, DLHOOK_COUNTERS=",".join(names),
                            DLHOOK_COUNTERS_AT="call", DLHOOK_TESTING_COUNTERS=path)
        rows = run.table("counters")
        for name, printed in zip(words[::2], words[1::2], strict=True):
            digits = len(printed.partition(".")[2])
            values = [row[name] for row in rows if row.get(name) is not None]
            self.assertGreater(len(values), 0, name)
            for value in values:
                self.assertAlmostEqual(value, float(printed), delta=0.5 * 10 ** -digits + 0.11, msg=name)

    def test_published(self):
        paths = sorted(glob.glob(os.path.join(e2e.HERE, "readings", "*.txt")))
        self.assertGreater(len(paths), 3)
        for path in paths:
            with self.subTest(os.path.basename(path)):
                self.check(path)


if __name__ == "__main__":
    e2e.main()
