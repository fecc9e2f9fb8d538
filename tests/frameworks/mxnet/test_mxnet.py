"""MXNet with a genuine oneDNN 1.x: dlhook records the same as the library's own log without dlhook.

The wheel of requirements-mxnet.txt has oneDNN 1.7.0. Tested manually, with DLHOOK_TEST_MXNET_PYTHON and
DLHOOK_TEST_MXNET_VERSION: the wheels 1.5.1-mkl (MKL-DNN 0.19.0), 1.6.0-mkl (1.0.4), 1.7.0 (DNNL 1.3.0) and 1.9.1
(2.4.4).
"""

import json
import os
import re
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "preload_e2e"))
import e2e  # pylint: disable=wrong-import-position
import test_onednn as lines  # pylint: disable=wrong-import-position

PYTHON = os.environ.get("DLHOOK_TEST_MXNET_PYTHON", "")
VERSION = os.environ.get("DLHOOK_TEST_MXNET_VERSION", "v1.7.0")
PROGRAM = [PYTHON, os.path.join(HERE, "programs", "train_cnn.py"), "2"]
# Both names that these releases know; one worker, so that the order of the lines is that of the calls.
ONE_WORKER = {"OMP_NUM_THREADS": 1, "MXNET_CPU_WORKER_NTHREADS": 1}


def logged(level):
    return {"MKLDNN_VERBOSE": level, "DNNL_VERBOSE": level}


def without_times(output):
    return re.sub(rb"(?m)^((?:mkl)?d?nn\w*_verbose,(?:exec|create).*),[-+\d.e]+$", rb"\1,TIME", output)


@unittest.skipUnless(os.access(PYTHON, os.X_OK), "no virtual environment with MXNet: run scripts/setup.sh --frameworks")
class OneDnn1(e2e.Case):
    def plain(self, **extra):
        result = e2e.run(PROGRAM, env=e2e.clean_environment(**ONE_WORKER, **extra), cwd=self.folder)
        self.assertEqual(result.code, 0, result.err.decode()[-2000:])
        return result

    def test_calls_are_those_of_the_log(self):
        quiet = self.plain()
        for level, host in ((1, "launcher"), (2, "writer")):
            witness = lines.log_lines(self.plain(**logged(level)).out)
            self.assertGreaterEqual(len(witness), 24 * level)
            with self.subTest(level=level, host=host):
                self.fresh_run()
                result = self.under(host, PROGRAM, DLHOOK_ONEDNN_LEVEL=level, **ONE_WORKER)
                self.assertEqual((result.code, result.out), (0, quiet.out))
                trace = e2e.Run(self.run_path).trace()
                self.assert_no_loss(trace)
                trace.calls.sort(key=lambda call: (call.end_ticks, call.sequence))
                self.assertEqual(lines.recorded_lines(trace), witness)
                versions = {e2e.one(call.op["onednn"][0], "version") for call in trace.calls if "onednn" in call.op}
                self.assertEqual(versions, {VERSION})

    def test_finding_of_a_reference_implementation(self):
        for size, found in ((5, 0), (7, 1)):
            self.fresh_run()
            program = [PYTHON, os.path.join(HERE, "programs", "normalized.py"), str(size)]
            result = self.under("launcher", program, **ONE_WORKER)
            self.assertEqual(result.code, 0, result.err.decode()[-2000:])
            report = e2e.run([e2e.DLHOOK, "report", self.run_path, "--table", "findings", "--format", "json"])
            rows = json.loads(report.out)["tables"][0]["rows"]
            self.assertEqual([row[0] for row in rows].count("reference-implementation"), found, rows)

    def test_the_users_own_log_stays(self):
        plain = self.plain(**logged(1))
        result = self.under("writer", PROGRAM, **ONE_WORKER, **logged(1))
        self.assertEqual(without_times(result.out), without_times(plain.out))
        self.assertIn(b"_verbose,exec", result.out)

    def test_convolutions_and_their_directions(self):
        self.under("launcher", PROGRAM, **ONE_WORKER)
        rows = [row for row in e2e.Run(self.run_path).table("ops") if row["kind"] == "convolution"]
        # The images need no gradient: no backward-data.
        self.assertEqual({row["direction"]: row["calls"] for row in rows}, {"forward": 2, "backward-weights": 2})
        # Of one call: 2 * N * K * P * Q * C * R * S.
        self.assertEqual({row["flops"] for row in rows}, {2 * 4 * 16 * 16 * 16 * 8 * 3 * 3})


if __name__ == "__main__":
    e2e.main()
