// The arguments of a call, as far as its cost or tables need more than the texts of an Op: see the messages in
// proto/op.proto.
#ifndef DLHOOK_ANALYZER_MODEL_OP_CALL_H_
#define DLHOOK_ANALYZER_MODEL_OP_CALL_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/model/trace_enums.h"
#include "proto/values.h"

namespace dlhook::analyzer::inline model {

using GemmCall = values::Gemm;        // BLAS, cuBLAS, cuBLASLt
using MatrixCall = values::MatrixOp;  // the other level-3 functions
using CopyCall = values::Copy;
using CollectiveCall = values::Collective;

struct OneDnnCall {
  std::string problem;  // as in its log
  std::string version;  // "v3.12.0"; empty: not known
};

// Of LIBXSMM and XLA.
struct TranslatedCall {
  std::string problem;  // in the words of oneDNN's log
};

struct CudnnTensor {
  TensorRole role = TensorRole::kUnknown;
  std::vector<int64_t> dims;
};

// A plan of cuDNN's graph API.
struct CudnnPlan {
  uint32_t number = 0;         // within its process, from 1; 0: not known
  std::string configuration;   // engine and knobs, as recorded
  int32_t heuristic_mode = 0;  // cudnnBackendHeurMode_t; -1: no heuristics
  uint32_t heuristic_results = 0;
  uint32_t failed_before = 0;  // plans of the same graph whose finalization failed before this one
  uint64_t build_ticks = 0;    // 0: not known
  bool is_from_json = false;
};

struct CudnnCall {
  std::vector<CudnnTensor> tensors;  // as recorded
  std::optional<CudnnPlan> plan;
  bool pack_seen_before = false;  // the variant pack had been executed before
};

// A query for algorithms; its results are Op.candidates.
struct CudnnSearch {
  bool is_measured = false;  // every candidate was run
};

struct LaunchCall {
  std::array<uint32_t, 3> grid = {};   // blocks
  std::array<uint32_t, 3> block = {};  // threads
};

// Memory of the CUDA runtime or driver.
struct AllocationCall {
  AllocationKind kind = AllocationKind::kUnknown;
};

}  // namespace dlhook::analyzer::model

#endif  // DLHOOK_ANALYZER_MODEL_OP_CALL_H_
