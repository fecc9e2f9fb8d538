"""The fake vendor libraries do what README.md says: each case is a small client in its own process, then its log."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fake_log  # pylint: disable=wrong-import-position

FAKES = pathlib.Path(os.environ["DLHOOK_TEST_FAKES"])  # the folder with cuda13, cuda12, cuda10

PRELUDE = """
import ctypes, os
from ctypes import byref, c_int, c_int64, c_float, c_size_t, c_void_p, c_char_p
class Library:
    def __init__(self, name):
        self.library = ctypes.CDLL(os.path.join(FOLDER, name))
    def __getattr__(self, function):
        return getattr(self.library, function)
def ok(status):
    assert status == 0, status
def pointer(function, *arguments):
    out = c_void_p()
    ok(function(byref(out), *arguments))
    return out
"""
VERSION = {"cuda13": "13", "cuda12": "12", "cuda10": "10.2"}


class Case(unittest.TestCase):
    maxDiff = None

    def client(self, code, generation="cuda13", **settings):
        """Runs Python code with the libraries of a generation; returns (exit code, log, output)."""
        head = f"FOLDER = {str(FAKES / generation)!r}\n" + PRELUDE
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            environment = {**os.environ, "DLHOOK_FAKE_LOG": log}
            environment.update({f"DLHOOK_FAKE_{key}": value for key, value in settings.items()})
            result = subprocess.run(
                [sys.executable, "-c", head + textwrap.dedent(code)],
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            self.log_path_existed = os.path.exists(log)
            calls = fake_log.read(log) if self.log_path_existed else []
        return result.returncode, calls, result.stdout + result.stderr

    def succeed(self, code, generation="cuda13", **settings):
        status, calls, output = self.client(code, generation, **settings)
        self.assertEqual(status, 0, output)
        return calls, output


class Log(Case):
    def test_columns(self):
        calls, _ = self.succeed("""
            cuda = Library("libcudart.so.13")
            memory = pointer(cuda.cudaMalloc, c_size_t(1000))
            ok(cuda.cudaMemset(memory, 7, c_size_t(1000)))
            ok(cuda.cudaFree(memory))
        """)
        self.assertEqual([call.function for call in calls], ["cudaMalloc", "cudaMemset", "cudaFree"])
        malloc, memset, free = calls
        self.assertEqual((malloc.library, malloc.thread, malloc.depth, malloc.status), ("cudart", 0, 0, "0"))
        self.assertEqual(malloc.number("bytes"), 1000)
        self.assertEqual(malloc.written("out"), 0x7eb000000000)  # the first address of device 0
        self.assertEqual(free.library, "cudart")
        self.assertEqual(memset.arguments, {"dst": "0x7eb000000000", "value": "7", "bytes": "1000"})

    def test_nothing_without_being_asked(self):
        self.succeed('Library("libcudart.so.13").cudaFree(None)', LOG="")
        self.assertFalse(self.log_path_existed)

    def test_skipped_functions(self):
        calls, _ = self.succeed(
            'c = Library("libcudart.so.13"); c.cudaFree(None); c.cudaGetLastError()', LOG_SKIP="cudaFree"
        )
        self.assertEqual([call.function for call in calls], ["cudaGetLastError"])

    def test_survives_exit_without_destructors(self):
        for ending in ("os._exit(3)", "os.kill(os.getpid(), 9)"):
            _, calls, _ = self.client(f'c = Library("libcudart.so.13"); c.cudaFree(None); c.cudaFree(None); {ending}')
            self.assertEqual(len(calls), 2, ending)

    def test_forked_child_has_a_log_of_its_own(self):
        calls, output = self.succeed("""
            c = Library("libcudart.so.13")
            c.cudaFree(None)
            child = os.fork()
            if child == 0:
                c.cudaDeviceSynchronize()
                os._exit(0)
            os.wait()
            c.cudaGetLastError()
            print(open(os.environ["DLHOOK_FAKE_LOG"] + f".{child}").read().strip("\\0").split()[4:6])
        """)
        self.assertEqual([call.function for call in calls], ["cudaFree", "cudaGetLastError"])
        self.assertEqual(output.strip(), "['cudaDeviceSynchronize', '0']")

    def test_stable_form_hides_only_the_process_s_own_addresses(self):
        text = "0\t0\t0\tcudart\tf\t0\tns=5\ta=0x7fff12345678>0x7eb000000000\tb=0x0\tc=0x7e8000000400"
        self.assertEqual(
            fake_log.stable([fake_log.parse(text)]), ["0/0 f -> 0 ns=5 a=0x…>0x7eb000000000 b=0x0 c=0x7e8000000400"]
        )


class Scenario(Case):
    def test_failing_call(self):
        calls, output = self.succeed(
            'c = Library("libcudart.so.13"); print([c.cudaFree(None) for _ in range(4)])', FAIL="cudaFree:3:700"
        )
        self.assertEqual(output.strip(), "[0, 0, 700, 0]")
        self.assertEqual([call.status for call in calls], ["0", "0", "700", "0"])

    def test_each_call_fails(self):
        _, output = self.succeed(
            'c = Library("libcudart.so.13"); print([c.cudaFree(None) for _ in range(2)])', FAIL="cudaFree:*:2"
        )
        self.assertEqual(output.strip(), "[2, 2]")

    def test_failure_is_the_last_error_once(self):
        _, output = self.succeed(
            """
            c = Library("libcudart.so.13")
            print([c.cudaFree(None), c.cudaFree(None), c.cudaPeekAtLastError(), c.cudaGetLastError(), c.cudaGetLastError()])
        """,
            FAIL="cudaFree:1:700",
        )
        self.assertEqual(output.strip(), "[700, 0, 700, 700, 0]")

    def test_malformed_setting_is_said(self):
        status, _, output = self.client('Library("libcudart.so.13").cudaFree(None)', FAIL="cudaFree")
        self.assertNotEqual(status, 0)
        self.assertIn("expected FUNCTION:COUNT:STATUS", output)

    def test_devices(self):
        code = 'n = c_int(); c = Library("libcudart.so.13"); print(c.cudaGetDeviceCount(byref(n)), n.value)'
        self.assertEqual(self.succeed(code, DEVICES="2")[1].strip(), "0 2")
        self.assertEqual(self.succeed(code, DEVICES="0")[1].strip(), "100 0")


class Runtime(Case):
    def test_copies_copy_and_take_their_time(self):
        calls, output = self.succeed("""
            c = Library("libcudart.so.13")
            size = c_size_t(100000)
            device, pinned = pointer(c.cudaMalloc, size), pointer(c.cudaMallocHost, size)
            pageable = ctypes.create_string_buffer(b"abc", 100000)
            first, second, third = (pointer(c.cudaEventCreate) for _ in range(3))
            ok(c.cudaEventRecord(first, None))
            ok(c.cudaMemcpyAsync(device, pageable, size, 1, None))
            ok(c.cudaEventRecord(second, None))
            ok(c.cudaMemcpyAsync(pinned, device, size, 2, None))
            ok(c.cudaEventRecord(third, None))
            for a, b in ((first, second), (second, third)):
                milliseconds = c_float()
                ok(c.cudaEventElapsedTime(byref(milliseconds), a, b))
                print(round(milliseconds.value * 1e6))
            print(ctypes.string_at(pinned).decode())
        """)
        # 1500 ns, and 5 GB/s from pageable or 25 GB/s to pinned memory.
        self.assertEqual(output.split(), ["21500", "5500", "abc"])
        copies = [call.note["copy"] for call in calls if call.function == "cudaMemcpyAsync"]
        self.assertEqual(copies, ["H>D", "D>P"])

    def test_captured_work_is_done_at_replay(self):
        calls, output = self.succeed("""
            c = Library("libcudart.so.13")
            memory, stream = pointer(c.cudaMalloc, c_size_t(8)), pointer(c.cudaStreamCreate)
            ok(c.cudaStreamBeginCapture(stream, 0))
            ok(c.cudaMemsetAsync(memory, 65, c_size_t(4), stream))
            graph = pointer(lambda out: c.cudaStreamEndCapture(stream, out))
            print(repr(ctypes.string_at(memory)))
            executable = pointer(c.cudaGraphInstantiateWithFlags, graph, c_size_t(0))
            ok(c.cudaGraphDestroy(graph))
            ok(c.cudaGraphLaunch(executable, stream))
            print(repr(ctypes.string_at(memory)))
        """)
        self.assertEqual(output.split(), ["b''", "b'AAAA'"])
        self.assertEqual([call.note["nodes"] for call in calls if "nodes" in call.note], ["1", "1"])

    def test_driver_is_found_through_the_runtime(self):
        calls, output = self.succeed("""
            c, entry, status = Library("libcudart.so.13"), c_void_p(), c_int(9)
            for name in (b"cuMemcpyHtoDAsync", b"cuThatNobodyKnows", b"printf"):
                c.cudaGetDriverEntryPointByVersion(name, byref(entry), 12000, c_size_t(0), byref(status))
                print(bool(entry.value), status.value)
        """)
        self.assertEqual(output.split(), ["True", "0", "True", "0", "False", "1"])
        symbols = [call.note["symbol"] for call in calls if call.function == "cuGetProcAddress_v2"]
        self.assertEqual(symbols[:2], ["cuMemcpyHtoDAsync_v2", "-"])
        self.assertEqual({call.depth for call in calls if call.library == "cuda"}, {1})


class Blas(Case):
    def test_heuristic_and_algorithm(self):
        _, output = self.succeed(
            """
            lt = Library("libcublasLt.so.13")
            results, count = (ctypes.c_char * 192)(), c_int()
            ok(lt.cublasLtMatmulAlgoGetHeuristic(None, None, None, None, None, None, None, 2, results, byref(count)))
            values = []
            for name in (0, 1, 2, 6):
                value = c_int()
                ok(lt.cublasLtMatmulAlgoConfigGetAttribute(results, name, byref(value), c_size_t(4), None))
                values.append(value.value)
            print(count.value, values)
        """,
            LT="5:20:8:3,9:1:1:1",
        )
        self.assertEqual(output.strip(), "2 [5, 20, 3, 8]")

    def test_descriptors_keep_their_attributes(self):
        _, output = self.succeed("""
            lt = Library("libcublasLt.so.13")
            layout = pointer(lt.cublasLtMatrixLayoutCreate, 0, c_size_t(3), c_size_t(4), c_size_t(5))
            rows, batch = c_size_t(), c_int(7)
            ok(lt.cublasLtMatrixLayoutSetAttribute(layout, 5, byref(batch), c_size_t(4)))
            batch.value = 0
            ok(lt.cublasLtMatrixLayoutGetAttribute(layout, 2, byref(rows), c_size_t(8), None))
            ok(lt.cublasLtMatrixLayoutGetAttribute(layout, 5, byref(batch), c_size_t(4), None))
            print(rows.value, batch.value, lt.cublasLtMatrixLayoutGetAttribute(layout, 2, byref(batch), c_size_t(4), None))
        """)
        self.assertEqual(output.strip(), "3 7 7")  # too small a buffer: CUBLAS_STATUS_INVALID_VALUE

    def test_products_call_the_other_library_where_asked(self):
        code = """
            blas = Library("libcublas.so.13")
            handle = pointer(blas.cublasCreate_v2)
            ok(blas.cublasSgemm_v2(handle, 0, 0, 2, 3, 4, None, None, 2, None, 4, None, None, 2))
        """
        plain, _ = self.succeed(code)
        self.assertEqual([call.function for call in plain], ["cublasCreate_v2", "cublasSgemm_v2"])
        nested, _ = self.succeed(code, NESTED="1")
        self.assertEqual(
            [(call.function, call.depth) for call in nested],
            [("cublasCreate_v2", 0), ("cublasSgemm_v2", 0), ("cublasLtMatmul", 1)],
        )
        self.assertEqual([nested[2].note[size] for size in "mnk"], ["2", "3", "4"])


class Cudnn(Case):
    CLIENT = """
        dnn = Library(NAME)
        handle = pointer(dnn.cudnnCreate)
        x, w, y, convolution = (pointer(getattr(dnn, f"cudnnCreate{kind}Descriptor")) for kind in
                                ("Tensor", "Filter", "Tensor", "Convolution"))
        ok(dnn.cudnnSetTensor4dDescriptor(x, 0, 0, 2, 3, 8, 8))
        ok(dnn.cudnnSetFilter4dDescriptor(w, 0, 0, 5, 3, 3, 3))
        ok(dnn.cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1, 1, 0))
        ok(dnn.cudnnSetTensor4dDescriptor(y, 1, 0, 2, 5, 8, 8))
        results, count = (ctypes.c_char * 480)(), c_int()
        algorithms = lambda: [int.from_bytes(results[i * 48:i * 48 + 4], "little") for i in range(count.value)]
        ok(dnn.cudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, convolution, y, 10, byref(count), results))
        print(algorithms())
        ok(dnn.cudnnFindConvolutionForwardAlgorithm(handle, x, w, convolution, y, 10, byref(count), results))
        print(algorithms())
        sizes, strides, kind, number = (c_int * 8)(), (c_int * 8)(), c_int(), c_int()
        ok(dnn.cudnnGetTensorNdDescriptor(y, 8, byref(kind), byref(number), sizes, strides))
        print(number.value, list(sizes)[:4], list(strides)[:4])
    """

    def test_legacy(self):
        for generation, name in (("cuda13", "libcudnn.so.9"), ("cuda12", "libcudnn.so.8"), ("cuda10", "libcudnn.so.7")):
            with self.subTest(name):
                _, output = self.succeed(
                    self.CLIENT.replace("NAME", repr(name)), generation, ALGORITHMS="1:100:0,6:50:0"
                )
                self.assertEqual(output.splitlines(), ["[1, 6]", "[6, 1]", "4 [2, 5, 8, 8] [320, 1, 40, 5]"])

    def test_other_descriptors(self):
        _, output = self.succeed("""
            dnn = Library("libcudnn.so.9")
            pooling, sequences = pointer(dnn.cudnnCreatePoolingDescriptor), pointer(dnn.cudnnCreateRNNDataDescriptor)
            ok(dnn.cudnnSetPooling2dDescriptor(pooling, 1, 0, 2, 3, 4, 5, 6, 7))
            mode, nan, count = c_int(), c_int(), c_int()
            window, pads, strides = (c_int * 2)(), (c_int * 2)(), (c_int * 2)()
            ok(dnn.cudnnGetPoolingNdDescriptor(pooling, 2, byref(mode), byref(nan), byref(count), window, pads, strides))
            print(mode.value, count.value, *window, *pads, *strides)
            ok(dnn.cudnnSetRNNDataDescriptor(sequences, 2, 1, 9, 2, 5, (c_int * 2)(9, 4), None))
            values, lengths = [c_int() for _ in range(5)], (c_int * 2)()
            ok(dnn.cudnnGetRNNDataDescriptor(sequences, *(byref(value) for value in values), 2, lengths, None))
            print(*(value.value for value in values), *lengths)
        """)
        self.assertEqual(output.splitlines(), ["1 2 2 3 4 5 6 7", "2 1 9 2 5 9 4"])

    def test_versions(self):
        for generation, name, version in (
            ("cuda13", "libcudnn.so.9", 92400),
            ("cuda12", "libcudnn.so.8", 8907),
            ("cuda10", "libcudnn.so.7", 7605),
        ):
            _, output = self.succeed(f"print(Library('{name}').cudnnGetVersion())", generation)
            self.assertEqual(int(output), version)


class Files(Case):
    @staticmethod
    def readelf(option, path):
        return subprocess.run(["readelf", "-W", option, path], capture_output=True, text=True, check=True).stdout

    def test_soname_and_version_node(self):
        for generation, cuda in VERSION.items():
            path = FAKES / generation / f"libcudart.so.{cuda}"
            self.assertIn(f"soname: [libcudart.so.{cuda}]", self.readelf("-d", path))
            self.assertIn(f"cudaMalloc@@libcudart.so.{cuda}", self.readelf("--dyn-syms", path))
        for name in ("libnccl.so.2", "libcuda.so.1"):
            names = self.readelf("--dyn-syms", FAKES / "cuda13" / name)
            self.assertIsNone(re.search(r" UNIQUE .*@@|(nccl|cu)\w+@@", names), name)

    def test_cublas_needs_cublaslt(self):
        self.assertIn("NEEDED", self.readelf("-d", FAKES / "cuda13" / "libcublas.so.13"))
        self.assertIn("libcublasLt.so.13", self.readelf("-d", FAKES / "cuda13" / "libcublas.so.13"))

    def test_no_fake_brings_libstdcxx(self):
        for path in sorted(FAKES.glob("cuda13/*.so*")):
            self.assertNotIn("libstdc++", self.readelf("-d", path), path.name)


if __name__ == "__main__":
    unittest.main()
