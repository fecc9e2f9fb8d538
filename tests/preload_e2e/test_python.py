"""The Python package (python/dlhook): its tables are the command's, its errors say what the command says; recording from inside a
program; with every interpreter from 3.9 on. What needs pandas, pyarrow and pytest runs in build/venv-exports (python_package/)."""

import gzip
import json
import os
import re
import sys

import e2e
import exports

sys.path.insert(0, os.path.join(e2e.HERE, "..", "python_e2e"))
import stacks

PACKAGE = os.path.join(exports.ROOT, "python")
EXPORTS_PYTHON = os.environ.get("DLHOOK_TEST_EXPORTS_PYTHON", "")

# The program's number of calls follows from which blocks are recorded: 1, 10 and 100 within, the rest outside.
RECORDING = """
import ctypes, sys, dlhook
blas = ctypes.CDLL(sys.argv[1])
def call(count):
    for _ in range(count):
        blas.cblas_sgemm(101, 111, 111, 2, 3, 4, ctypes.c_float(1), None, 4, None, 3, ctypes.c_float(0), None, 3)
@dlhook.recording()
def recorded(count):
    call(count)
call(1000)
with dlhook.recording():
    call(1)
    with dlhook.recording():
        call(10)
    call(100)
call(1000)
recorded(10000)
call(1000)
"""

# A hundred steps of two calls. Each test has its own reason to pass or fail.
PERFORMANCE = """
import ctypes, os, pytest
open("imported", "a").write(".")
blas = ctypes.CDLL(os.environ["BLAS"])
def train(steps=100):
    for _ in range(steps):
        for n in (2, 3):
            blas.cblas_sgemm(101, 111, 111, 2, n, 4, ctypes.c_float(1), None, 4, None, 3, ctypes.c_float(0), None, 3)
@pytest.fixture
def host():
    return os.getppid()
@pytest.mark.dlhook(max_step_ms=1000, no_findings=["float64"], baseline="base", fail_above=1000)
def test_passes(host):
    assert host != int(os.environ.get("PYTEST", "0"))
    train()
@pytest.mark.dlhook(max_step_ms=1e-5)
def test_slow():
    train()
@pytest.mark.dlhook(no_findings="input-wait")
def test_not_judged():
    train(1)
@pytest.mark.dlhook(max_step_ms=1000)
def test_idle():
    pass
@pytest.mark.dlhook()
def test_wrong():
    assert "this" == "that"
@pytest.mark.dlhook()
def test_crashes():
    print("before it")
    ctypes.string_at(0)
@pytest.mark.dlhook()
def test_skipped():
    pytest.skip("not here")
"""


class Package(e2e.Case):
    def environment_of_package(self, **extra):
        env = e2e.clean_environment(PYTHONPATH=PACKAGE, **extra)
        env["PATH"] = os.path.dirname(e2e.DLHOOK) + ":" + env["PATH"]
        return env

    def python(self, code, *words, python=sys.executable, **extra):
        """What a program prints that has imported dlhook."""
        result = e2e.run([python, "-c", code, *words], env=self.environment_of_package(**extra), cwd=self.folder)
        self.assertEqual(result.code, 0, result.err.decode())
        return result.out.decode()

    def golden(self, name="torch_cnn_level2"):
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        with open(os.path.join(exports.ROOT, "tests", "golden", f"{name}.textproto"), "rb") as file:
            data = exports.encoded(file.read())
        with open(os.path.join(folder, "1.dlh"), "wb") as file:
            file.write(data)
        return folder

    def test_tables_are_the_commands(self):
        path = self.golden()
        report = e2e.Run(path).report("--table", "layers", "--by", "type")
        layers, findings = report["tables"][0], e2e.Run(path).table("findings")
        told = json.loads(self.python(
            "import dlhook, json, sys\nrun = dlhook.open(sys.argv[1])\n"
            "layers = run.read('layers', by='type')\n"
            "print(json.dumps([layers.rows, [c.unit for c in layers.columns], layers.notes, run.findings, run.facts, run.tables]))", path))
        self.assertEqual(told[0], layers["rows"])
        self.assertEqual(told[1], [column["unit"] for column in layers["columns"]])
        self.assertEqual(told[2], layers["notes"])
        self.assertEqual([row[0] for row in told[3]], [row["rule"] for row in findings])
        self.assertTrue(told[3])
        self.assertEqual(told[4], report["run"])
        self.assertIn("gemm", told[5])

    def test_errors_are_the_commands(self):
        path = self.golden()
        code = ("import dlhook, sys\n"
                "try: eval(sys.argv[1])\n"
                "except dlhook.Error as error: print(error.exit_code, error, sep='\\n', end='')")
        cases = {"dlhook.open('missing')": ["report", "missing"],
                 f"dlhook.open([{path!r}, 'missing'])": ["report", path, "missing"],
                 f"dlhook.open({path!r}).read('gem')": ["report", path, "--table", "gem"],
                 f"dlhook.open({path!r}).read('gemm', by='type')": ["report", path, "--table", "gemm", "--by", "type"],
                 f"dlhook.diff({path!r}, 'missing')": ["diff", path, "missing"],
                 f"dlhook.diff([{path!r}, {path!r}], {path!r})": ["diff", "--base", path, path, "--new", path]}
        for expression, words in cases.items():
            with self.subTest(expression):
                said = e2e.run([e2e.DLHOOK, *words], cwd=self.folder)
                self.assertEqual(said.code, 2)
                self.assertEqual("dlhook: " + self.python(code, expression).split("\n", 1)[1], said.err.decode().rstrip("\n"))

    def test_a_damaged_run_is_read_as_far_as_it_is_whole(self):
        path = self.golden()
        trace = os.path.join(path, "1.dlh")
        os.truncate(trace, os.path.getsize(trace) * 3 // 4)
        said = e2e.run([e2e.DLHOOK, "report", path, "--table", "ops", "--format", "json"])
        told = self.python("import dlhook, sys, warnings\n"
                           "with warnings.catch_warnings(record=True) as caught:\n"
                           "    warnings.simplefilter('always')\n"
                           "    print(len(dlhook.Run(sys.argv[1]).read('ops')))\n"
                           "print(caught[0].category.__name__, caught[0].message)", path)
        rows = len(json.loads(said.out)["tables"][0]["rows"])
        self.assertEqual("dlhook: " + told.replace(f"{rows}\nDamagedRunWarning ", ""), said.err.decode())

    def test_without_pandas(self):
        said = self.python("import sys\nsys.modules['pandas'] = None\nimport dlhook\n"
                           "try: dlhook.open(sys.argv[1]).table('ops')\n"
                           "except ImportError as error: print(error)", self.golden())
        self.assertIn("pip install pandas", said)

    def test_diff(self):
        path = self.golden()
        said = self.python("import dlhook, sys\nd = dlhook.diff(sys.argv[1], dlhook.open(sys.argv[1]))\n"
                           "print(d.verdict, d.is_slower(3), len(d.read('gemm').columns) > 9)", path)
        verdict = json.loads(e2e.run([e2e.DLHOOK, "diff", path, path, "--format", "json"]).out)["tables"][0]["title"]
        self.assertEqual(said, f"{verdict} False True\n")
        report = json.loads(e2e.run([e2e.DLHOOK, "diff", path, path, "--format", "json", "--table", "gemm"]).out)
        self.assertEqual((report["schema"], report["version"], report["verdict"]), ("dlhook-diff", 1, verdict))
        self.assertEqual([table["name"] for table in report["tables"]], ["verdict", "causes", "differences", "findings", "gemm"])

    def test_version_and_what_is_told_at_once(self):
        said = self.python("import dlhook, sys\nassert dlhook.__version__ == dlhook.version()\n"
                           "run = dlhook.open(sys.argv[1])\nsteps = run.report['steps']\n"
                           "assert run.step.median_ms == steps['median_ns'] / 1e6 > 0\n"
                           "assert run.step.used + run.step.left_out == steps['all']\n"
                           "assert run.samples_per_second == steps['samples_per_second'] > 0\n"
                           "try: dlhook.profile([])\nexcept ValueError as error: print(error)\n"
                           "print(repr(run), repr(dlhook.Run('missing')), sep='\\n')", self.golden())
        empty, run, missing = said.splitlines()
        self.assertEqual(empty, "program: expected at least one word, ['python', 'train.py']")
        self.assertIn("A training step takes 8.24 ms", run)
        self.assertIn("missing: no such file or folder", missing)

    def test_json_has_at_most_8_kilobytes(self):
        """Whatever the names in the trace, and those of the run."""
        folder = os.path.join(self.folder, "long " + "e" * 190)
        os.mkdir(folder)
        with gzip.open(os.path.join(exports.ROOT, "tests", "golden", "gpu", "gpt.dlh.gz")) as packed:
            trace = packed.read()
        with open(os.path.join(folder, "1.dlh"), "wb") as file:
            file.write(trace)
        text = re.sub(r"(?m)^ +\d+: .*\n", "", e2e.run([e2e.DLHOOK, "dump", folder]).out.decode())  # fields of an older schema
        for name in (r"gpt\.py", "head", r"blocks\.\d\.\w+", r"aten::\w+"):
            text, count = re.subn(f'"({name})"', lambda found: f'"{found[1]}' + "\\033\\303\\251" * 2000 + '"', text)
            self.assertGreater(count, 0)
        with open(os.path.join(folder, "1.dlh"), "wb") as file:
            file.write(exports.encoded(text.encode()))
        said = e2e.run([e2e.DLHOOK, "report", folder, "--format", "json"]).out
        report = json.loads(said)
        self.assertLessEqual(len(said), 8192)
        self.assertGreater(report["left_out"]["texts_cut"], 0)
        self.assertEqual(sum(part["percent"] for part in report["parts"]), 100)
        self.assertEqual(report["more"]["words"], "dlhook report --explain WORD")
        self.assertTrue(report["more"]["findings"].startswith("dlhook report RUN "))

    def test_skill(self):
        """Every command on the page for assistants does what the page says."""
        page = e2e.run([e2e.DLHOOK, "skill"]).out.decode()
        commands = re.findall(r"^    (dlhook .*)$", page, re.MULTILINE) + re.findall(r"`(dlhook [^`]* [^`]*)`", page)
        self.assertGreater(len(commands), 8)
        with open(os.path.join(self.folder, "train.py"), "w", encoding="utf-8") as file:
            file.write(PERFORMANCE.partition("@pytest")[0].replace(", pytest", "") + "train()\n")
        os.mkdir(os.path.join(self.folder, "bin"))
        os.symlink(sys.executable, os.path.join(self.folder, "bin", "python"))
        env = self.environment_of_package(BLAS=e2e.library("tiny_blas"))
        env["PATH"] = os.path.join(self.folder, "bin") + ":" + env["PATH"]
        commands[:0] = [f"dlhook run -o {name} -- python train.py" for name in ("before2", "after2")]
        # Runs first: what is told of them stands between them.
        for command in sorted(commands, key=lambda command: not command.startswith("dlhook run -o")):
            if command == "dlhook run --sample":  # a flag, without a program
                self.assertIn("--sample", e2e.run([e2e.DLHOOK, "help", "run"]).out.decode())
                continue
            with self.subTest(command):
                done = e2e.run(["sh", "-c", command], env=env, cwd=self.folder)
                self.assertIn(done.code, (0, 1, 2) if "--fail-above" in command else (0,), done.err.decode())
                if "--format json" in command:
                    self.assertTrue(json.loads(done.out))

    def test_assistants(self):
        """python -m dlhook.mcp, by a client of the package mcp."""
        said = e2e.run([sys.executable, "-c", "import sys\nsys.modules['mcp'] = None\nimport dlhook.mcp\ndlhook.mcp.main()"],
                       env=self.environment_of_package())
        self.assertEqual(said.code, 1)
        self.assertIn(b'is not installed here: pip install "dlhook[mcp]"', said.err)
        script = os.path.join(e2e.HERE, "python_package", "mcp_client.py")
        python = self.exports_python("mcp")
        os.mkdir(os.path.join(self.folder, "server"))
        result = e2e.run([python, "-B", script, self.golden("training"), self.golden(), e2e.victim("nested")],
                         env=self.environment_of_package(), cwd=os.path.join(self.folder, "server"))
        self.assertEqual((result.code, result.out.decode()), (0, "as expected\n"), result.err.decode()[-3000:])

    def test_profile(self):
        # The victim's calls make one more call each.
        self.python("import dlhook, sys\nrun = dlhook.profile([sys.argv[1], '5'], 'RUN')\n"
                    "calls = lambda run: {row['metric']: row['value'] for row in run.read('summary')}['calls']\n"
                    "assert (run.path, calls(run)) == ('RUN', 10)\n"
                    "again = dlhook.profile([sys.argv[1], '6'], 'RUN')\n"
                    "assert (again.path, calls(again), calls(run)) == ('RUN-2', 12, 10)\n"
                    "named = [dlhook.profile([sys.argv[1], number]) for number in '67']\n"
                    "assert [calls(run) for run in named] == [12, 14]\n"
                    "off = dlhook.profile([sys.argv[1], '5'], 'OFF', variables={'DLHOOK_START': 'off'})\n"
                    "assert calls(off) == 0\n"
                    "try: dlhook.profile(['sh', '-c', 'exit 7'], 'NONE')\n"
                    "except dlhook.ProgramFailed as error: assert (error.exit_code, error.run) == (7, None)\n"
                    "assert dlhook.profile(['sh', '-c', 'exit 7'], 'NONE', check=False).path == 'NONE'\n",
                    e2e.victim("nested"))

    def test_recording(self):
        script = os.path.join(self.folder, "program.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(RECORDING)
        program = [sys.executable, "-W", "error", script, e2e.library("tiny_blas")]
        plain = e2e.run(program, env=self.environment_of_package())
        self.assertEqual((plain.code, plain.err), (0, b""))
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                env = {name: value for name, value in self.environment_of_package(DLHOOK_START="off").items() if name != "LD_PRELOAD"}
                trace = self.recorded(host, program, **env).trace()
                self.assertEqual(len(trace.calls), 10111)

    def test_recording_that_cannot_be_switched_warns(self):
        self.fresh_run()
        result = self.under("writer", [sys.executable, "-c", "import dlhook\nwith dlhook.recording(): pass"],
                            **self.environment_of_package())
        self.assertEqual(result.code, 0)
        self.assertIn(b"RuntimeWarning: dlhook.recording: can't start recording", result.err)

    def test_module_is_the_command(self):
        for words in (["--version"], ["report", "missing"]):
            said = e2e.run([sys.executable, "-m", "dlhook", *words], env=self.environment_of_package())
            self.assertEqual(said, e2e.run([e2e.DLHOOK, *words]))

    def exports_python(self, modules):
        """The interpreter of build/venv-exports, if it has these modules."""
        if os.access(EXPORTS_PYTHON, os.X_OK) and e2e.run([EXPORTS_PYTHON, "-c", f"import {modules}"]).code == 0:
            return EXPORTS_PYTHON
        return self.skipTest(f"no virtual environment with {modules}: run scripts/setup.sh --test")

    def test_pytest(self):
        python = self.exports_python("pytest")
        with open(os.path.join(self.folder, "test_it.py"), "w", encoding="utf-8") as file:
            file.write(PERFORMANCE)

        def pytest(*words):
            return e2e.run([python, "-B", "-m", "pytest", "-q", "-p", "dlhook._pytest_plugin", "-p", "no:cacheprovider", *words],
                           env=self.environment_of_package(BLAS=e2e.library("tiny_blas")), cwd=self.folder)

        def imports():
            path = os.path.join(self.folder, "imported")
            size = os.path.getsize(path)
            os.remove(path)
            return size

        said = pytest("-rs").out.decode()
        self.assertIn("6 failed, 1 skipped", said)
        self.assertEqual(imports(), 2)  # here, and for all tests together in the child
        # Of tests that passed, too.
        table = said.partition(" dlhook: steady steps ")[2].splitlines()
        self.assertEqual([line.split()[0] for line in table[1:4]], ["test", "test_it.py::test_passes", "test_it.py::test_slow"])
        self.assertTrue(all(float(line.split()[2]) > 0 for line in table[2:4]), table)
        self.assertTrue(all(90 < int(line.split()[1]) <= 100 for line in table[2:4]), table)  # of each test alone
        self.assertRegex(said, r"_ test_crashes _+\nended with -11\nbefore it\n")
        self.assertNotIn("Traceback", said)
        for words in ("no baseline", "the median step takes", "made no call that dlhook sees", "assert 'this' == 'that'", "not here",
                      "no_findings: Could not judge: input-wait"):
            self.assertIn(words, said)
        self.assertIn(b"1 passed", pytest("--dlhook-update-baselines", "test_it.py::test_passes").out)
        self.assertIn(b"1 passed", pytest("test_it.py::test_passes").out)
        # With a thread that no fork would have, each test has a child of its own.
        with open(os.path.join(self.folder, "test_threads.py"), "w", encoding="utf-8") as file:
            file.write("import threading\nfrom test_it import *\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n")
        imports()
        self.assertIn(b"2 failed", pytest("test_threads.py", "-k", "slow or idle").out)
        self.assertEqual(imports(), 3)
        with open(os.path.join(self.folder, "test_it.py"), "a", encoding="utf-8") as file:
            file.write("@pytest.mark.dlhook(max_steps_ms=1)\ndef test_misspelt():\n    pass\n"
                       "@pytest.mark.dlhook(no_findings=['float64', 'floats64'])\ndef test_unknown_rule():\n    pass\n")
        self.assertIn(b"test_misspelt: the mark dlhook does not know max_steps_ms; expected max_step_ms=",
                      pytest("test_it.py::test_misspelt").err)
        self.assertIn(b"test_unknown_rule: no_findings: report: unknown rule 'floats64'; did you mean float64?",
                      pytest("test_it.py::test_unknown_rule").err)

    def test_every_interpreter(self):
        path = self.golden()
        for version in stacks.VERSIONS:
            python = stacks.interpreter(version)
            with self.subTest(version):
                if python is None:
                    print(f"SKIPPED: test_python.py: no python{version}")
                    continue
                self.assertEqual(self.python("import dlhook, dlhook._notebook, sys\nprint(len(dlhook.open(sys.argv[1]).findings) > 0)",
                                             path, python=python), "True\n")

    def test_with_pandas_and_arrow(self):
        script = os.path.join(e2e.HERE, "python_package", "check.py")
        result = e2e.run([self.exports_python("jsonschema, pandas, pyarrow, pytest"), "-B", script, self.golden()],
                         env=self.environment_of_package(), cwd=self.folder)
        self.assertEqual((result.code, result.out.decode()), (0, "as expected\n"), result.err.decode()[-3000:])


if __name__ == "__main__":
    e2e.main()
