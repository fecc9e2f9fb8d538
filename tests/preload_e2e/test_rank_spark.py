"""`python -m dlhook.ranks --engine spark`: the same answer as from DuckDB. Needs an environment with pyspark 4 (490 MB), which
scripts/setup.sh does not install: DLHOOK_TEST_SPARK_PYTHON, or build/venv-spark."""

import json
import os
import unittest

import e2e
import exports
from test_rank_exports import Case

PYTHON = os.environ.get("DLHOOK_TEST_SPARK_PYTHON") or os.path.join(exports.ROOT, "build", "venv-spark", "bin", "python")
SUBMIT = ("--master local[2] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2 --conf spark.driver.host=127.0.0.1 "
          "pyspark-shell")


class Spark(Case):
    @unittest.skipUnless(os.access(PYTHON, os.X_OK), "no environment with pyspark")
    def test_same_answer(self):
        path = self.late()
        os.truncate(os.path.join(path, "rank5", "raw_phases.parquet"), 100)
        answers = []
        for words in ((), ("--engine", "spark")):
            python = {"python": PYTHON} if words else {}
            result = self.python("-m", "dlhook.ranks", "--format", "json", *words, path, code=2, PYSPARK_SUBMIT_ARGS=SUBMIT, **python)
            answer = json.loads(result.out)
            problems = answer["tables"][0]
            for row in problems["rows"]:  # the engine's own words
                row[2] = row[2].partition(" is left out: ")[0]
            answers.append(answer)
        self.assertEqual(len(answers[0]["findings"]), 1)
        self.maxDiff = None
        self.assertEqual(*answers)


if __name__ == "__main__":
    e2e.main()
