// Weights or activations: what a reorder moves.
#ifndef DLHOOK_ANALYZER_CALLS_TENSOR_CLASS_H_
#define DLHOOK_ANALYZER_CALLS_TENSOR_CLASS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline calls {

// Knows the tensors of all ops of a run other than reorders, by the roles in which they take part
// (wei: weights; bia: bias; src, dst, data: activations, their gradients included). A reorder moves
// what has its dims and one of its two formats; failing that its dims; failing that its dims with
// the first two exchanged (deconvolutions store weights both ways).
class TensorClasses {
 public:
  TensorClasses(const TraceModel& model, const RunTotals& totals);
  // "weights", "bias", "activations"; "activations or weights" where both fit; "unknown" where none
  // does.
  std::string Of(const Op& reorder) const;

 private:
  std::map<std::pair<std::vector<int64_t>, std::string>, int> by_format_;
  std::map<std::vector<int64_t>, int> by_dims_;
};

}  // namespace dlhook::analyzer::calls

#endif  // DLHOOK_ANALYZER_CALLS_TENSOR_CLASS_H_
