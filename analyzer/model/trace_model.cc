// Look-ups in the model.
#include "analyzer/model/trace_model.h"

#include <algorithm>

namespace dlhook::analyzer {

int32_t TraceModel::StatusOf(CallIndex call) const {
  const auto place =
      std::lower_bound(failed_calls.begin(), failed_calls.end(), call,
                       [](const FailedCall& failed, CallIndex index) { return failed.call < index; });
  return place != failed_calls.end() && place->call == call ? place->status : 0;
}

absl::Span<const uint64_t> TraceModel::OperandsOf(CallIndex call) const {
  const auto place = std::lower_bound(operands.call.begin(), operands.call.end(), call);
  if (place == operands.call.end() || *place != call) return {};
  const size_t index = static_cast<size_t>(place - operands.call.begin());
  const uint64_t begin = operands.begin[index];
  const uint64_t end = index + 1 < operands.begin.size() ? operands.begin[index + 1] : operands.value.size();
  return absl::MakeConstSpan(operands.value).subspan(begin, end - begin);
}

}  // namespace dlhook::analyzer
