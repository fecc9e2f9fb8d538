// What an op alone shows about the layer it may belong to: the first stage of AttributeByStructure.
#pragma once

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline layers {

// C[m,n] = A[m,k] B[k,n] from the view of a row-major program. Its gradients are products of the same three sizes: that
// of A ([m,k] or its transpose) sums over n and reads B, that of B ([k,n]) sums over m and reads A.
struct ProductShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batch = 1;
  bool a_is_transposed = false;
  bool b_is_transposed = false;
  // A and B are swapped relative to the operands of the call, which BLAS takes column-major.
  bool is_exchanged = false;
  // A or B is part of a wider matrix: heads of an attention that is computed in parts.
  bool is_slice = false;
  int64_t a_bytes = 0;
  int64_t b_bytes = 0;
  int64_t c_bytes = 0;
  bool weights_are_a = false;  // gemv: a matrix times a vector, on either side
};

// Channels and positions (height x width) of a tensor for one sample; 0: not known.
struct Extent {
  int64_t channels = 0;
  int64_t positions = 0;
};

enum class Work : uint8_t {
  kNone,     // no evidence for layers: a kernel, a copy, a search, a creation
  kLayer,    // an op that reports its direction, or that exists in the forward pass only
  kProduct,  // a matrix product; BLAS does not report its direction
  kReorder,  // converts a tensor to another memory format
  kBias,     // adds a bias, or sums its gradient, for the adjacent op
};

struct OpFacts {
  Work work = Work::kNone;
  std::string type;    // Layer.type
  std::string prefix;  // of the layer's name: "conv"
  // Equal in all directions and at all batch sizes of one layer; other layers may have the same. Empty for products:
  // their sizes identify them.
  std::string key;
  Direction direction = Direction::kUnknown;
  ProductShape product;
  bool is_product = false;  // `product` is set: kProduct, and inner_product, which is a kLayer
  Extent in;
  Extent out;
};

// By OpIndex.
std::vector<OpFacts> FactsOfOps(const TraceModel& model);

// Operand addresses of a call in terms of ProductShape; 0: not known. For a product a, b, c. For cuDNN's ops, a is the
// input (or the gradient of the output), b the filter (for backward-weights: the gradient of the output), c the result.
struct Operands {
  uint64_t a = 0;
  uint64_t b = 0;
  uint64_t c = 0;
};

Operands OperandsOfCall(const TraceModel& model, const std::vector<OpFacts>& facts, CallIndex call);

bool IsBackward(Direction direction);

// Whether a product may be the gradient of another one's operand, by sizes alone; of both, if the sizes are equal.
bool MayBeGradientOfA(const ProductShape& forward, const ProductShape& gradient);
bool MayBeGradientOfB(const ProductShape& forward, const ProductShape& gradient);

bool HasSameSizes(const ProductShape& first, const ProductShape& second);

// Where the batch is in a problem of oneDNN's, which begins with it: "mb8_ic3…", "8x16x32".
std::pair<size_t, size_t> BatchDigits(absl::string_view problem);

}  // namespace dlhook::analyzer::layers
