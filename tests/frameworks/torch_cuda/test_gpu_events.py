"""PyTorch's unmodified CUDA wheel trains LeNet under DLHOOK_GPU=events: every call that submitted GPU work has the
time of the fakes' cost model."""

import collections

import fake_gpu
from fake_gpu import e2e, program

import gpu_trace  # tests/preload_e2e

# Which of dlhook's own calls are of captured functions.
OWN = ("cuEvent", "cuStream", "cuThread")


def first(call):
    return call.op["function"][0]


class Events(fake_gpu.Case):
    def train(self):
        """(the fakes' log, dlhook's trace) of one step."""
        self.fresh_run()
        argv = program("train", "lenet", "--steps", 1)
        result = self.under("launcher", argv, **self.scenario(), DLHOOK_GPU="events")
        self.assertEqual(result.code, 0, result.err.decode()[-3000:])
        (trace,) = e2e.Run(self.run_path).traces(gpu_trace.GpuTrace)
        return self.logs()[trace.pid], trace

    def modelled(self, log, trace):
        """{(thread_id, sequence): (function, nanoseconds)} of calls that submitted GPU work, including calls inside
        them."""
        work, outer = collections.Counter(), {}
        for index, call in enumerate(log):
            if call.depth == 0:
                outer[call.thread] = index
            work[outer[call.thread]] += sum(item.end_ns - item.start_ns for item in call.gpu if item.kind != "G")
        captured = {function for function in self.captured if not function.startswith(OWN)}
        theirs = [(index, call) for index, call in enumerate(log) if call.depth == 0 and call.function in captured]
        ours = [call for call in trace.top_calls() if not first(call).startswith(OWN)]
        result = {}
        for our_thread, their_thread in zip(
            fake_gpu.by_thread(ours, lambda call: call.thread_id, lambda call: call[:2]),
            fake_gpu.by_thread(theirs, lambda item: item[1].thread, lambda item: item[1].sequence),
            strict=True,
        ):
            self.assertEqual([first(call) for call in our_thread], [call.function for _, call in their_thread])
            for call, (index, _) in zip(our_thread, their_thread, strict=True):
                result[call[:2]] = (first(call), work[index])
        return {call: told for call, told in result.items() if told[1] > 0}

    def test_times_are_those_of_the_cost_model(self):
        log, trace = self.train()
        modelled = self.modelled(log, trace)
        self.assertGreater(len(modelled), 50)
        functions = {function for function, _ in modelled.values()}
        self.assertLessEqual({"__cudaLaunchKernel", "cudnnBackendExecute", "cublasSgemm_v2"}, functions)
        times = {activity.call: activity.end_ns - activity.start_ns for activity in trace.activities}
        self.assertEqual(len(times), len(trace.activities), "a call was timed twice")
        self.assertEqual(times, {call: nanoseconds for call, (_, nanoseconds) in modelled.items()})
        self.assertEqual(trace.losses, [])

    def test_a_machine_without_a_gpu_has_no_windows(self):
        """The standard budget is for GPUs: a training on processors, whose program only asks for one, is recorded whole."""
        self.fresh_run()
        text = """import torch
device = "cuda" if torch.cuda.is_available() else "cpu"
try:
    torch.cuda.is_current_stream_capturing()  # as transformers asks: a call of the runtime
except RuntimeError:
    pass  # of the fakes
network = torch.nn.Linear(8, 8).to(device)
optimizer = torch.optim.SGD(network.parameters(), 0.01)
for _ in range(100):
    network(torch.ones(4, 8, device=device)).sum().backward()
    optimizer.step()
"""
        result = self.under("launcher", [fake_gpu.PYTHON, "-c", text], **self.scenario(DEVICES=0))
        self.assertEqual(result.code, 0, result.err.decode()[-3000:])
        states = [row for row in e2e.Run(self.run_path).table("capabilities") if row["name"] == "gpu-time"]
        self.assertIn("by pairs of events", states[0]["note"], "the case that is meant")
        self.assertNotIn("scope_windows", [row["metric"] for row in e2e.Run(self.run_path).table("summary")])


if __name__ == "__main__":
    e2e.main()
