// Rule layout-conversions: activations that oneDNN converts from the framework's memory format to its own and back.
//
// Only activations count: weights must be converted after each update, whatever the network's format. Nothing is
// reported if most of the network already computes in channels_last, or if the framework has no such format.
#include "analyzer/calls/tensor_class.h"
#include "analyzer/findings/rules.h"
#include "analyzer/model/op_kind.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kLayoutConversionsPercent = 3;

bool IsPlain(absl::string_view format) { return format == "abcd" || format == "abcde"; }
bool IsChannelsLast(absl::string_view format) { return format == "acdb" || format == "acdeb"; }

}  // namespace

bool UsesChannelsLast(const StepFacts& facts) {
  const auto is_convolution = [](const WorkItem& item) {
    return item.IsHostCompute() && IsKind(*item.op, OpKind::kConvolution) && !item.op->tensors.empty();
  };
  const double last_ns = facts.Sum(
      [&](const WorkItem& item) { return is_convolution(item) && IsChannelsLast(item.op->tensors.front().format); });
  return last_ns > 0 && last_ns >= facts.Sum(is_convolution) / 2;
}

std::vector<Finding> FindLayoutConversions(const StepFacts& facts) {
  if (!facts.UsesTorch() || UsesChannelsLast(facts)) return {};
  const TensorClasses classes(facts.model(), *facts.options().totals);
  double calls = 0, volumes_ns = 0;
  const auto is_conversion = [&](const WorkItem& item) {
    if (!item.IsHostCompute()) return false;
    const std::optional<TensorMove> move = MoveOf(*item.op, classes);
    return move && (move->tensor & TensorClass::kActivations) != 0 && (IsPlain(move->from) || IsPlain(move->to));
  };
  const double ns = facts.Sum([&](const WorkItem& item) {
    if (!is_conversion(item)) return false;
    calls += item.calls;
    if (absl::c_count(MoveOf(*item.op, classes)->dims, 'x') == 4) volumes_ns += item.ns;
    return true;
  });
  if (!facts.IsAtLeast(ns, kLayoutConversionsPercent)) return {};
  const char* const format = volumes_ns > ns / 2 ? "torch.channels_last_3d" : "torch.channels_last";
  return {
      {.where = facts.LayersOf(is_conversion),
       .line = facts.LineOfLongest(is_conversion),
       .sentence = absl::StrFormat("%.0f conversions of activations between memory formats take %s.", calls,
                                   facts.PartOfStep(ns)),
       .gain_ns = ns,
       .basis = GainBasis::kComputed,
       .evidence = "table layout: rows of activations. The gain is their time; what the other format does to the "
                   "rest of the step is not in it",
       .advice = absl::StrFormat(
           "model = model.to(memory_format=%s), and the same for the input: x = x.to(memory_format=%s). Compare two "
           "runs: some operators are slower in this format.",
           format, format)}};
}

}  // namespace dlhook::analyzer::findings
