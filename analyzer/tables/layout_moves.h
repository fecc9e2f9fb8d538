// Which ops convert a tensor from one layout or type to another, and which tensor it is.
#pragma once

#include "analyzer/calls/tensor_class.h"
#include "analyzer/model/op.h"

namespace dlhook::analyzer::inline tables {

struct Move {
  std::string dims;
  TensorClassSet tensor = 0;
  std::string change;
  std::string from, to;
  std::string from_type, to_type;
  auto operator<=>(const Move&) const = default;
};

// oneDNN reorders; cuDNN's transforms and reorders; cublasLtMatrixTransform; cublas<t>geam with a transpose; conversion
// kernels, by name. nullopt: the op converts nothing.
std::optional<Move> MoveOf(const Op& op, const TensorClasses& classes);

}  // namespace dlhook::analyzer::tables
