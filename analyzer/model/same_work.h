// Which calls are another view of the same work: cblas_sgemm around sgemm_, cublasSgemm around cublasLtMatmul,
// cudaMemcpy around cuMemcpyHtoD. Work is counted at the outermost of them, so that nothing counts twice.
#pragma once

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline model {

// Two ops do the same kind of work if their kinds are equal, or both are BLAS matrix products (a gemv may be done by a
// gemm, a batch by single products), and both or neither only create or search. Calls of which only the time is known
// are of the same kind if their families are (cudaStreamSynchronize around cuStreamSynchronize). A kernel launched by a
// gemm, or a gemm in a convolution, is a part of its work and not another view: both count, in separate rows.
class SameWork {
 public:
  explicit SameWork(const TraceModel& model);

  // The outermost call around `call` that does the same kind of work; `call` itself if none.
  CallIndex Outermost(CallIndex call) const;
  // Whether it is no call of its own.
  bool IsNested(CallIndex call) const {
    return Outermost(call) != call || model_.ops[model_.calls.op[call]].is_continuation;
  }

 private:
  const TraceModel& model_;
  std::vector<uint32_t> kinds_;  // by op: equal numbers mean the same kind of work
};

}  // namespace dlhook::analyzer::model
