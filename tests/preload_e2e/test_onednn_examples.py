"""oneDNN's own examples, built against the installed libdnnl: every line of the library's log is a recorded call.

They are in the `examples` folder of oneDNN's source (tag v2.6.3 for Debian 12's libdnnl-dev), which no package
contains: the test runs if DLHOOK_ONEDNN_EXAMPLES names it. A program with as many kinds of primitives for every
machine: victims/primitives.cc.
"""

import glob
import os
import re
import subprocess
import unittest

import e2e
import test_onednn as lines

EXAMPLES = os.environ.get("DLHOOK_ONEDNN_EXAMPLES", "")
COMPILERS = {".c": ["gcc", "-std=c99"], ".cpp": ["g++", "-std=c++17"]}


def sources():
    """Those for CPUs: the others include headers of OpenCL and SYCL or need a GPU."""
    found = [path for kind in COMPILERS for path in glob.glob(f"{EXAMPLES}/**/*{kind}", recursive=True)]
    return sorted(path for path in found if not re.search(r"gpu|sycl|opencl|cross_engine|CMakeLists", path))


def without_numbers(output):
    return re.sub(rb"[-+]?\d[\d.e+-]*", b"N", output)


@unittest.skipUnless(os.path.isdir(EXAMPLES), "DLHOOK_ONEDNN_EXAMPLES names no folder with oneDNN's examples")
class Examples(e2e.Case):
    def build(self, source):
        kind = os.path.splitext(source)[1]
        program = os.path.join(self.folder, os.path.basename(source).replace(".", "_"))
        subprocess.run([*COMPILERS[kind], "-O0", "-w", "-fopenmp", f"-I{EXAMPLES}", source, "-o", program, "-ldnnl", "-lm", "-lOpenCL"],
                       check=True, capture_output=True, timeout=300)
        return program

    def check(self, program):
        argv = [program, "cpu"] if "api" in program else [program]
        settings = {"OMP_NUM_THREADS": 1}
        plain = e2e.run(argv, env=e2e.clean_environment(**settings))
        logged = e2e.run(argv, env=e2e.clean_environment(ONEDNN_VERBOSE=1, **settings))
        self.fresh_run()
        result = self.under("launcher", argv, **settings)
        self.assertEqual((result.code, without_numbers(result.out)), (plain.code, without_numbers(plain.out)))
        witness = lines.log_lines(logged.out)
        recorded = lines.recorded_lines(e2e.Run(self.run_path).trace()) if e2e.Run(self.run_path).files() else []
        # One that repeats for some time has a varying number of executions.
        if sorted(set(witness)) != sorted(witness) and len(witness) > 2000:
            self.assertEqual(set(recorded), set(witness))
        else:
            self.assertEqual(recorded, witness)
        return len(witness)

    def test_each(self):
        counts = {}
        for source in sources():
            name = os.path.relpath(source, EXAMPLES)
            with self.subTest(name):
                counts[name] = self.check(self.build(source))
        print(f"{len(counts)} examples, {sum(counts.values())} executions", flush=True)
        self.assertGreater(len(counts), 20)
        self.assertGreater(len([count for count in counts.values() if count]), 20)


if __name__ == "__main__":
    e2e.main()
