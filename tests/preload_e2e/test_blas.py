"""One program, every BLAS: OpenBLAS and BLIS (their pthread, OpenMP and serial builds), reference BLAS, MKL. Shapes by
hand.

All entries of MKL if DLHOOK_MKL_LIBRARY names the libmkl_rt.so.3 of the `mkl` wheel; those that PyTorch's wheel
contains and exports: tests/frameworks/test_mkl.py.
"""

import glob
import os
import unittest

import e2e
import products

# In Debian's folders next to /usr/lib/TRIPLET; missing ones are reported as skipped.
BUILDS = ("openblas-pthread", "openblas-openmp", "openblas-serial", "blis-pthread", "blis-openmp", "blis-serial", "blas")
MKL = os.environ.get("DLHOOK_MKL_LIBRARY", "")


def folder_of(build):
    return next(iter(glob.glob(f"/usr/lib/*-linux-gnu/{build}/")), None)


class Products(products.Case):
    def test_openblas_and_blis(self):
        for build in BUILDS[:-1]:
            with self.subTest(build=build):
                if not (folder := folder_of(build)):
                    self.skipTest(f"no {build}")
                (library,) = glob.glob(f"{folder}/lib{build.split('-')[0]}.so.[04]")
                printed = self.check(library, ["launcher"], OMP_NUM_THREADS=2)
                least = {"cblas_sgemm", "sgemm_", "cblas_cgemm3m"}
                if "blis" in build:
                    least |= {"cblas_sgemmt", "cblas_sgemm_batch", "sgemm_batch_"}
                self.assertLessEqual(least, set(printed))

    @unittest.skipUnless(os.path.exists(MKL), "DLHOOK_MKL_LIBRARY names no libmkl_rt.so.3")
    def test_all_of_mkl(self):
        folder = os.path.dirname(MKL)
        for victim in ("products", "products_64"):
            printed = self.check(MKL, e2e.HOSTS, victim, LD_LIBRARY_PATH=folder, OMP_NUM_THREADS=1)
            self.assertEqual(len(printed), len(products.PRODUCTS))


class Linked(e2e.Case):
    """The program of test_reach.py with each libblas.so.3."""

    EXPECTED = {("cblas_sgemm", 8, 9, 10, "NT"): 40, ("dgemm_", 4, 5, 6, "TN"): 40, ("cblas_dgemv", 7, 1, 3, "NN"): 40,
                ("cblas_dtrsm", 6, 2, 0, "N"): 40}
    # The implementation of the C functions in reference BLAS and BLIS: their Fortran functions, called through the PLT.
    INNER = {("sgemm_", 9, 8, 10, "TN"): 40, ("dgemv_", 7, 1, 3, "NN"): 40, ("dtrsm_", 6, 2, 0, "N"): 40}

    def test_each_build(self):
        # One thread: Debian's serial OpenBLAS is built without locks, concurrent callers may get each other's numbers.
        argv = [e2e.victim("linked_blas"), "1", "40"]
        for build in BUILDS:
            with self.subTest(build=build):
                if not (folder := folder_of(build)):
                    self.skipTest(f"no {build}")
                plain = e2e.run(argv, env=e2e.clean_environment(LD_LIBRARY_PATH=folder))
                self.assertEqual(plain.code, 3)
                self.fresh_run()
                self.assert_same_behaviour(plain, self.under("launcher", argv, LD_LIBRARY_PATH=folder), "launcher")
                run = e2e.Run(self.run_path)
                trace = run.trace()
                self.assert_no_loss(trace)
                self.assert_problems(trace.top_calls(), self.EXPECTED)
                inner = [call for call in trace.calls if call.parent is not None]
                self.assert_problems(inner, {} if "openblas" in build else self.INNER)
                # The same work seen twice is counted once.
                self.assertEqual(sum(row["calls"] or 0 for row in run.table("ops")), 160)
                (mapped,) = {path for path in (e2e.one(m, "path") for m in trace.mappings) if "/libblas.so" in path}
                self.assertEqual(mapped, os.path.realpath(f"{folder}/libblas.so.3"))


class Pools(e2e.Case):
    """A product shared by the library's own threads is one call, of the thread that made it."""

    def test_one_call(self):
        for build in ("openblas-pthread", "openblas-openmp", "blis-openmp"):
            with self.subTest(build=build):
                if not (folder := folder_of(build)):
                    self.skipTest(f"no {build}")
                (library,) = glob.glob(f"{folder}/lib{build.split('-')[0]}.so.[04]")
                argv = [e2e.victim("products"), library, "400"]
                threads = {"OPENBLAS_NUM_THREADS": 2, "OMP_NUM_THREADS": 2}
                plain = e2e.run(argv, env=e2e.clean_environment(**threads))
                self.assertIn(b"threads 2\n", plain.out)
                self.fresh_run()
                self.assert_same_behaviour(plain, self.under("launcher", argv, **threads), "launcher")
                trace = e2e.Run(self.run_path).trace()
                large = [call for call in trace.calls if e2e.problem(call.op)[1] == 400]
                self.assert_problems([call for call in large if call.parent is None],
                                     {("cblas_sgemm", 400, 400, 400, "NN"): 1})
                self.assertEqual(len({call.thread_id for call in trace.calls}), 1)


if __name__ == "__main__":
    e2e.main()
