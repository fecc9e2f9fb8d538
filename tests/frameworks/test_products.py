"""Products of NumPy and SciPy, counted by hand: wheels with their own BLAS, Debian's packages on every libblas.so.3.

The library of Debian's NumPy is switched for one process by LD_LIBRARY_PATH, as its administrator would by
alternatives.
"""

import collections
import os

import frameworks
from frameworks import DEBIAN_PYTHON, e2e, program

ROUNDS = 3
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


def products(single, double, numpys):
    """The calls of the program's rounds, by their names in its libraries."""
    return {(single, 20, 40, 30, "NN"): ROUNDS, (double, 21, 41, 31, "NT"): ROUNDS, (numpys, 22, 42, 32, "NN"): ROUNDS,
            (single, 7, 9, 8, "NN"): ROUNDS}


def cholesky(n):
    """Calls of LAPACK 3's dpotrf2('U', n), which halves the matrix until its parts are single numbers."""
    if n == 1:
        return collections.Counter()
    n1, n2 = n // 2, n - n // 2
    own = collections.Counter({("dtrsm_", n1, n2, 0, "T"): 1, ("dsyrk_", 0, n2, n1, "T"): 1})
    return own + cholesky(n1) + cholesky(n2)


def reference_lapack():
    return {call: ROUNDS * count for call, count in cholesky(33).items()}


class Products(frameworks.Case):
    def check(self, argv, expected, host, **environment):
        plain = self.plain(argv, **environment)
        self.assertEqual(plain.out, b"30.0 31.0 32.0 8.0 34\n", plain.err)
        run = self.recorded(host, argv, **environment)
        trace = run.trace()
        self.assert_no_loss(trace)
        # Whatever NumPy computes while it is imported is not the program's (numpy/__init__.py: 20 x 20).
        calls = [call for call in trace.top_calls() if not frameworks.is_numpys_import(call)]
        self.assert_problems(calls, expected)
        return trace

    def test_wheels(self):
        # Two OpenBLAS libraries in one process: SciPy's with 32-bit integers, NumPy's with 64-bit ones; with LAPACK.
        expected = products("scipy_sgemm_", "scipy_dgemm_", "scipy_cblas_dgemm64_")
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.check(program("scipy_products", ROUNDS), expected, host)


class Debian(Products):
    def setUp(self):
        probe = e2e.run([DEBIAN_PYTHON, "-c", "import numpy, scipy"])
        if probe.code != 0:
            self.skipTest("no python3-numpy and python3-scipy of Debian: run scripts/setup.sh --frameworks")
        e2e.Case.setUp(self)

    test_wheels = None

    def check_library(self, folders, lapack):
        folders = [os.path.join(LIBRARIES, folder) for folder in folders]
        for folder in folders:
            if not os.path.isdir(folder):
                self.skipTest(f"no {folder}")
        argv = [DEBIAN_PYTHON, *program("scipy_products", ROUNDS)[1:]]
        trace = self.check(argv, products("sgemm_", "dgemm_", "cblas_dgemm") | lapack, "writer",
                           LD_LIBRARY_PATH=":".join(folders))
        # An execution is one call, even if cblas_dgemm calls dgemm_: that one is inside it.
        inner = {e2e.problem(call.op)[0] for call in trace.calls if call.parent is not None}
        self.assertLessEqual(inner, {"dgemm_"})
        loaded = {e2e.one(mapping, "path", "") for mapping in trace.mappings}
        self.assertTrue([path for path in loaded if path.startswith(folders[0] + "/")], loaded)

    def test_openblas(self):
        self.check_library(["openblas-pthread"], {})

    def test_blis(self):
        self.check_library(["blis-openmp", "lapack"], reference_lapack())

    def test_reference(self):
        self.check_library(["blas", "lapack"], reference_lapack())

    def test_whose_blas_computes(self):
        """The finding names the reference, and no other library, however links lead to it."""
        code = "import numpy as n; a = n.ones((192, 192), n.float32)\nfor _ in range(30): n.tanh(a @ a)"
        for folder in ("blas", "openblas-pthread", "blis-openmp", ""):
            with self.subTest(folder=folder or "the link of Debian's alternatives"):
                library = os.path.realpath(os.path.join(LIBRARIES, folder, "libblas.so.3"))
                if not os.path.exists(library):
                    self.skipTest(f"no {library}")
                variables = {"LD_LIBRARY_PATH": os.path.join(LIBRARIES, folder)} if folder else {}
                run = self.recorded("launcher", [DEBIAN_PYTHON, "-c", code], **variables)
                found = [row["finding"] for row in run.table("findings") if row["rule"] == "reference-implementation"]
                self.assertEqual(len(found), "/blas/" in library, found)
                if found:
                    self.assertIn("The reference BLAS (libblas.so.3.", found[0])


if __name__ == "__main__":
    e2e.main()
