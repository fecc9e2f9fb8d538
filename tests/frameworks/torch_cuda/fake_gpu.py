"""Runs PyTorch's CUDA wheel on the fake libraries, with and without dlhook, and pairs both records of each call."""

import collections
import glob
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
for folder in ("tests/preload_e2e", "tests/fakes", "scripts"):
    sys.path.insert(0, os.path.join(ROOT, folder))
import api_tables  # pylint: disable=wrong-import-position
import e2e  # pylint: disable=wrong-import-position
import fake_log  # pylint: disable=wrong-import-position
import fake_site  # pylint: disable=wrong-import-position

PYTHON = os.environ.get("DLHOOK_TEST_CUDA_PYTHON", "")
FAKES = os.environ.get("DLHOOK_TEST_FAKES", "")
MISSING = "no virtual environment with PyTorch's CUDA wheel: run scripts/setup.sh --frameworks"
PROGRAMS = os.path.join(HERE, "programs")

# Start-up registration: 24 000 lines that no test reads.
NOT_LOGGED = (
    "__cudaRegisterFunction",
    "__cudaRegisterVar",
    "__cudaRegisterFatBinary",
    "__cudaRegisterFatBinaryEnd",
    "__cudaUnregisterFatBinary",
)

# Calls made by dlhook itself, to understand the calls it records; none of them is in a family captured by default.
OWN_CALLS = {
    *fake_log.DEVICE_QUESTIONS,
    "cublasLtMatmulAlgoConfigGetAttribute",
    "cublasLtMatmulDescGetAttribute",
    "cublasLtMatrixLayoutGetAttribute",
    "cudaPointerGetAttributes",
    "cudaRuntimeGetVersion",
    "cudaStreamIsCapturing",
    "cudnnGetRNNDataDescriptor",
    "cudnnGetRNNDescriptor_v8",
    "cudnnGetConvolutionGroupCount",
    "cudnnGetConvolutionMathType",
    "cudnnGetConvolutionNdDescriptor",
    "cudnnGetFilterNdDescriptor",
    "cudnnGetTensorNdDescriptor",
    "cudnnBackendCreateDescriptor",
    "cudnnBackendDestroyDescriptor",
    "cudnnBackendGetAttribute",
}


def captured_functions():
    """{function: family} of the hooks that are recorded by default."""
    api = api_tables.TableReader().read(sorted(glob.glob(os.path.join(ROOT, "preload/api/*.api"))))
    return {hook.symbol: hook.family for hook in api.hooks.values() if api.families[hook.family]}


def program(name, *arguments):
    return [PYTHON, "-B", os.path.join(PROGRAMS, name + ".py"), *map(str, arguments)]


class Run(e2e.Run):
    trace_type = e2e.TraceWithOperands


# A call as recorded by both sides.
Pair = collections.namedtuple("Pair", "fake recorded status addresses")


def by_thread(calls, thread, order):
    """Lists of calls, one per thread, in the order of the threads' first calls."""
    threads = {}
    for call in sorted(calls, key=order):
        threads.setdefault(thread(call), []).append(call)
    return list(threads.values())


def parents(calls):
    """The index of the enclosing call of each of a thread's fake calls, None outside."""
    stack, result = [], []
    for index, call in enumerate(calls):
        while stack and calls[stack[-1]].depth >= call.depth:
            stack.pop()
        result.append(stack[-1] if stack else None)
        stack.append(index)
    return result


class Case(e2e.Case):
    captured = {}

    @classmethod
    def setUpClass(cls):
        if not os.access(PYTHON, os.X_OK):
            return
        fake_site.lay(os.path.dirname(os.path.dirname(PYTHON)), FAKES)
        Case.captured = Case.captured or captured_functions()

    def setUp(self):
        if not os.access(PYTHON, os.X_OK):
            self.skipTest(MISSING)
        super().setUp()

    def scenario(self, **settings):
        """Environment of the fakes (README.md there): FAIL=… is DLHOOK_FAKE_FAIL; TORCH_… and DLHOOK_… are passed as they are."""
        names = {key if key.startswith(("TORCH_", "DLHOOK_")) else f"DLHOOK_FAKE_{key}": value for key, value in settings.items()}
        skipped = ",".join(NOT_LOGGED)
        return {"DLHOOK_FAKE_LOG": os.path.join(self.folder, "log.%p"), "DLHOOK_FAKE_LOG_SKIP": skipped, **names}

    def logs(self):
        """The fakes' logs written since the last call, {pid: calls}."""
        result = {}
        for path in glob.glob(os.path.join(self.folder, "log.*")):
            calls = fake_log.read(path)
            os.unlink(path)
            if calls:
                result[int(path.rsplit(".", 1)[1])] = calls
        return result

    def plain(self, argv, **settings):
        """Without dlhook: the output and the log of the only process that made calls."""
        result = e2e.run(argv, env=e2e.clean_environment(**self.scenario(**settings)), cwd=self.folder)
        self.assertEqual(result.code, 0, result.err.decode()[-3000:])
        (log,) = self.logs().values()
        return result, log

    def recorded_run(self, argv, host="launcher", code=0, **settings):
        """Under dlhook: [(the fakes' log, dlhook's trace)] of each process that made calls."""
        self.fresh_run()
        result = self.under(host, argv, **self.scenario(**settings))
        self.assertEqual(e2e.shell_code(result.code), code, result.err.decode()[-3000:])
        logs = self.logs()
        traces = {trace.pid: trace for trace in Run(self.run_path).traces()}
        self.assertEqual(set(traces), set(logs))
        return [(logs[pid], traces[pid]) for pid in sorted(logs)]

    def pairs(self, log, trace):
        """Every captured call on both sides, or a failure that shows where they diverge."""
        expected = [call for call in log if call.function in self.captured]
        ours = by_thread(trace.calls, lambda call: call.thread_id, lambda call: (call.thread_id, call.sequence))
        theirs = by_thread(expected, lambda call: call.thread, lambda call: call.sequence)
        result = []
        for our_thread, their_thread in zip(ours, theirs):
            self.assertEqual(
                [e2e.one(call.op, "function") for call in our_thread], [call.function for call in their_thread]
            )
            self.check_nesting(our_thread, their_thread)
            for recorded, fake in zip(our_thread, their_thread, strict=True):
                key = recorded[:2]
                result.append(Pair(fake, recorded, trace.status_of.get(key, 0), trace.addresses_of[key]))
        self.assertEqual(len(ours), len(theirs))
        self.assertEqual(trace.losses, [])
        return result

    def check_nesting(self, our_thread, their_thread):
        index_of = {call.sequence: index for index, call in enumerate(our_thread)}
        ours = [index_of[call.parent] if call.parent else None for call in our_thread]
        self.assertEqual(ours, parents(their_thread))

    def recorded_pairs(self, argv, **settings):
        ((log, trace),) = self.recorded_run(argv, **settings)
        return self.pairs(log, trace)
