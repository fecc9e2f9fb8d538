// A decoded op definition, for the tables: what was computed, on what, how, and its theoretical cost.
#pragma once

#include "analyzer/model/prelude.h"
#include "analyzer/model/trace_enums.h"
#include "proto/values.h"

namespace dlhook::analyzer::inline model {

// The arguments of a call, as far as its cost or tables need more than the texts of an Op: see the messages in
// proto/op.proto.
using GemmCall = values::Gemm;        // BLAS, cuBLAS, cuBLASLt
using MatrixCall = values::MatrixOp;  // the other level-3 functions
using CopyCall = values::Copy;
using CollectiveCall = values::Collective;

struct OneDnnCall {
  std::string problem;  // as in its log
  std::string version;  // "v3.12.0"; empty: not known
};

// Of XLA.
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

enum class Direction { kUnknown, kForward, kBackwardData, kBackwardWeights, kBackwardBias, kBackward };
const char* DirectionName(Direction direction);  // "forward", "backward-data", …

// One tensor of a oneDNN memory descriptor list, e.g. "src:f32:a:blocked:aBcd16b::f0".
struct Tensor {
  std::string role;     // "src", "wei", "bia", "dst", "src_0" …, oneDNN's names
  std::string type;     // "f32", "bf16" …
  std::string format;   // memory format tag ("abcd", "aBcd16b"); the format kind ("any", "undef") if there is no tag
  std::string strides;  // of plain formats, if the library prints them (3.x: after the tag); else empty
  bool defined = true;  // false: the tensor is absent in this op ("undef")
  std::vector<int64_t> dims;  // if the problem contains them; else empty
};

// Whether a product may run on tensor cores, according to the rules in the library's manual (ops/tensor_core.cc), or to the
// library's notes on the engine that ran.
struct TensorCore {
  bool eligible = false;
  bool is_told = false;  // the library or a kernel's name says so: a fact; else derived from the rules
  std::string reason;    // why not: "type s32", "math mode pedantic" …; else the deciding rule
};

// One result of a search for algorithms; the library lists the best first.
struct Candidate {
  std::string algorithm;
  int32_t status = 0;   // 0: usable
  int64_t time_ns = 0;  // as measured by the library; 0: not known
  int64_t workspace_bytes = 0;
  bool is_deterministic = false;
  std::string math_mode;
};

struct Op {
  // "gemm", "gemv", "ger", "trsm" …; for oneDNN the primitive's name: "convolution", "reorder", "inner_product",
  // "gemm_api" …, and the same names for cuDNN; "attention", "dropout" if oneDNN has no name. "copy", "memset",
  // "kernel" (a launch), "collective", "allocation", "free", "search" (for an algorithm: see `subject`);
  // "call" if nothing was decoded.
  std::string kind;
  std::string function;  // hooked function or tap
  std::string family;
  TimeSource time_source = TimeSource::kUnknown;
  Direction direction = Direction::kUnknown;
  std::string problem;                // one line that identifies the problem: "m120 n64 k256 TN f32", oneDNN's problem
  std::string implementation;         // "jit:avx512_core"; empty if not known
  std::string algorithm;              // "convolution_direct"; empty if not known
  std::vector<std::string> post_ops;  // fused after the op, in order: "eltwise_relu", "sum"
  std::vector<Tensor> tensors;
  std::string types;             // "f32", or "s8:u8:s32" if the operands differ
  std::optional<int64_t> flops;  // per call, 2 per multiply-add; formulas and their sources in op_cost.h
  std::optional<int64_t> bytes;  // operands read and written once
  bool is_creation = false;      // creation, not execution, of a oneDNN primitive
  bool cache_hit = false;        // for a creation
  // The rest of a call of XLA's that had returned before its work was done: time without a call of its own.
  bool is_continuation = false;

  // For GPU libraries; otherwise empty, unknown or false. Names are the library's enumerators in lower case without
  // their common prefix ("implicit_precomp_gemm", "32f_fast_tf32"); unnamed numbers remain numbers.
  bool on_gpu = false;
  // The call requests work and does not wait for it: its duration says nothing about the speed of the work, so there
  // are no FLOP/s and no GB/s.
  bool is_asynchronous = false;
  bool captured = false;  // recorded into a CUDA graph, not executed
  // Executions that were only trials: set by calls/choices, which gives them an op of their own.
  bool is_trial = false;
  std::string subject;                  // of a search: the kind of op it is for, e.g. "convolution"
  std::vector<Candidate> candidates;    // of a search
  Chooser chooser = Chooser::kUnknown;  // as recorded; calls/choices may know more
  std::string heuristic;                // for choices by heuristics: "instant, rank 0 of 8"
  std::optional<int64_t> workspace_bytes;
  std::vector<std::string> notes;  // the library's numerical and behaviour notes: "tensor_core", "runtime_compilation"
  std::string compute_type;        // "32f", "32f_fast_tf32", "f32"
  std::string math_mode;           // "default", "tf32_tensor_op", "tensor_op_allow_conversion"
  std::optional<TensorCore> tensor_core;
  // A column-major product in row-major form, with A and B swapped: "m64 n120 k256 NT f32". Empty if `problem` is
  // row-major.
  std::string row_major_problem;
  std::string kernel_name;   // of a launch: full and demangled
  std::string kernel_short;  // for a column: see fold_names.h

  std::string trouble;  // a sentence, if a part of the definition could not be parsed: counted as an oddity

  // The request, by library; monostate: only the call's name is known.
  std::variant<std::monostate, GemmCall, MatrixCall, OneDnnCall, CudnnCall, CudnnSearch, CopyCall, LaunchCall,
               CollectiveCall, AllocationCall, TranslatedCall>
      asked;
  // Null: a different kind of call.
  const GemmCall* gemm() const { return std::get_if<GemmCall>(&asked); }
  const MatrixCall* matrix() const { return std::get_if<MatrixCall>(&asked); }
  const OneDnnCall* onednn() const { return std::get_if<OneDnnCall>(&asked); }
  const TranslatedCall* translated() const { return std::get_if<TranslatedCall>(&asked); }
  // The problem in the words of oneDNN's log: of oneDNN's and XLA's calls.
  const std::string* onednn_problem() const {
    if (onednn()) return &onednn()->problem;
    return translated() ? &translated()->problem : nullptr;
  }
  const CudnnCall* cudnn() const { return std::get_if<CudnnCall>(&asked); }
  const CudnnSearch* search() const { return std::get_if<CudnnSearch>(&asked); }
  const CopyCall* copy() const { return std::get_if<CopyCall>(&asked); }
  const LaunchCall* launch() const { return std::get_if<LaunchCall>(&asked); }
  const AllocationCall* allocation() const { return std::get_if<AllocationCall>(&asked); }
  const CollectiveCall* collective() const { return std::get_if<CollectiveCall>(&asked); }
  // The plan that the call executes; null: none.
  const CudnnPlan* plan() const { return cudnn() && cudnn()->plan ? &*cudnn()->plan : nullptr; }
};

std::string TypeName(DataType type);       // "f32", "c32"; "unknown"
const char* ChooserName(Chooser chooser);  // "heuristic", "profiled" …; "" if not known

}  // namespace dlhook::analyzer::model
