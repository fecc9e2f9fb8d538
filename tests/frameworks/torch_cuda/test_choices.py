"""PyTorch's unmodified CUDA wheel on the fake libraries: dlhook knows how an algorithm was chosen, and from which
candidates."""

import collections
import json
import os

import fake_gpu
from fake_gpu import e2e, program


class Choices(fake_gpu.Case):
    """Who chose which algorithm, and from which candidates."""

    def plans(self, argv, **settings):
        return [
            (e2e.one(e2e.one(pair.recorded.op, "cudnn"), "plan"), pair)
            for pair in self.recorded_pairs(argv, **settings)
            if pair.fake.function == "cudnnBackendExecute"
        ]

    def test_first_heuristic_result(self):
        for plan, _ in self.plans(program("train", "lenet"), ENGINES="7:100,3:50"):
            self.assertEqual((e2e.one(plan, "engine"), e2e.one(plan, "chooser")), (7, "HEURISTIC"))
            self.assertEqual(e2e.one(plan, "heuristic_rank", 0), 0)

    def test_benchmark_executes_all_and_keeps_the_fastest(self):
        plans = self.plans(program("train", "lenet", "--benchmark"), ENGINES="7:100,3:50", FALLBACK_ENGINES="2:200")
        trials, winners = [], []
        for plan, pair in plans:
            seen = e2e.one(e2e.one(pair.recorded.op, "cudnn"), "pack_seen_before", False)
            (trials if seen else winners).append(e2e.one(plan, "engine"))
        self.assertEqual(set(trials), {7, 3, 2})
        # Not seen before: the first trial of each search (engine 7), then the winner of each, twice.
        self.assertEqual(set(winners), {7, 3})
        self.assertGreater(winners.count(3), winners.count(7))

    def test_replay(self):
        """Alone a convolution takes what it took in the run, and of all plans cuDNN has a faster one than that of its heuristics."""
        settings = self.scenario(ENGINES="7:120,3:60")
        self.recorded_run(program("train", "lenet", "--steps", 5), ENGINES="7:120,3:60")
        argv = [e2e.DLHOOK, "replay", "--format", "json", "--top", "1", "--problem", "kh5", self.run_path]
        result = e2e.run(argv, env=e2e.clean_environment(**{**settings, "DLHOOK_FAKE_LOG": ""}), cwd=self.folder)
        self.assertEqual(result.code, 0, result.err)
        replay, variants = ([dict(zip([column["name"] for column in table["columns"]], row)) for row in table["rows"]]
                            for table in json.loads(result.out)["tables"][:2])
        (row, ) = replay
        self.assertEqual(row["kind"], "convolution")
        self.assertAlmostEqual(row["alone"], row["in_run"], delta=2)
        self.assertLess(row["gain"], row["share"])
        faster = {row["variant"]: row["times_as_fast"] for row in variants if row["outcome"] == "faster"}
        self.assertAlmostEqual(faster["cudnn.benchmark"], 2, 2)
        self.assertEqual(os.listdir(self.folder), [os.path.basename(self.run_path)])

    def test_plan_that_cannot_be_finalized(self):
        """torch then requests all engines and takes the first usable one."""
        plans = self.plans(program("train", "lenet"), ENGINES="7:100,3:50", UNFINALIZABLE="7")
        for plan, _ in plans:
            self.assertEqual(e2e.one(plan, "engine"), 3)
            self.assertGreater(e2e.one(plan, "failed_before", 0), 0)

    def test_failed_lt_product_is_followed_by_cublas(self):
        argv = program("train", "linear")
        before = collections.Counter(pair.fake.function for pair in self.recorded_pairs(argv))
        for settings, products, status in (
            ({"LT": ""}, 0, None),  # the heuristic has no answer, so nothing is tried
            ({"FAIL": "cublasLtMatmul:*:15"}, before["cublasLtMatmul"], 15),
        ):
            with self.subTest(settings):
                pairs = self.recorded_pairs(argv, **settings)
                after = collections.Counter(pair.fake.function for pair in pairs)
                self.assertEqual(after["cublasLtMatmul"], products)
                self.assertEqual(after["cublasSgemm_v2"], before["cublasSgemm_v2"] + before["cublasLtMatmul"])
                statuses = {pair.status for pair in pairs if pair.fake.function == "cublasLtMatmul"}
                self.assertEqual(statuses, {status} - {None})

    def test_failing_call_is_recorded_and_seen_by_the_program(self):
        argv = program("train", "linear")
        result = e2e.run(
            argv, env=e2e.clean_environment(**self.scenario(FAIL="cudaMemcpyAsync:3:700")), cwd=self.folder
        )
        self.assertNotEqual(result.code, 0)
        self.logs()
        ((log, trace),) = self.recorded_run(argv, code=e2e.shell_code(result.code), FAIL="cudaMemcpyAsync:3:700")
        failed = [pair.status for pair in self.pairs(log, trace) if pair.fake.function == "cudaMemcpyAsync"]
        self.assertEqual(failed, [0, 0, 700])


if __name__ == "__main__":
    e2e.main()
