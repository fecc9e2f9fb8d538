"""PyTorch's unmodified CUDA wheel on the fake libraries: dlhook knows how an algorithm was chosen, and from which
candidates."""

import collections

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
