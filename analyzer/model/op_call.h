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

namespace dlhook::analyzer::inline model {

// BLAS, cuBLAS, cuBLASLt: C[m,n] = op(A)[m,k] op(B)[k,n].
struct GemmCall {
  GemmKind kind = GemmKind::kGemm;
  DataType a_type = DataType::kUnknown;
  DataType b_type = DataType::kUnknown;
  DataType c_type = DataType::kUnknown;
  bool row_major = false;
  std::string trans_a;  // "N", "T", "C", "P" (packed)
  std::string trans_b;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t lda = 0;
  int64_t ldb = 0;
  int64_t batch = 0;  // 0: one
  // For products of different shapes; sizes are those of the first, or 0 if they are in device memory.
  int64_t groups = 0;
  uint64_t flops = 0;  // of all groups; 0: not known
  bool is_lt = false;  // cuBLASLt
  uint32_t heuristic_results = 0;
};

// The other level-3 functions.
struct MatrixCall {
  MatrixKind kind = MatrixKind::kUnknown;
  bool is_right = false;  // the special matrix: B A instead of A B
  std::string trans;
  std::string trans_b;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t ldb = 0;
  int64_t batch = 0;
  int64_t nonzeros = 0;  // of the sparse operand
  uint32_t order_a = 0;  // cublasLtOrder_t + 1 of source and destination; 0: column-major by definition
  uint32_t order_c = 0;
  DataType type = DataType::kUnknown;
  DataType c_type = DataType::kUnknown;
};

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

struct CopyCall {
  CopyDirection direction = CopyDirection::kUnknown;
  HostMemory host_memory = HostMemory::kNone;
  bool asynchronous = false;
  uint64_t bytes = 0;   // total; 0 also if not known
  uint32_t copies = 0;  // per call, for batch forms; 0: one
};

struct LaunchCall {
  std::array<uint32_t, 3> grid = {};   // blocks
  std::array<uint32_t, 3> block = {};  // threads
};

// Memory of the CUDA runtime or driver.
struct AllocationCall {
  AllocationKind kind = AllocationKind::kUnknown;
};

struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kUnknown;
  uint64_t bytes = 0;
  DataType data_type = DataType::kUnknown;
  int32_t reduction = -1;     // ncclRedOp_t; -1: none
  int32_t peer = -1;          // or root; -1: none
  uint64_t communicator = 0;  // number within its process
  int32_t rank = -1;          // -1: not known
  int32_t ranks = 0;
};

}  // namespace dlhook::analyzer::model

#endif  // DLHOOK_ANALYZER_MODEL_OP_CALL_H_
