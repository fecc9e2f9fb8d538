// Work that several libraries report is counted once.
#include "analyzer/model/same_work.h"

#include <gtest/gtest.h>

#include "tests/analyzer/ops/decode_text.h"

namespace dlhook::analyzer {
namespace {

class Builder {
 public:
  OpIndex Op(const std::string& definition) {
    model_.ops.push_back(DecodeText(definition));
    return static_cast<OpIndex>(model_.ops.size() - 1);
  }
  CallIndex Call(OpIndex op, int64_t start, int64_t end, CallIndex parent = kNone) {
    CallColumns& calls = model_.calls;
    calls.start_ns.push_back(start);
    calls.duration_ns.push_back(end - start);
    calls.self_ns.push_back(end - start);
    calls.op.push_back(op);
    calls.thread.push_back(0);
    calls.parent.push_back(parent);
    calls.sequence.push_back(calls.size() + 1);
    if (parent != kNone) calls.self_ns[parent] -= end - start;
    model_.end_ns = std::max(model_.end_ns, end);
    return static_cast<CallIndex>(calls.size() - 1);
  }
  const TraceModel& model() const { return model_; }

 private:
  TraceModel model_;
};

constexpr char kSgemm[] = "function: 'cublasSgemm_v2' family: 'cublas' gemm { a_type: F32 m: 8 n: 4 k: 2 cuda { } }";
constexpr char kLtMatmul[] =
    "function: 'cublasLtMatmul' family: 'cublaslt' gemm { a_type: F32 m: 8 n: 4 k: 2 cuda { lt: "
    "true } }";
constexpr char kLtHeuristic[] =
    "function: 'cublasLtMatmulAlgoGetHeuristic' family: 'cublaslt' gemm { kind: HEURISTIC a_type: "
    "F32 m: 8 n: 4 k: 2 cuda { lt: true } }";
constexpr char kDriverLaunch[] = "function: 'cuLaunchKernel' family: 'cuda_launch' launch { kernel: 'k' }";

TEST(SameWorkTest, CublasAroundLtAroundTheDriver) {
  Builder run;
  const OpIndex sgemm = run.Op(kSgemm), heuristic = run.Op(kLtHeuristic), lt = run.Op(kLtMatmul);
  const OpIndex launch = run.Op(kDriverLaunch);
  const CallIndex outer = run.Call(sgemm, 0, 100);
  const CallIndex asked = run.Call(heuristic, 10, 30, outer);
  const CallIndex matmul = run.Call(lt, 40, 90, outer);
  const CallIndex kernel = run.Call(launch, 50, 70, matmul);
  const SameWork same_work(run.model());
  EXPECT_EQ(same_work.Outermost(matmul), outer);
  EXPECT_EQ(same_work.Outermost(outer), outer);
  EXPECT_FALSE(same_work.IsNested(asked));   // a query is not the product
  EXPECT_FALSE(same_work.IsNested(kernel));  // a part of the product's work
  const RunTotals totals = ComputeTotals(run.model());
  EXPECT_EQ(totals.ops[sgemm].calls - totals.ops[sgemm].nested_calls, 1);
  EXPECT_EQ(totals.ops[lt].calls, 1);
  EXPECT_EQ(totals.ops[lt].nested_calls, 1);
  EXPECT_EQ(totals.ops[lt].total_ns, 0);
  EXPECT_EQ(totals.ops[heuristic].nested_calls, 0);
  EXPECT_EQ(totals.ops[launch].nested_calls, 0);
  EXPECT_EQ(totals.ops[launch].total_ns, 20);
  EXPECT_EQ(totals.ops[sgemm].total_ns, 100);
  EXPECT_EQ(totals.ops[sgemm].self_ns, 30);
  EXPECT_EQ(totals.thread_time_ns, 100);
  EXPECT_EQ(totals.unattributed_ns, 0);
}

TEST(SameWorkTest, TheSameCopyAtRuntimeAndDriverLevel) {
  Builder run;
  const std::string copy = "family: 'cuda_copy' copy { direction: HOST_TO_DEVICE bytes: 4096 host_memory: PAGEABLE }";
  const OpIndex runtime = run.Op("function: 'cudaMemcpy' " + copy);
  const OpIndex driver = run.Op("function: 'cuMemcpyHtoD_v2' " + copy);
  run.Call(driver, 10, 90, run.Call(runtime, 0, 100));
  run.Call(driver, 200, 250);
  const RunTotals totals = ComputeTotals(run.model());
  int64_t bytes = 0;
  for (OpIndex op : {runtime, driver}) {
    bytes += *run.model().ops[op].bytes * (totals.ops[op].calls - totals.ops[op].nested_calls);
  }
  EXPECT_EQ(bytes, 2 * 4096);
  EXPECT_EQ(totals.ops[driver].total_ns, 50);
}

TEST(SameWorkTest, LaunchesAndTimedCallsOfOneFamily) {
  Builder run;
  const OpIndex launch = run.Op("function: 'cudaLaunchKernel' family: 'cuda_launch' launch { kernel: 'k' }");
  const OpIndex driver = run.Op(kDriverLaunch);
  const OpIndex wait = run.Op("function: 'cudaStreamSynchronize' family: 'cuda_sync'");
  const OpIndex driver_wait = run.Op("function: 'cuStreamSynchronize' family: 'cuda_sync'");
  const OpIndex group = run.Op("function: 'ncclGroupEnd' family: 'nccl'");
  const CallIndex inner = run.Call(driver, 1, 2, run.Call(launch, 0, 10));
  const CallIndex inner_wait = run.Call(driver_wait, 21, 22, run.Call(wait, 20, 30));
  const CallIndex group_wait = run.Call(wait, 41, 42, run.Call(group, 40, 50));
  const SameWork same_work(run.model());
  EXPECT_TRUE(same_work.IsNested(inner));
  EXPECT_TRUE(same_work.IsNested(inner_wait));
  EXPECT_FALSE(same_work.IsNested(group_wait));
}

TEST(SameWorkTest, ProductsOfEveryKind) {
  Builder run;
  const OpIndex gemv = run.Op("family: 'cublas' gemm { kind: GEMV a_type: F32 m: 8 n: 1 k: 2 }");
  const OpIndex lt = run.Op(kLtMatmul);
  const OpIndex convolution = run.Op("family: 'cudnn' cudnn { operation: 'convolution_forward' }");
  const OpIndex trsm = run.Op("family: 'cublas' matrix { kind: TRSM type: F32 m: 8 n: 4 }");
  const CallIndex in_gemv = run.Call(lt, 1, 2, run.Call(gemv, 0, 10));
  const CallIndex in_convolution = run.Call(lt, 21, 22, run.Call(convolution, 20, 30));
  const CallIndex in_trsm = run.Call(lt, 41, 42, run.Call(trsm, 40, 50));
  const SameWork same_work(run.model());
  EXPECT_TRUE(same_work.IsNested(in_gemv));
  EXPECT_FALSE(same_work.IsNested(in_convolution));
  EXPECT_FALSE(same_work.IsNested(in_trsm));
}

// Frameworks look for a GPU on machines without one.
TEST(UsesGpu, NeedsMoreThanAQuestion) {
  Builder builder;
  builder.Call(builder.Op("function: 'cuInit' family: 'cuda_setup'"), 0, 10);
  EXPECT_FALSE(builder.model().UsesGpu());
  builder.Call(builder.Op(kSgemm), 20, 30);
  EXPECT_TRUE(builder.model().UsesGpu());
}

}  // namespace
}  // namespace dlhook::analyzer
