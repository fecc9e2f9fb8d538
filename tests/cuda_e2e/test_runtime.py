"""Programs linked to the CUDA runtime: copies, launches, graphs, reported call by call by the victims."""

import collections

import cuda_e2e
import e2e


class Copies(cuda_e2e.Case):
    def test_every_form(self):
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.check_victim([e2e.victim("copies")], host, DLHOOK_FAKE_DEVICES=2)

    def test_arguments_are_the_ones_that_arrived(self):
        _, calls = self.check_victim([e2e.victim("copies")], DLHOOK_FAKE_DEVICES=2)
        logged = collections.deque(self.log())
        for call in calls:
            while logged[0].function != call.function:
                logged.popleft()
            arrived = logged.popleft()
            for address, name in zip(call.addresses, ("dst", "src", "stream")):
                array = call.function == "cudaMemcpyBatchAsync" and name != "stream"  # the first is recorded
                if call.family == "cuda_copy" and name in arrived.arguments and not array:
                    self.assertEqual(address, arrived.number(name), (call, arrived))

    def test_table(self):
        run, calls = self.check_victim([e2e.victim("copies")], DLHOOK_FAKE_DEVICES=2)
        by_kind = collections.Counter()
        for call in calls:
            if call.family == "cuda_copy":
                by_kind["bytes"] += int(call.facts["copy.bytes"])
                by_kind["calls"] += 1
        rows = run.table("copies")
        self.assertEqual(sum(row["calls"] for row in rows), by_kind["calls"])
        self.assertEqual(sum(row["bytes"] for row in rows), by_kind["bytes"])


class ProfiledRanges(cuda_e2e.Case):
    def sets(self, api, *counts, **extra):
        run, result = self.cuda([e2e.victim("profiled"), api, *map(str, counts)], **extra)
        self.assertEqual(result.out, b"")
        self.assertEqual([call.function for call in self.log() if call.function == "cudaMemsetAsync"],
                         ["cudaMemsetAsync"] * sum(counts))
        return [len(trace.calls) for trace in run.traces()] if run.files() else []

    def test_they_are_recorded_if_asked_for(self):
        for api in ("runtime", "driver"):
            with self.subTest(api):
                self.assertEqual(self.sets(api, 2, 3, 4, 1, 5, DLHOOK_START="profiler"), [4])
                self.assertEqual(self.sets(api, 0, 3, 4, DLHOOK_START="profiler"), [3])

    def test_all_is_recorded_otherwise(self):
        self.assertEqual(self.sets("runtime", 2, 3, 4), [9])

    def test_a_program_without_one(self):
        self.assertIn(self.sets("runtime", 2, DLHOOK_START="profiler"), ([], [0]))


class Launches(cuda_e2e.Case):
    def test_every_kind(self):
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                self.check_victim([e2e.victim("launches")], host)

    def test_kernels_are_the_ones_that_ran(self):
        _, calls = self.check_victim([e2e.victim("launches")])
        launches = [call for call in calls if "launch.kernel" in call.facts]
        logged = [call for call in self.log() if "kernel" in call.note]
        self.assertEqual([call.facts["launch.kernel"] for call in launches], [call.note["kernel"] for call in logged])
        for call, arrived in zip(launches, logged, strict=True):
            self.assertEqual("captured" in arrived.note, "captured" in call.facts)
            if "grid" in arrived.arguments:
                for name in ("grid", "block"):
                    recorded = ",".join(call.facts[f"launch.{name}_{axis}"] for axis in "xyz")
                    self.assertEqual(arrived.arguments[name], recorded)

    def test_failed_captures(self):
        self.check_victim([e2e.victim("launches"), "invalidated"], DLHOOK_FAKE_FAIL="cudaStreamEndCapture:1:901")

    def test_table(self):
        run, calls = self.check_victim([e2e.victim("launches")], DLHOOK_GPU="off")
        expected = collections.Counter(call.facts["launch.kernel"] for call in calls if "launch.kernel" in call.facts)
        captured = sum("captured" in call.facts for call in calls if "launch.kernel" in call.facts)
        rows = run.table("kernels")
        self.assertEqual({row["kernel"]: row["calls"] + row["captured"] for row in rows},
                         {"add": expected["_Z3addPKfS0_Pf"], "scale": expected["_Z5scalePff"], "from_a_library": 1})
        self.assertEqual(sum(row["captured"] for row in rows), captured)


if __name__ == "__main__":
    cuda_e2e.main()
