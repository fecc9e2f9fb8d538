// An op definition decoded for the passes: what was computed, on what, how, and what that costs by the books.
#ifndef DLHOOK_ANALYZER_MODEL_OP_H_
#define DLHOOK_ANALYZER_MODEL_OP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/op.pb.h"

namespace dlhook::analyzer {

enum class Direction { kUnknown, kForward, kBackwardData, kBackwardWeights, kBackwardBias, kBackward, kUpdate };
const char* DirectionName(Direction direction);  // "forward", "backward-data", …

// One tensor of a oneDNN memory descriptor list, e.g. "src:f32:a:blocked:aBcd16b::f0".
struct Tensor {
  std::string role;     // "src", "wei", "bia", "dst", "src_0" …, as oneDNN names it
  std::string type;     // "f32", "bf16" …
  std::string format;   // memory format tag ("abcd", "aBcd16b"); the format kind ("any", "undef") where there is no tag
  std::string strides;  // of plain formats, where the library prints them (3.x: after the tag), else empty
  bool defined = true;  // false: the tensor is absent in this op ("undef")
  std::vector<int64_t> dims;  // where the problem tells them, else empty
};

struct Op {
  // Kind in the field's own words: "gemm", "gemv", "ger", "trsm" …; of oneDNN the primitive's name: "convolution",
  // "reorder", "inner_product", "gemm_api" …; "call" where nothing was decoded.
  std::string kind;
  std::string function;  // hooked function or tap
  std::string family;
  trace::TimeSource time_source = trace::TIME_SOURCE_UNKNOWN;
  Direction direction = Direction::kUnknown;
  std::string problem;         // one line that tells this problem from others: "m120 n64 k256 TN f32", oneDNN's problem
  std::string implementation;  // "jit:avx512_core"; empty where not known
  std::string algorithm;       // "convolution_direct"; empty where not known
  std::vector<std::string> post_ops;  // fused after the op, in order: "eltwise_relu", "sum"
  std::vector<Tensor> tensors;
  std::string types;           // "f32", or "s8:u8:s32" where the operands differ
  std::optional<int64_t> flops;  // of one call, 2 per multiply-add; formulas and their sources in op_cost.h
  std::optional<int64_t> bytes;  // operands read and written once
  bool is_creation = false;      // a oneDNN primitive being created, not executed
  bool cache_hit = false;        // of a creation
  // The definition as recorded, for everything else.
  trace::OpDefinition definition;
};

// Never fails: what can't be understood keeps its text in `problem` and no shapes.
Op DecodeOp(const trace::OpDefinition& definition);

}  // namespace dlhook::analyzer

#endif  // DLHOOK_ANALYZER_MODEL_OP_H_
