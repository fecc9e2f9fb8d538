"""dlhook loaded by the CUDA driver (CUDA_INJECTION64_PATH) instead of by a preload: CUPTI reports the calls."""

import os

import cuda_e2e
import e2e
import gpu_trace

KINDS = {"K": "KERNEL", "C": "COPY", "S": "SET"}
# Start-up code, and dlhook's own queries.
NOT_CALLS = {"__cudaRegisterFatBinary", "__cudaRegisterFunction", "__cudaRegisterFatBinaryEnd", "cudaRuntimeGetVersion",
             "cudaPointerGetAttributes"}


class Injection(cuda_e2e.Case):
    def injected(self, *steps, preloaded=False, **extra):
        """Steps of victims/cupti_client.c, which has no hook bound: it looks up all functions of CUPTI."""
        argv = [e2e.victim("cupti_client"), "looked_up", *steps]
        plain = self.plain(argv, **extra)
        env = self.environment("writer", DLHOOK_OUT=self.run_path, CUDA_INJECTION64_PATH=e2e.SHIM, **extra)
        if not preloaded:
            del env["LD_PRELOAD"]
        result = e2e.run(argv, env=env, cwd=self.folder)
        self.assert_same_behaviour(plain, result, "writer")

    def trace(self):
        (trace,) = gpu_trace.GpuRun(self.run_path).traces()
        return trace

    def check(self, trace):
        """Every call of the runtime once, in order, and its GPU work."""
        functions = [e2e.one(call.op, "function") for call in sorted(trace.calls, key=lambda call: call[:2])]
        logged = [call for call in self.log() if call.library == "cudart" and call.function not in NOT_CALLS]
        logged.sort(key=lambda call: (call.thread, call.sequence))
        self.assertEqual(functions, [call.function for call in logged])
        ran = sorted((activity.start_ns, activity.end_ns, KINDS[activity.kind], call.function)
                     for call in logged for activity in call.gpu)
        function_of = {call[:2]: e2e.one(call.op, "function") for call in trace.calls}
        self.assertEqual(sorted((activity.start_ns, activity.end_ns, activity.kind, function_of.get(activity.call))
                                for activity in trace.activities if activity.kind != "OVERHEAD"), ran)
        self.assert_no_loss(trace)

    def test_calls_and_activities(self):
        self.injected("work:3", "thread:work:1")
        trace = self.trace()
        self.check(trace)
        states = [e2e.one(item, "state") for item in trace.capabilities if e2e.one(item, "name") == "injection"]
        self.assertEqual(states, ["ON"])
        calls = sorted(trace.calls, key=lambda call: call[:2])
        copies = [e2e.one(e2e.one(call.op, "copy"), "bytes") for call in calls if "copy" in call.op]
        self.assertEqual(copies, [1001, 5001, 1002, 5002, 1003, 5003, 1004, 5004])

    def test_a_call_that_fails(self):
        self.injected("work:1", DLHOOK_FAKE_FAIL="cudaMemsetAsync:1:700")
        trace = self.trace()
        status = {e2e.one(call.op, "function"): trace.status_of.get(call[:2], 0) for call in trace.calls}
        self.assertEqual(status["cudaMemsetAsync"], 700)
        self.assertEqual(status["cudaLaunchKernel"], 0)

    def test_preloaded_as_well(self):
        """The hooks record the calls, once."""
        self.injected("work:2", preloaded=True)
        trace = self.trace()
        self.check(trace)
        self.assertEqual([item for item in trace.capabilities if e2e.one(item, "name") == "injection"], [])

    def test_switched_off(self):
        self.injected("work:1", DLHOOK_GPU="off")
        self.assertFalse(os.path.exists(self.run_path))

    def test_another_tool_has_cupti(self):
        self.injected("work:1", DLHOOK_FAKE_CUPTI_SUBSCRIBER="Nsight Systems")
        trace = self.trace()
        self.assertEqual(trace.calls, [])
        reasons = {e2e.one(item, "name"): e2e.one(item, "reason", "") for item in trace.capabilities}
        self.assertIn("Nsight Systems", reasons["gpu-time"])


if __name__ == "__main__":
    cuda_e2e.main()
