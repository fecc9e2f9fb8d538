"""The fake CUPTI does what README.md says: a small client (cupti_client.py); the fakes' log knows every activity."""

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fake_log  # pylint: disable=wrong-import-position
import test_fakes  # pylint: disable=wrong-import-position

WORK = """
from cupti_client import *
c = Library(f"libcudart.so.{VERSION}")
device, stream = pointer(c.cudaMalloc, c_size_t(4096)), pointer(c.cudaStreamCreate)
stub, host = b"stub", ctypes.create_string_buffer(4096)
c.__cudaRegisterFunction(None, stub, None, b"_Z5scalePfi", -1, None, None, None, None, None)
class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint32), ("y", ctypes.c_uint32), ("z", ctypes.c_uint32)]
    def __init__(self, x=1, y=1, z=1):
        super().__init__(x, y, z)
def launch(stream=None, blocks=4):
    ok(c.cudaLaunchKernel(stub, Dim3(blocks), Dim3(256), None, c_size_t(64), stream))
def copy(stream=None, to=device, source=host, size=1000):
    ok(c.cudaMemcpyAsync(to, source, c_size_t(size), 4, stream))
def fill(stream=None):
    ok(c.cudaMemsetAsync(device, 7, c_size_t(2048), stream))
def shown(records):
    for r in records:
        print(r.kind, r.device, r.stream, r.start, r.end, r.correlation, getattr(r, "node", 0), getattr(r, "graph", 0),
              getattr(r, "bytes", 0), getattr(r, "name", "-"))
"""
KINDS = {"K": 10, "C": 1, "S": 2}


def of_log(calls):
    """The output of shown() for the log's activities."""
    lines = []
    for a in fake_log.activities(calls):
        bytes_and_name = (0, a.name) if a.kind == "K" else (a.bytes, "-")
        lines.append(" ".join(map(str, (KINDS[a.kind], a.device, a.stream, a.start_ns, a.end_ns, a.correlation,
                                        a.node, a.graph, *bytes_and_name))))
    return lines


class Case(test_fakes.Case):
    def work(self, code, generation="cuda13", **settings):
        """(log, lines of output, activities of the log)"""
        here = os.path.dirname(os.path.abspath(__file__))
        version = test_fakes.VERSION[generation]
        head = f"import sys; sys.path.insert(0, {here!r}); VERSION = {version!r}\n"
        calls, output = self.succeed(head + WORK + textwrap.dedent(code), generation, **settings)
        return calls, output.splitlines(), fake_log.activities(calls)


class Records(Case):
    def test_equal_the_log_in_every_generation(self):
        for generation in test_fakes.VERSION:
            with self.subTest(generation):
                calls, lines, activities = self.work("""
                    cupti = Cupti(FOLDER, VERSION, (KERNEL, MEMCPY, MEMSET))
                    for s in (None, stream, None):
                        launch(s); copy(s); fill(s)
                    ok(c.cudaMemcpy(host, device, c_size_t(64), 2))
                    shown(cupti.flush())
                """, generation)
                self.assertEqual(len(lines), 10)
                self.assertEqual(lines, of_log(calls))
                self.assertEqual([a.name for a in activities[-1:]], ["D>H"])
                self.assertEqual({a.end_ns - a.start_ns for a in activities if a.kind == "K"}, {2000 + 4 * 256 // 1000})

    def test_a_stream_s_work_follows_on_the_other_s_overlaps(self):
        _, _, activities = self.work("""
            launch(stream); launch(stream); launch(None); copy(None)
            event = pointer(c.cudaEventCreate)
            ok(c.cudaEventRecord(event, stream)); ok(c.cudaStreamWaitEvent(None, event, 0)); launch(None)
        """, SLOW="10000000")  # a kernel takes 20 s: longer than all of these calls
        first, second, other, copied, waited = activities
        self.assertEqual(first.start_ns, first.requested_ns + 2000)
        self.assertEqual(second.start_ns, first.end_ns)
        self.assertLess(other.start_ns, first.end_ns)
        self.assertEqual(copied.start_ns, other.end_ns)
        self.assertEqual(waited.start_ns, max(second.end_ns, copied.end_ns))
        self.assertEqual({a.end_ns - a.start_ns for a in (first, second, other)}, {(2000 + 4 * 256 // 1000) * 10000000})

    def test_devices(self):
        calls, lines, activities = self.work("""
            cupti = Cupti(FOLDER, VERSION, (KERNEL, MEMCPY, MEMCPY2, DEVICE))
            launch()
            ok(c.cudaSetDevice(1))
            other = pointer(c.cudaMalloc, c_size_t(4096))
            launch(); copy(None, other, device)
            cupti.flush()
            print(*((r.id, r.name, r.multiprocessors, r.bandwidth, r.clock, r.uuid[-1]) for r in cupti.of(DEVICE)))
            peers = [(r.from_device, r.to_device, r.bytes, r.start, r.end) for r in cupti.of(MEMCPY2)]
            print(*peers, len(cupti.of(MEMCPY)))
        """, DEVICES="2")
        self.assertEqual([a.device for a in activities], [0, 1, 1])
        self.assertEqual(len({a.stream for a in activities}), 2)  # each device has its own default stream
        expected = [(i, f"dlhook fake GPU {i}", 132, 3352320000, 1980000, i) for i in (0, 1)]
        self.assertEqual(lines[0], " ".join(map(str, expected)))
        peer = fake_log.activities(calls)[-1]
        self.assertEqual(lines[1], f"{(0, 1, 1000, peer.start_ns, peer.end_ns)} 0")

    def test_queued_and_synchronized(self):
        _, lines, activities = self.work("""
            cupti = Cupti(FOLDER, VERSION, (KERNEL, SYNCHRONIZATION, OVERHEAD))
            ok(cupti.ActivityEnableLatencyTimestamps(1))
            launch(stream); ok(c.cudaStreamSynchronize(stream)); ok(c.cudaDeviceSynchronize())
            cupti.flush(); cupti.flush()
            (kernel,) = cupti.of(KERNEL)
            print(kernel.queued, kernel.submitted, [r.type for r in cupti.of(SYNCHRONIZATION)], len(cupti.of(OVERHEAD)))
        """)
        asked = activities[0].requested_ns
        self.assertEqual(lines, [f"{asked} {asked + 500} [3, 4] 1"])


class Callbacks(Case):
    def test_outer_and_inner_call_share_a_correlation_id(self):
        _, lines, activities = self.work("""
            cupti = Cupti(FOLDER, VERSION)
            cupti.subscribe((RUNTIME, 211), (DRIVER, 307))
            launch()
            for callback in cupti.callbacks: print(callback)
            ok(cupti.EnableCallback(0, cupti.subscriber, RUNTIME, 211)); launch()
            ok(cupti.Unsubscribe(cupti.subscriber)); launch()
            print(len(cupti.callbacks))
        """)
        ids = [a.correlation for a in activities]
        self.assertEqual(len(set(ids)), 3)
        outer, inner = (2, 211), (1, 307)
        runtime, driver = ("cudaLaunchKernel", ids[0], None), ("cuLaunchKernel", ids[0], "_Z5scalePfi")
        expected = [(*outer, "enter", *runtime), (*inner, "enter", *driver),
                    (*inner, "exit", *driver), (*outer, "exit", *runtime)]
        self.assertEqual(lines, [*map(str, expected), "6"])

    def test_products_and_convolutions_launch(self):
        code = """
            cupti = Cupti(FOLDER, VERSION, (KERNEL,))
            cupti.subscribe((DRIVER, 307))
            blas = Library("libcublas.so.13")
            handle = pointer(blas.cublasCreate_v2)
            ok(blas.cublasSgemm_v2(handle, 0, 0, 200, 30, 40, None, None, 2, None, 4, None, None, 2))
            print(*(callback[2:5] for callback in cupti.callbacks))
            shown(cupti.flush())
        """
        for nested in ("0", "1"):
            with self.subTest(nested=nested):
                calls, lines, activities = self.work(code, NESTED=nested)
                (product,) = activities
                self.assertEqual(product.end_ns - product.start_ns, 3000 + 2 * 200 * 30 * 40 // 20000)
                self.assertIn("gemm", product.name)
                sites = " ".join(str((site, "cuLaunchKernel", product.correlation)) for site in ("enter", "exit"))
                self.assertEqual(lines, [sites, *of_log(calls)])

    def test_names_and_results(self):
        _, lines, _ = self.work("""
            cupti, name = Cupti(FOLDER, VERSION), c_char_p()
            for domain, cbid in ((RUNTIME, 211), (DRIVER, 277), (RUNTIME, 505), (RUNTIME, 1000)):
                print(cupti.GetCallbackName(domain, cbid, byref(name)), name.value.decode())
        """)
        self.assertEqual(lines, ["0 cudaLaunchKernel_v7000", "0 cuMemcpyHtoDAsync_v2", "0 __cudaLaunchKernel_v13000",
                                 "1 __cudaLaunchKernel_v13000"])

    def test_parameters(self):
        _, lines, _ = self.work("""
            cupti = Cupti(FOLDER, VERSION)
            cupti.subscribe((RUNTIME, 41))
            copy(stream)
            to, source, size, kind, _, on = struct.unpack("<3Q2iQ", cupti.parameters[0])
            print(to == device.value, source == ctypes.addressof(host), size, kind, on == stream.value)
        """)
        self.assertEqual(lines, ["True True 1000 4 True"])

    def test_external_ids_precede_the_call(self):
        _, lines, activities = self.work("""
            cupti = Cupti(FOLDER, VERSION, (EXTERNAL,))
            ok(cupti.ActivityEnableRuntimeApi(211, 1))
            for kind, number in ((5, 77), (3, 1), (3, 2)):
                ok(cupti.ActivityPushExternalCorrelationId(kind, ctypes.c_uint64(number)))
            launch(); copy()
            number = ctypes.c_uint64()
            ok(cupti.ActivityPopExternalCorrelationId(3, byref(number)))
            print(number.value, [cupti.ActivityPopExternalCorrelationId(3, None) for _ in range(2)])
            for r in cupti.flush(): print(r.kind, r.correlation, getattr(r, "external", ""), getattr(r, "cbid", ""))
        """)
        first = activities[0].correlation
        self.assertEqual([line.rstrip() for line in lines],
                         ["2 [0, 18]", f"39 {first} 2", f"39 {first} 77", f"5 {first}  211"])


class Graphs(Case):
    CODE = """
        cupti = Cupti(FOLDER, VERSION, KINDS)
        cupti.subscribe((RESOURCE, 13), (RESOURCE, 20))
        ok(c.cudaStreamBeginCapture(stream, 0)); launch(stream); copy(stream); fill(stream)
        graph = pointer(lambda out: c.cudaStreamEndCapture(stream, out))
        dnn = Library("libcudnn.so.9")
        plan = c_void_p()
        ok(dnn.cudnnBackendCreateDescriptor(4, byref(plan)))
        ok(dnn.cudnnBackendPopulateCudaGraph(pointer(dnn.cudnnCreate), plan, None, graph))
        executable = pointer(c.cudaGraphInstantiateWithFlags, graph, c_size_t(0))
        for _ in range(2): ok(c.cudaGraphLaunch(executable, stream))
        made = [callback[3] for callback in cupti.callbacks if callback[1] == 13]
        cloned = {callback[3]: callback[2] for callback in cupti.callbacks if callback[1] == 20}
        print(len(made), [made.index(cloned[node]) for node in sorted(cloned)])
        cupti.flush()
        print(sorted(cloned) == sorted({r.node for r in cupti.of(KERNEL, MEMCPY, MEMSET)}))
        shown(cupti.of(KERNEL, MEMCPY, MEMSET))
        print(*((r.start, r.end, r.correlation) for r in cupti.of(GRAPH)))
    """

    def test_nodes(self):
        calls, lines, activities = self.work(self.CODE.replace("KINDS", "(KERNEL, MEMCPY, MEMSET)"))
        self.assertEqual(lines[:2], ["4 [0, 1, 2, 3]", "True"])
        self.assertEqual(lines[2:-1], of_log(calls))
        self.assertEqual(len(activities), 8)
        launches = [call for call in calls if call.function == "cudaGraphLaunch"]
        self.assertEqual([len({a.correlation for a in call.gpu}) for call in launches], [1, 1])
        self.assertEqual(len({a.correlation for a in activities}), 2)
        self.assertNotIn(0, {a.node for a in activities})

    def test_as_a_whole(self):
        calls, lines, _ = self.work(self.CODE.replace("KINDS", "(KERNEL, MEMCPY, MEMSET, GRAPH)"))
        whole = [a for call in calls for a in call.gpu if a.kind == "G"]
        self.assertEqual(lines[2:], [" ".join(str((a.start_ns, a.end_ns, a.correlation)) for a in whole)])
        for call in calls:
            if call.function == "cudaGraphLaunch":
                *nodes, graph = call.gpu
                self.assertEqual(graph.end_ns, nodes[-1].end_ns)
                self.assertEqual((graph.kind, graph.graph), ("G", nodes[0].graph))


class Buffers(Case):
    def test_drops_are_counted(self):
        _, lines, _ = self.work("""
            cupti = Cupti(FOLDER, VERSION, (KERNEL,), buffer_bytes=216 * 3, buffers=2)
            for _ in range(10): launch()
            cupti.flush()
            dropped = c_size_t()
            for _ in range(2):
                ok(cupti.ActivityGetNumDroppedRecords(None, 0, byref(dropped)))
                print(len(cupti.records), cupti.completed, dropped.value)
        """)
        self.assertEqual(lines, ["6 [3, 3] 4", "6 [3, 3] 0"])

    def test_scenarios(self):
        code = """
            cupti = Cupti(FOLDER, VERSION, (KERNEL,), buffer_bytes=216 * 3 + 50)
            for _ in range(5): launch()
            print(*((r.kind, r.correlation, r.start != 0) if r.kind == KERNEL else r.kind for r in cupti.flush()))
        """

        def expected(*items):
            return [" ".join(map(str, items))]

        _, lines, activities = self.work(code, CUPTI_UNKNOWN="1", CUPTI_ZERO="3")
        ids = [a.correlation for a in activities]
        kernels = [(10, number, i != 2) for i, number in enumerate(ids)]
        self.assertEqual(lines, expected(77, *kernels[:3], 77, *kernels[3:]))
        _, lines, _ = self.work(code, CUPTI_REVERSED="1")
        self.assertEqual(lines, expected(*((10, number, True) for number in reversed(ids))))

    def test_per_thread(self):
        _, lines, _ = self.work("""
            import threading
            for value in (1, 0):
                cupti = Cupti(FOLDER, VERSION)
                ok(cupti.ActivitySetAttribute(9, byref(c_size_t(1)), byref(ctypes.c_uint8(value))))
                cupti = Cupti(FOLDER, VERSION, (KERNEL,))
                launch()
                thread = threading.Thread(target=launch); thread.start(); thread.join()
                cupti.flush()
                print(cupti.completed)
        """)
        self.assertEqual(lines, ["[1, 1]", "[2]"])

    def test_flush_leaves_what_is_not_over(self):
        _, lines, activities = self.work("""
            import time
            cupti = Cupti(FOLDER, VERSION, (KERNEL,))
            event = pointer(c.cudaEventCreate)
            launch(stream); ok(c.cudaEventRecord(event, stream))
            print(len(cupti.flush()), c.cudaEventQuery(event), c.cudaStreamQuery(stream))
            ok(c.cudaStreamSynchronize(stream))
            now = time.time_ns()
            print(len(cupti.flush()), c.cudaEventQuery(event), cupti.records[0].end <= now)
            launch(stream); launch(stream)
            cupti.flush(1)
            print([(r.start > 0, r.end) for r in cupti.records[1:]])
        """, WAITS="1", SLOW="400000")  # a kernel takes 0.8 s
        self.assertEqual(len(activities), 3)
        self.assertEqual(lines[:2], ["0 600 600", "1 0 True"])
        self.assertEqual(lines[2], "[(True, 0), (False, 0)]")


class Clients(Case):
    def test_one_subscriber(self):
        code = """
            class Parameters(ctypes.Structure):
                _fields_ = [("size", c_size_t), ("name", c_char_p), ("old", c_void_p), ("old_bytes", c_size_t)]
            cupti, old = Cupti(FOLDER, VERSION), ctypes.create_string_buffer(64)
            parameters = Parameters(32, b"first", ctypes.addressof(old), 64)
            arguments = byref(c_void_p()), cupti.kept[2], None, byref(parameters)
            print([cupti.Subscribe_v2(*arguments) for _ in range(2)], old.value)
        """
        self.assertEqual(self.work(code)[1], ["[0, 39] b'first'"])
        self.assertEqual(self.work(code, CUPTI_SUBSCRIBER="nsys")[1], ["[39, 39] b'nsys'"])

    def test_no_driver_no_permission_a_child(self):
        code = """
            number = ctypes.c_uint32()
            cupti = Cupti(FOLDER, VERSION)
            status = cupti.GetVersion(byref(number))
            print(status, number.value, cupti.ActivityEnable(KERNEL), cupti.ActivityEnable(MEMCPY))
        """
        self.assertEqual(self.work(code, FAIL="cuptiActivityEnable:1:35")[1], ["0 130001 35 0"])
        in_child = textwrap.indent(textwrap.dedent(code), " ")
        child = f"child = os.fork()\nif child == 0:{in_child} sys.stdout.flush(); os._exit(0)\nos.wait()"
        self.assertEqual(self.work("Cupti(FOLDER, VERSION, (KERNEL,)); launch()\n" + child)[1], ["0 130001 999 999"])
        for generation, answers in (("cuda13", "0 130001 999"), ("cuda12", "0 26 15")):
            _, _, output = self.client(f"""
                cupti, number = Library("libcupti.so.{test_fakes.VERSION[generation]}"), c_int(9)
                print(cupti.cuptiGetVersion(byref(number)), number.value, cupti.cuptiActivityEnable(10))
            """, generation, DEVICES="0")
            self.assertEqual(output, answers + "\n")

    def test_what_older_ones_lack(self):
        names = ("cuptiSubscribe_v2", "cuptiActivityEnableRuntimeApi", "cuptiGetGraphNodeId")
        for generation, lacking in (("cuda13", 0), ("cuda12", 1), ("cuda10", 3)):
            _, _, output = self.client(f"""
                cupti = Library("libcupti.so.{test_fakes.VERSION[generation]}")
                print([hasattr(cupti, name) for name in {names}].count(False))
            """, generation)
            self.assertEqual(output, f"{lacking}\n", generation)


class Clocks(Case):
    def test_jump(self):
        _, lines, activities = self.work("""
            import time
            cupti, number = Cupti(FOLDER, VERSION, (KERNEL,)), ctypes.c_uint64()
            for _ in range(4): launch()
            ok(cupti.GetTimestamp(byref(number)))
            print(number.value - time.time_ns() > 9 * 10**11)
            print(*(r.start for r in cupti.flush()))
        """, CUPTI_JUMP="2:1000000000000")
        starts = [a.start_ns for a in activities]
        self.assertEqual(lines, ["True", " ".join(map(str, starts))])
        self.assertEqual([start // 10**12 - starts[0] // 10**12 for start in starts][-2:], [1, 1])

    def test_the_client_s_clock(self):
        _, lines, activities = self.work("""
            import time
            cupti, clock = Cupti(FOLDER, VERSION), ctypes.CFUNCTYPE(ctypes.c_uint64)(lambda: time.time_ns() * 3)
            ok(cupti.ActivityRegisterTimestampCallback(clock))
            cupti = Cupti(FOLDER, VERSION, (KERNEL,))
            launch(None, 4000)
            for r in cupti.flush(): print(r.start, r.end)
        """, SLOW="1000")
        (kernel,) = activities
        start, end = map(int, lines[0].split())
        duration = kernel.end_ns - kernel.start_ns
        self.assertLess(abs((end - start) - 3 * duration), duration / 5)
        self.assertLess(abs(start - 3 * kernel.start_ns), 10**8)


class Injection(Case):
    def test_a_tool_is_told_once(self):
        """The tool makes a call that is in the log."""
        source = "int cuCtxSynchronize(void); int InitializeInjection(void) { return cuCtxSynchronize(); }"
        with tempfile.TemporaryDirectory() as folder:
            tool = os.path.join(folder, "libtool.so")
            compiler = shutil.which("cc") or shutil.which("gcc")
            if compiler is None:
                print("SKIPPED: test_a_tool_is_told_once: found no C compiler")
                return
            command = [compiler, "-shared", "-fPIC", "-o", tool, "-x", "c", "-"]
            subprocess.run(command, input=source, text=True, check=True)
            os.environ["CUDA_INJECTION64_PATH"] = tool
            try:
                calls, _ = self.succeed("""
                    ctypes.CDLL(os.path.join(FOLDER, "libcuda.so.1"), ctypes.RTLD_GLOBAL)
                    c, cuda = Library("libcudart.so.13"), Library("libcuda.so.1")
                    c.cudaFree(None); cuda.cuInit(0)
                """)
            finally:
                del os.environ["CUDA_INJECTION64_PATH"]
        self.assertEqual([call.function for call in calls], ["cudaFree", "cuCtxSynchronize", "cuInit"])


if __name__ == "__main__":
    unittest.main()
