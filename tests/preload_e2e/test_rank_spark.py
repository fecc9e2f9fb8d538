"""`python -m dlhook.ranks --engine spark`: the same answer as from DuckDB, on this machine and on a standalone cluster of two processes.
Needs an environment with pyspark 4 (490 MB), which scripts/setup.sh does not install: DLHOOK_TEST_SPARK_PYTHON, or build/venv-spark."""

import json
import os
import socket
import subprocess
import time

import e2e
import exports
from test_rank_exports import Case

PYTHON = os.environ.get("DLHOOK_TEST_SPARK_PYTHON") or os.path.join(exports.ROOT, "build", "venv-spark", "bin", "python")
SUBMIT = ("--conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2 --conf spark.driver.host=127.0.0.1 --executor-memory 1g "
          "pyspark-shell")


class Spark(Case):
    def setUp(self):
        super().setUp()
        if not os.access(PYTHON, os.X_OK):
            self.skipTest("no environment with pyspark")

    def check_same_answer(self, master):
        path = self.late()
        os.truncate(os.path.join(path, "rank5", "raw_phases.parquet"), 100)
        answers = []
        for words in ((), ("--engine", "spark")):
            python = {"python": PYTHON} if words else {}
            result = self.python("-m", "dlhook.ranks", "--format", "json", *words, path, code=2,
                                 PYSPARK_SUBMIT_ARGS=f"--master {master} {SUBMIT}", **python)
            answer = json.loads(result.out)
            for row in answer["tables"][0]["rows"]:  # the engine's own words
                row[2] = row[2].partition(" is left out: ")[0]
            answers.append(answer)
        self.assertEqual(len(answers[0]["findings"]), 1)
        self.maxDiff = None
        self.assertEqual(*answers)

    def test_local(self):
        self.check_same_answer("local[2]")

    def start(self, name, *words):
        """A part of the cluster, until it says that it is ready."""
        home = os.path.dirname(self.python("-c", "import pyspark; print(pyspark.__file__)", python=PYTHON).out.decode().strip())
        log = os.path.join(self.folder, name)
        with open(log, "wb") as file:
            process = subprocess.Popen([os.path.join(home, "bin", "spark-class"), f"org.apache.spark.deploy.{name.lower()}.{name}", *words],
                                       stdout=file, stderr=file, env=e2e.clean_environment(SPARK_HOME=home, SPARK_LOCAL_IP="127.0.0.1"))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for _ in range(600):
            with open(log, encoding="utf-8") as file:
                text = file.read()
            if "I have been elected leader" in text or "Successfully registered with master" in text:
                return log
            self.assertIsNone(process.poll(), text)
            time.sleep(0.1)
        self.fail(text)

    def test_standalone_cluster(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        master = f"spark://127.0.0.1:{port}"
        log = self.start("Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        self.start("Worker", "--host", "127.0.0.1", "--cores", "2", "--memory", "1g", "--webui-port", "0", "-d", self.folder, master)
        self.check_same_answer(master)
        with open(log, encoding="utf-8") as file:
            self.assertIn("Registered app dlhook.ranks with ID", file.read())


if __name__ == "__main__":
    e2e.main()
