// Which ops convert a tensor from one layout or type to another, and whether it is of weights or activations.
#pragma once

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline calls {

// What a tensor may be: a set of them.
struct TensorClass {
  enum : uint8_t { kWeights = 1, kBias = 2, kActivations = 4, kMatrix = 8 };
};
using TensorClassSet = uint8_t;
// "weights", "bias", "activations"; "activations or weights" if both match; "unknown" if none does.
std::string TensorClassText(TensorClassSet classes);

// Classifies the tensors of all ops of a run other than reorders by their roles (wei: weights; bia: bias; src, dst,
// data: activations, including gradients). A reorder is matched by dims and one of its two formats; else by dims; else
// by dims with the first two swapped (deconvolutions store weights both ways).
class TensorClasses {
 public:
  TensorClasses(const TraceModel& model, const RunTotals& totals);
  TensorClassSet Of(const Op& reorder) const;

 private:
  std::map<std::pair<std::vector<int64_t>, std::string>, TensorClassSet> by_format_;
  std::map<std::vector<int64_t>, TensorClassSet> by_dims_;
};

// Kernels that only convert a tensor to another layout or type, recognized by name.
struct ConversionKernel {
  absl::string_view part;  // of the kernel's full name
  absl::string_view from;  // memory formats, if the name gives them
  absl::string_view to;
  absl::string_view change;  // text for the column `change`
};

// nullptr: not such a kernel, as far as its name shows.
const ConversionKernel* FindConversionKernel(absl::string_view kernel_name);

struct TensorMove {
  std::string dims;
  TensorClassSet tensor = 0;
  std::string change;
  std::string from, to;
  std::string from_type, to_type;
  auto operator<=>(const TensorMove&) const = default;
};

// oneDNN reorders; cuDNN's transforms and reorders; cublasLtMatrixTransform; cublas<t>geam with a transpose; conversion
// kernels, by name. nullopt: the op converts nothing.
std::optional<TensorMove> MoveOf(const Op& op, const TensorClasses& classes);

}  // namespace dlhook::analyzer::calls
