"""GPU times of layers and kernels of an AlexNet that PyTorch's unmodified CUDA wheel trains on the fake libraries: to
the nanosecond those of the fakes' cost model, by their own log.

The log has no layers. It has each convolution by the shape of its weights and its direction, the thread of each request
(forward and the update: the main thread; backward: autograd's), and the order of each thread's requests. Between two
convolutions on the main thread all work belongs to the layers from the first one up to the second."""

import collections
import json

import fake_gpu
from fake_gpu import e2e, program
import fake_log

STEPS = 5
# Weights as the log has them, by layer.
CONVOLUTIONS = {
    "96x3x11x11": "0",
    "256x48x5x5": "4",
    "384x256x3x3": "8",
    "384x192x3x3": "10",
    "256x192x3x3": "12",
}


def duration(activities):
    return sum(activity.end_ns - activity.start_ns for activity in activities)


def weights(call):
    return (call.note.get("w") or call.note["dw"]).split(":")[0]


def direction_of(call):
    if "dw" in call.note:
        return "backward-weights"
    return "backward-data" if "dx" in call.note else "forward"


class GpuLayers(fake_gpu.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.seen = None

    def setUp(self):
        super().setUp()
        cls = type(self)
        if cls.seen is None:
            ((log, _),) = self.recorded_run(program("train", "alexnet", "--steps", STEPS))
            cls.seen = log, self.tables("layers", "kernels", "summary")

    def tables(self, *names):
        """{name: [{column: value}]}"""
        argv = [e2e.DLHOOK, "report", self.run_path, "--format", "json", "--limit", "0", "--table", ",".join(names)]
        report = e2e.run(argv)
        self.assertEqual(report.code, 0, report.err.decode())
        result = {}
        for table in json.loads(report.out)["tables"]:
            columns = [column["name"] for column in table["columns"]]
            result[table["name"]] = [dict(zip(columns, row)) for row in table["rows"]]
        return result

    def convolutions(self):
        log, _ = self.seen
        return [call for call in log if call.function == "cudnnBackendExecute"]

    def layers(self):
        _, tables = self.seen
        return {row["layer"]: row for row in tables["layers"]}

    def test_convolutions(self):
        """Each layer's backward-data and backward-weights are its convolution alone; its kernels by direction."""
        _, tables = self.seen
        expected = collections.defaultdict(list)
        for call in self.convolutions():
            expected[CONVOLUTIONS[weights(call)], direction_of(call)].append(duration(call.gpu))
        self.assertEqual(len(expected), 14)  # layers that read the network's input have no backward-data
        rows = {(row["layer"], row["launched_by"]): row for row in tables["kernels"]}
        layers = self.layers()
        for (layer, direction), durations in expected.items():
            self.assertEqual(len(durations), STEPS)
            self.assertEqual(len(set(durations)), 1)
            row = rows[layer, f"convolution {direction}"]
            self.assertEqual((row["calls"], row["gpu_time"]), (STEPS, sum(durations)), (layer, direction))
            self.assertEqual(row["mean_time"], durations[0])
            if direction != "forward":
                column = "gpu_" + direction.replace("-", "_")
                self.assertEqual(layers[layer][column], durations[0], (layer, direction))

    def steps(self, thread):
        """For each step, the thread's calls with work, from the first convolution of the step on."""
        log, _ = self.seen
        steps = []
        for call in log:
            if call.thread != thread or not call.gpu:
                continue
            if call.function == "cudnnBackendExecute" and weights(call) == "96x3x11x11":
                steps.append([])
            if steps:
                steps[-1].append(call)
        return steps

    def test_forward(self):
        """Between two convolutions everything belongs to the layers from the first up to the second."""
        main = self.convolutions()[0].thread
        rows = self.layers()
        layers = [name for name in rows if name.split(":")[0].isdigit()]
        for step in self.steps(main):
            starts = [at for at, call in enumerate(step) if call.function == "cudnnBackendExecute"]
            names = [CONVOLUTIONS[weights(step[at])] for at in starts]
            self.assertEqual(names, list(CONVOLUTIONS.values()))
            for (begin, first), (end, second) in zip(zip(starts, names), zip(starts[1:], names[1:])):
                between = [name for name in layers if int(first) <= int(name.split(":")[0]) < int(second)]
                expected = sum(duration(call.gpu) for call in step[begin:end])
                self.assertEqual(sum(rows[name]["gpu_forward"] or 0 for name in between), expected, (first, second))

    def test_backward(self):
        """Autograd's thread requests all of the backward pass and nothing else."""
        main = self.convolutions()[0].thread
        (autograd,) = {call.thread for call in self.convolutions()} - {main}
        log, _ = self.seen
        total = sum(duration(call.gpu) for call in log if call.thread == autograd)
        rows = self.layers()
        self.assertEqual(sum(row["gpu_backward"] or 0 for row in rows.values()), total / STEPS)

    def test_windows_of_a_budget(self):
        """Work of steps between windows is not measured, and layers cost what they cost in a run recorded whole."""
        ((log, _),) = self.recorded_run(program("train", "alexnet", "--steps", 60), DLHOOK_BUDGET="0.01%")
        tables = self.tables("layers", "steps", "summary")
        summary = {row["metric"]: row["value"] for row in tables["summary"]}
        self.assertEqual(len(tables["steps"]), 60)
        self.assertLess(summary["gpu_activities"], len(fake_log.activities(log)) / 2)
        self.assertGreater(summary["gpu_activities"], len(fake_log.activities(log)) / 4)
        switched = [call.function for call in log if call.function in ("cuptiActivityEnable", "cuptiActivityDisable")]
        self.assertGreaterEqual(switched.count("cuptiActivityDisable"), 2)
        columns = ("gpu_forward", "gpu_backward", "gpu_backward_data", "gpu_backward_weights")
        in_windows = {row["layer"]: row for row in tables["layers"]}
        for name, row in self.layers().items():
            if name.isdigit():
                times = [[of_run[column] for column in columns] for of_run in (in_windows[name], row)]
                self.assertEqual(*times, name)

    def test_everything_is_there_once(self):
        log, tables = self.seen
        activities = fake_log.activities(log)
        summary = {row["metric"]: row["value"] for row in tables["summary"]}
        self.assertEqual(summary["gpu_activities"], len(activities))
        kernels = [activity for activity in activities if activity.kind == "K"]
        self.assertEqual(sum(row["calls"] for row in tables["kernels"]), len(kernels))
        self.assertEqual(sum(row["gpu_time"] for row in tables["kernels"]), duration(kernels))


class StandardBudget(fake_gpu.Case):
    """What is recorded, and whether CUPTI is paused, without a setting: 20 steps, then 2 of N."""

    STEPS = 200
    WITH_GRAPH = f"""
import torch
net = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.ones(8, 64, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.no_grad(), torch.cuda.graph(graph):
    y = x * 2
for _ in range({STEPS}):
    graph.replay()
    for _ in range(8):
        x = x.detach() + 1
    net(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""

    def kinds_from_first_pause(self, argv, **settings):
        """The calls that enable or disable CUPTI's kinds, from the first one that disables; the fakes' log."""
        ((log, _),) = self.recorded_run(argv, **settings)
        kinds = [call.function for call in log if call.function in ("cuptiActivityEnable", "cuptiActivityDisable")]
        return kinds[kinds.index("cuptiActivityDisable"):], log

    def test_windows(self):
        kinds, log = self.kinds_from_first_pause(program("train", "lenet", "--steps", self.STEPS))
        self.assertIn("cuptiActivityEnable", kinds, "a window after a pause")
        run = e2e.Run(self.run_path)
        steps = run.table("steps", "--limit", "0")
        self.assertEqual(len(steps), self.STEPS)
        recorded = sum(row["left_out"] not in ("not recorded", "much longer") for row in steps)
        self.assertTrue(20 <= recorded < self.STEPS / 2, recorded)
        summary = {row["metric"]: row["value"] for row in run.table("summary", "--limit", "0")}
        self.assertLess(summary["gpu_activities"], len(fake_log.activities(log)) / 2)
        self.assertIn("weights", {row["kind"] for row in run.table("memory")}, "of the first steps")

    def test_cupti_that_may_block_is_not_paused(self):
        argv = program("train", "lenet", "--steps", self.STEPS)
        kinds, log = self.kinds_from_first_pause(argv, CUPTI_VERSION="28")
        self.assertNotIn("cuptiActivityEnable", kinds, "disabled at the end only")
        summary = {row["metric"]: row["value"] for row in e2e.Run(self.run_path).table("summary", "--limit", "0")}
        self.assertEqual(summary["gpu_activities"], len(fake_log.activities(log)))
        answer = e2e.run([e2e.DLHOOK, "report", self.run_path]).out.decode()
        self.assertIn("GPU times, whose cost is not in this, were recorded throughout", " ".join(answer.split()))

    def test_cupti_that_mixes_up_graphs_is_not_paused(self):
        for version, is_paused in (("130001", False), ("130101", True)):
            kinds, _ = self.kinds_from_first_pause([fake_gpu.PYTHON, "-B", "-c", self.WITH_GRAPH], CUPTI_VERSION=version)
            self.assertEqual("cuptiActivityEnable" in kinds, is_paused, version)


class GpuMemory(fake_gpu.Case):
    PROGRAM = """
import torch
net = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4))).cuda()
optimizer = torch.optim.Adam(net.parameters(), foreach=False)
for _ in range(4):
    optimizer.zero_grad()
    net(torch.ones(256, 512, device="cuda")).sum().backward()
    optimizer.step()
print(torch.cuda.max_memory_allocated())
"""

    def test_peak_is_that_of_the_caching_allocator(self):
        self.fresh_run()
        result = self.under("launcher", [fake_gpu.PYTHON, "-B", "-c", self.PROGRAM], **self.scenario())
        self.assertEqual(result.code, 0, result.err.decode()[-3000:])
        rows = [row for row in e2e.Run(self.run_path).table("memory") if row["device"] == "gpu 0"]
        self.assertEqual(sum(row["at_peak"] for row in rows if row["kind"] != "reserved, not used"), int(result.out))
        parameters = 4 * (512 * 512 + 512) * 4  # bytes
        for kind, bytes_held in (("weights", parameters), ("gradients", parameters), ("optimizer state", 2 * parameters)):
            most = sum(row["most"] for row in rows if row["kind"] == kind)
            self.assertAlmostEqual(most, bytes_held, delta=0.02 * bytes_held, msg=kind)


if __name__ == "__main__":
    e2e.main()
