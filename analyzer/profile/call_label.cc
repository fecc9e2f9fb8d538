// Labels of calls: see call_label.h.
#include "analyzer/profile/call_label.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/calls/op_labels.h"

namespace dlhook::analyzer::inline profiles {

std::string CallLabel(const Op& op) {
  // A tap has no function that the user knows: "onednn:exec".
  const bool is_tap = absl::StrContains(op.function, ':');
  std::string label = is_tap ? absl::StrCat(op.family, " ", KindLabel(op)) : op.function;
  if (is_tap && op.direction != Direction::kUnknown) absl::StrAppend(&label, " ", DirectionName(op.direction));
  if (!is_tap && (op.is_trial || op.captured)) absl::StrAppend(&label, " ", KindLabel(op));
  for (const std::string& word : {op.kernel_short, op.implementation, ProblemLabel(op)}) {
    const bool is_new = word != op.function;  // equal if nothing was decoded
    if (!word.empty() && is_new) absl::StrAppend(&label, " ", word);
  }
  return label;
}

}  // namespace dlhook::analyzer::profiles
