// Reorders and the layers that need them: see networks.h.

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "analyzer/layers/structure/networks.h"
#include "analyzer/model/op_cost.h"

namespace dlhook::analyzer::inline structure {
namespace {

// The calls of one thread around a reorder; kNone if none.
struct Neighbours {
  CallIndex before = kNone;
  CallIndex after = kNone;
};

const Tensor* TensorOf(const Op& op, const char* role) {
  for (const Tensor& tensor : op.tensors) {
    if (tensor.role == role) return &tensor;
  }
  return nullptr;
}

// Filters are converted with and without their group dimension, those of deconvolutions with swapped channels.
bool HasDims(const Tensor& tensor, const std::vector<int64_t>& dims, bool in_any_shape) {
  if (tensor.dims == dims) return true;
  if (!in_any_shape || dims.empty() || tensor.dims.empty()) return false;
  const std::optional<int64_t> count = ElementCount(dims);
  if (tensor.dims.size() != dims.size()) return count && ElementCount(tensor.dims) == count;
  return std::is_permutation(dims.begin(), dims.end(), tensor.dims.begin());
}

// True for a library's own format, such as "aBcd16b"; false for "abcd", "acdb".
bool IsBlocked(const std::string& format) {
  return absl::c_any_of(format, [](unsigned char c) { return absl::ascii_isdigit(c); });
}

class Charges {
 public:
  Charges(const TraceModel& model, const std::vector<Place>& places) : model_(model), places_(places) {}

  // The op that needs the reorder; kNone: neither.
  CallIndex CauseOf(CallIndex reorder, const Neighbours& neighbours) const {
    const Op& op = model_.ops[model_.calls.op[reorder]];
    const Tensor* from = TensorOf(op, "src");
    const Tensor* to = TensorOf(op, "dst");
    if (from == nullptr || to == nullptr) return kNone;
    for (bool in_any_shape : {false, true}) {
      const bool takes_back = Takes(neighbours.before, *from, /*in_format=*/true, in_any_shape);
      const bool leaves_library = IsBlocked(from->format) && !IsBlocked(to->format);
      // A gradient stays in a plain format for the program: what enters a blocked one is the next layer's filter.
      const bool enters_library = !IsBlocked(from->format) && IsBlocked(to->format);
      if (takes_back &&
          (leaves_library || (!enters_library && IsParameterGradient(neighbours.before, *from, in_any_shape)))) {
        return neighbours.before;
      }
      if (Takes(neighbours.after, *to, /*in_format=*/true, in_any_shape)) return neighbours.after;
      if (takes_back) return neighbours.before;
    }
    for (bool in_any_shape : {false, true}) {
      if (Takes(neighbours.after, *to, /*in_format=*/false, in_any_shape)) return neighbours.after;
      if (Takes(neighbours.before, *from, /*in_format=*/false, in_any_shape)) return neighbours.before;
    }
    return kNone;
  }

 private:
  bool Takes(CallIndex call, const Tensor& moved, bool in_format, bool in_any_shape) const {
    if (call == kNone || places_[call].layer == kNone) return false;
    const Op& op = model_.ops[model_.calls.op[call]];
    return absl::c_any_of(op.tensors, [&](const Tensor& tensor) {
      return HasDims(tensor, moved.dims, in_any_shape) && (!in_format || tensor.format == moved.format);
    });
  }

  // Gradients of weights and biases are converted to the program's format after they are computed; those of the next
  // layer may have the same dimensions.
  bool IsParameterGradient(CallIndex call, const Tensor& moved, bool in_any_shape) const {
    const Op& op = model_.ops[model_.calls.op[call]];
    if (op.direction != Direction::kBackwardWeights && op.direction != Direction::kBackward) return false;
    // Only some primitives mark gradients ("diff_wei_layer"); a backward convolution's result is just "wei".
    const auto is_named_apart = [](const Tensor& tensor) { return absl::StartsWith(tensor.role, "diff_wei"); };
    const bool apart = absl::c_any_of(op.tensors, is_named_apart);
    return absl::c_any_of(op.tensors, [&](const Tensor& tensor) {
      const bool is_parameter = (absl::StrContains(tensor.role, "wei") || absl::StrContains(tensor.role, "bia")) &&
                                (!apart || absl::StartsWith(tensor.role, "diff_"));
      return is_parameter && tensor.format == moved.format && HasDims(tensor, moved.dims, in_any_shape);
    });
  }

  const TraceModel& model_;
  const std::vector<Place>& places_;
};

}  // namespace

int64_t ChargeReorders(const TraceModel& model, const std::vector<OpFacts>& facts, absl::Span<const CallIndex> calls,
                       std::vector<Place>& places) {
  const Charges charges(model, places);
  const auto is_reorder = [&](CallIndex call) { return facts[model.calls.op[call]].work == Work::kReorder; };
  std::vector<CallIndex> last(model.threads.size(), kNone);  // by thread: the last call that is not a reorder
  std::vector<Neighbours> neighbours(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    CallIndex& seen = last[model.calls.thread[calls[i]]];
    neighbours[i].before = seen;
    if (!is_reorder(calls[i])) seen = calls[i];
  }
  absl::c_fill(last, kNone);
  for (size_t i = calls.size(); i-- > 0;) {
    CallIndex& seen = last[model.calls.thread[calls[i]]];
    neighbours[i].after = seen;
    if (!is_reorder(calls[i])) seen = calls[i];
  }
  int64_t left = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!is_reorder(calls[i]) || places[calls[i]].layer != kNone) continue;
    const CallIndex cause = charges.CauseOf(calls[i], neighbours[i]);
    if (cause == kNone) {
      ++left;
    } else {
      places[calls[i]] = places[cause];
    }
  }
  return left;
}

}  // namespace dlhook::analyzer::structure
