"""Functions that no other test's framework calls: each line of the tables named here is called once, with arguments
generated from its parameters. Recorded under its name and family, with its decoder's results; every argument arrives
unchanged."""

import os
import re
import sys

import cuda_e2e
import e2e

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import api_tables  # pylint: disable=wrong-import-position

LIBRARIES = {"curand": "libcurand.so.10", "cufile": "libcufile.so.0", "cutensor": "libcutensor.so.2",
             "cudss": "libcudss.so.1", "nvshmem": "libnvshmem_host.so.3",
             "nccl": "libnccl.so.2", "cusparse": "libcusparse.so.12", "cudnn": "libcudnn.so.9", "cuda": "libcuda.so.1",
             "cudart": "libcudart.so.13"}  # fmt: skip
NAMES = {
    "curand": r".*", "cufile": r".*", "cutensor": r".*", "cudss": r".*", "nvshmem": r".*",
    "nccl": r"nccl(AllReduce|Broadcast|Reduce|AllGather|ReduceScatter|AlltoAll|Gather|Scatter)Config",
    "cusparse": r"cusparse[SDCZ](csr|bsr)(ic|ilu)02(_analysis)?",
    "cudnn": r"cudnn((Long)?FFTCausalConv1d|GnnAggSimple)(For|Back)ward",
    "cuda": r"cu(Memcpy(3D)?WithAttributesAsync|FabricCpyBatchAsync|(Green)?Ctx(Record|Wait)Event|LaunchHostFunc_v2|GraphAddNode_v3|"
            r"GraphAddBatchMemOpNode)(_ptsz)?",
    "cudart": r"cuda(Memcpy(3D)?WithAttributesAsync|ExecutionCtx(Synchronize|RecordEvent|WaitEvent))(_ptsz)?",
}  # fmt: skip
KINDS = {"Broadcast": "BROADCAST", "AllReduce": "ALL_REDUCE", "Reduce": "REDUCE", "AllGather": "ALL_GATHER",
         "ReduceScatter": "REDUCE_SCATTER", "AlltoAll": "ALL_TO_ALL", "Gather": "GATHER", "Scatter": "SCATTER",
         "putmem": "SEND", "getmem": "RECEIVE", "alltoallmem": "ALL_TO_ALL", "broadcastmem": "BROADCAST",
         "fcollectmem": "ALL_GATHER"}  # fmt: skip


def wanted():
    api = api_tables.TableReader().read([os.path.join(ROOT, "preload", "api", name)
                                         for name in sorted(os.listdir(os.path.join(ROOT, "preload", "api")))
                                         if name.endswith(".api")])  # fmt: skip
    return [hook for hook in api.hooks.values() if hook.library in NAMES and re.fullmatch(NAMES[hook.library], hook.symbol)]


def value_of(kind, name, index):
    """The argument for a parameter. Addresses are so far apart that copies of the fakes do not overlap."""
    if name in ("stream", "comm", "host_function", "datatype", "graph"):
        return "0" if name != "comm" else "@60000"
    if kind.startswith(("ptr", "address")) or kind.endswith("*"):
        return f"@{index * 4096}"
    return {"float": f"0.{index}5f", "double": f"0.{index}25"}.get(kind, str(index + 3))


def collective_of(symbol):
    return next((kind for name, kind in KINDS.items() if re.match(rf"nccl{name}Config|nvshmemx_{name}_", symbol)), None)


class ByName(cuda_e2e.Case):
    def setUp(self):
        super().setUp()
        self.hooks = [hook for hook in wanted() if "Recapture" not in hook.symbol]
        self.asked = "".join(
            " ".join([LIBRARIES[hook.library], hook.symbol, hook.returns,
                      *(value_of(kind, name, index) for index, (kind, name) in enumerate(hook.parameters))]) + "\n"
            for hook in self.hooks).encode()  # fmt: skip

    def run_on(self, under_dlhook):
        self.fresh_run()
        environment = self.environment("writer", DLHOOK_GPU="off") if under_dlhook else None
        argv = [e2e.victim("by_name")]
        if not under_dlhook:
            environment = e2e.clean_environment(LD_LIBRARY_PATH=os.path.join(cuda_e2e.FAKES, "cuda13"),
                                                DLHOOK_FAKE_LOG=self.log_path)
        result = e2e.run(argv, env=environment, cwd=self.folder, stdin=self.asked)
        self.assertEqual(result.code, 0, result.err)
        names = {hook.symbol for hook in self.hooks}
        return result.out, [call for call in self.log() if call.function in names]

    def test_all(self):
        self.assertGreater(len(self.hooks), 100)
        plain, expected = self.run_on(under_dlhook=False)
        out, logged = self.run_on(under_dlhook=True)
        self.assertEqual(out, plain)
        self.assertEqual([call.function for call in logged], [hook.symbol for hook in self.hooks])
        self.assertEqual(*([self.stable(call) for call in calls] for calls in (logged, expected)))
        trace = cuda_e2e.Run(self.run_path).trace()
        calls = cuda_e2e.in_order(trace.top_calls())
        self.assertEqual([call.function for call in calls], [hook.symbol for hook in self.hooks])
        self.assertEqual([call.family for call in calls], [hook.family for hook in self.hooks])
        for call, hook in zip(calls, self.hooks, strict=True):
            with self.subTest(call.function):
                self.check_facts(call, hook)
        self.assert_no_loss(trace)

    def stable(self, call):
        """Without the program's own addresses."""
        arguments = {name: re.sub(r"0x[0-9a-f]{9,}", "address", str(value)) for name, value in call.arguments.items()}
        return call.function, call.status, arguments

    def check_facts(self, call, hook):
        given = {name: value_of(kind, name, index) for index, (kind, name) in enumerate(hook.parameters)}
        kind = collective_of(hook.symbol)
        if kind is not None:
            self.assertEqual(call.facts["collective.kind"], kind)
            count = given.get("count", given.get("bytes"))
            self.assertEqual((call.facts["collective.count"], call.facts["collective.bytes"]), (count, count))
            peer = given.get("peer", given.get("root"))
            if peer is not None:
                self.assertEqual(call.facts["collective.peer"], peer)
        direction = {"cuFileRead": "FILE_TO_DEVICE", "cuFileWrite": "DEVICE_TO_FILE"}.get(hook.symbol)
        if direction is not None:
            self.assertEqual((call.facts["copy.direction"], call.facts["copy.bytes"]), (direction, given["bytes"]))
        if re.match(r"cu(da)?MemcpyWithAttributesAsync", hook.symbol):
            self.assertEqual((call.facts["copy.bytes"], call.facts["copy.asynchronous"]), (given["bytes"], "true"))
        if re.match(r"cu(da)?Memcpy3DWith", hook.symbol):
            self.assertEqual(call.facts["copy.asynchronous"], "true")


if __name__ == "__main__":
    cuda_e2e.main()
