"""PyTorch's unmodified CUDA wheel on the fake libraries: dlhook's record equals their own log, call for call and
argument for argument."""

import collections

import arguments
import fake_gpu
from fake_gpu import e2e, program


class Calls(fake_gpu.Case):
    """Call for call, argument for argument."""

    def check(self, argv, must_have, **settings):
        """`must_have`: functions of which at least one call's arguments must have been compared."""
        compared = collections.Counter()
        for log, trace in self.recorded_run(argv, **settings):
            for pair in self.pairs(log, trace):
                self.assertEqual(pair.status, pair.fake.returned() or 0, pair.fake)
                if arguments.check(self, pair):
                    compared[pair.fake.function] += 1
        self.assertEqual(set(must_have) - set(compared), set())
        return compared

    def train(self, *options, must_have=(), **settings):
        return self.check(program("train", *options), {"__cudaLaunchKernel", "cudaMemcpyAsync", *must_have}, **settings)

    def test_lenet(self):
        convolution, product = "cudnnBackendExecute", ("cublasLtMatmul", "cublasSgemm_v2")
        for options in ([], ["--channels-last"], ["--benchmark"], ["--copies", "pinned"]):
            with self.subTest(options):
                self.train("lenet", *options, must_have=(convolution, *product))

    def test_mixed_precision(self):
        for precision in ("fp16", "bf16"):
            with self.subTest(precision):
                self.train("lenet", "--amp", precision, must_have=("cudnnBackendExecute", "cublasGemmEx"))

    def test_other_networks(self):
        self.train("alexnet", must_have=("cudnnBackendExecute", "cublasLtMatmul"))
        self.train("resnet", must_have=("cudnnBackendExecute",))
        self.train("lstm", must_have=("cudnnRNNForward", "cudnnRNNBackwardData_v8", "cudnnRNNBackwardWeights_v8"))
        self.train("transformer", must_have=("cublasSgemm_v2", "cublasLtMatmul"))

    def test_legacy_cudnn(self):
        for options, search in (
            ([], "cudnnGetConvolutionForwardAlgorithm_v7"),
            (["--benchmark"], "cudnnFindConvolutionForwardAlgorithmEx"),
        ):
            with self.subTest(options):
                self.train(
                    "lenet",
                    *options,
                    must_have=("cudnnConvolutionForward", "cudnnConvolutionBackwardFilter", search),
                    TORCH_CUDNN_V8_API_DISABLED="1"
                )

    def test_graph(self):
        self.train("lenet", "--graph", must_have=("cudnnBackendExecute",))

    def test_nested_calls(self):
        """cuDNN's own launches through the driver, and cuBLAS's calls of cuBLASLt, are children of the calls around them."""
        compared = self.train("lenet", must_have=("cuLaunchKernel", "cublasLtMatmul"), NESTED="1")
        self.assertGreater(compared["cuLaunchKernel"], compared["cudnnBackendExecute"])

    def test_two_processes(self):
        for backend in ("gloo", "nccl"):
            with self.subTest(backend):
                must_have = {"cudnnBackendExecute", *(["ncclAllReduce"] if backend == "nccl" else [])}
                compared = self.check(program("train", "lenet", "--ddp", backend), must_have, DEVICES="2")
                self.assertEqual(compared["cudnnBackendExecute"] % 2, 0)

    def test_single_operations(self):
        names = ("fp8", "batched", "gemv", "double", "tf32", "fft", "solve", "sparse", "copies", "transposes")
        self.check(program("operations", *names), {"cublasGemmStridedBatchedEx", "cublasDgemm_v2", "cublasLtMatmul"})
        types = {row["types"] for row in e2e.Run(self.run_path).table("gemm")}
        self.assertLessEqual({"f8_e4m3:f8_e4m3:bf16", "f8_e4m3/outer:f8_e4m3/outer:bf16"}, types)

    def test_kernels_compiled_at_run_time(self):
        self.check(program("operations", "jiterator"), {"cuLaunchKernel"})

    def test_every_host_of_the_drain(self):
        for host in e2e.HOSTS:
            with self.subTest(host):
                self.train("linear", host=host)


if __name__ == "__main__":
    e2e.main()
