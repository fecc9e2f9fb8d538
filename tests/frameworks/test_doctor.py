"""`dlhook doctor` on the wheels: its statements about their libraries agree with what is known of them, and with the
record of a run.

Witness: the trace of an ordinary `dlhook run` of the same program, and the library that is known to do the work.
"""

import json
import os
import re

import frameworks
from frameworks import e2e

NUMPY = frameworks.program("numpy_products", 2)


class Doctor(e2e.Case):
    def diagnose(self, argv, **environment):
        """The doctor's report on the program, after checks that apply to every program."""
        if not os.access(argv[0], os.X_OK):
            self.skipTest(frameworks.MISSING)
        result = e2e.run([e2e.DLHOOK, "doctor", "--format", "json", "--", *argv], cwd=self.folder,
                         env=e2e.clean_environment(**environment))
        self.assertIn(result.code, (0, 1), result.err.decode()[-2000:])
        program = json.loads(result.out)["program"]
        self.assertEqual(program["end"], "exit code 0", result.err.decode()[-2000:])
        self.assertEqual([f for f in program["findings"] if f["level"] in ("warning", "problem")], [])
        self.assertEqual({name for library in program["libraries"] for name in library["bound_past_dlhook"]}, set())
        return program

    def assert_as_in_a_run(self, argv, program, **environment):
        """Per library: the calls and taps recorded in a separate run."""
        self.fresh_run()
        self.under("launcher", argv, **environment)
        traces = e2e.Run(self.run_path).traces()
        libraries = {os.path.realpath(e2e.one(mapping, "path")) for trace in traces for mapping in trace.mappings
                     if e2e.one(mapping, "role") == "LIBRARY"}
        hooked = {library["path"] for library in program["libraries"] if library["state"].startswith("hooked")}
        self.assertEqual(hooked, libraries)
        taps = {(e2e.one(capability, "name"), e2e.one(capability, "object")) for trace in traces
                for capability in trace.capabilities if e2e.one(capability, "state") == "ON" and "object" in capability}
        told = {(tap["name"], self.name(library)) for library in program["libraries"] for tap in library["taps"]
                if tap["state"] == "on"}
        self.assertEqual(told, taps)
        calls = sum(len(trace.calls) for trace in traces)
        self.assertEqual(sum(count for what, count in program["recorded"].items() if what != "scopes"), calls)

    @staticmethod
    def name(library):
        return os.path.basename(library["path"])

    def library(self, program, pattern):
        (found,) = [library for library in program["libraries"] if re.match(pattern, self.name(library))]
        return found

    def taps(self, program, pattern):
        return {tap["name"]: tap["state"] for tap in self.library(program, pattern)["taps"]}

    def test_numpy(self):
        program = self.diagnose(NUMPY)
        openblas = self.library(program, r"libscipy_openblas64_")
        self.assertEqual(openblas["state"], "hooked")
        self.assertGreater(openblas["recorded_calls"], 0)
        self.assertEqual(self.library(program, r"_multiarray_umath")["state"], "caller")
        self.assert_as_in_a_run(NUMPY, program)

    def test_torch(self):
        argv = frameworks.program("cnn", 2, 1)
        program = self.diagnose(argv)
        torch = self.library(program, r"libtorch_cpu\.so")
        self.assertEqual((torch["state"], torch["inside"]), ("hooked and tapped", "oneDNN"))
        self.assertEqual(self.taps(program, r"libtorch_cpu\.so"), {"onednn-tap": "on", "record-function-tap": "on"})
        self.assertEqual(torch["bound_to_dlhook"], torch["refers_to"])  # its own MKL through its own PLT
        self.assertGreater(torch["recorded_calls"], 0)
        self.assert_as_in_a_run(argv, program)

    def test_jax(self):
        program_path = os.path.join(frameworks.HERE, "jax", "programs", "training.py")
        argv = [frameworks.TENSORFLOW_PYTHON, program_path, "mlp", "2"]
        settings = {"DLHOOK_CAPTURE": "-jax"}  # whether a window opens depends on the time
        program = self.diagnose(argv, **settings)
        self.assertEqual(self.taps(program, r"libjax_common\.so")["onednn-tap"], "on")
        self.assertEqual(self.library(program, r"libjax_common\.so")["state"], "tapped")
        self.assertEqual(program["recorded"].keys(), {"onednn"})
        self.assert_as_in_a_run(argv, program, **settings)

    def test_tensorflow(self):
        program_path = os.path.join(frameworks.HERE, "tensorflow", "programs", "alexnet.py")
        argv = [frameworks.TENSORFLOW_PYTHON, program_path, "loop", "1"]
        program = self.diagnose(argv)
        self.assertEqual(self.taps(program, r"libtensorflow_cc\.so")["onednn-tap"], "on")
        self.assertEqual(self.taps(program, r"libtensorflow_framework\.so"), {"trace-me-tap": "on"})
        self.assertGreater(program["recorded"]["onednn"], 0)
        self.assertGreater(program["recorded"]["scopes"], 0)


if __name__ == "__main__":
    e2e.main()
