#include "analyzer/work/generation.h"

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"

namespace dlhook::analyzer::inline work {
namespace {

constexpr double kPromptFactor = 4;
constexpr double kEqualFactor = 2;
constexpr size_t kLeastPasses = 2;  // after the prompt's
constexpr size_t kLeastSequences = 2;

bool HasAttention(const StepFacts& facts) {
  return absl::c_any_of(facts.items(), [](const WorkItem& item) {
    return item.scope != nullptr &&
           (absl::StrContains(item.scope->op, "attention") || absl::StrContains(item.scope->op, "softmax"));
  });
}

// The requests of the thread, in order; null unless it is the only one that has some.
const StepTrack* OnlyTrack(const StepFacts& facts) {
  const StepTrack* only = nullptr;
  for (const StepTrack& track : facts.options().analysis->steps()) {
    if (absl::c_none_of(track.steps, [](const Step& step) { return step.kind == StepKind::kInference; })) continue;
    if (only != nullptr) return nullptr;
    only = &track;
  }
  return only;
}

// Of each of the steps, in ascending order.
std::vector<double> FlopsOf(const TraceModel& model, ProcessIndex process, const std::vector<const Step*>& steps) {
  std::vector<double> flops(steps.size());
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const std::optional<int64_t> of_call = model.ops[model.calls.op[call]].flops;
    if (!of_call || model.threads[model.calls.thread[call]].process != process) continue;
    const int64_t start_ns = model.calls.start_ns[call];
    const auto after = std::upper_bound(steps.begin(), steps.end(), start_ns,
                                        [](int64_t ns, const Step* step) { return ns < step->start_ns; });
    if (after == steps.begin() || start_ns >= (*(after - 1))->end_ns) continue;
    flops[static_cast<size_t>(after - steps.begin()) - 1] += static_cast<double>(*of_call);
  }
  return flops;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

double DurationOf(const Step& step) { return static_cast<double>(step.end_ns - step.start_ns); }

}  // namespace

std::optional<Generation> FindGeneration(const StepFacts& facts) {
  const StepTrack* const track = OnlyTrack(facts);
  if (facts.steps().kind != StepKind::kInference || track == nullptr || !HasAttention(facts)) return std::nullopt;
  std::vector<const Step*> passes;
  for (const Step& step : track->steps) {
    if (!step.is_warm_up && step.kind == StepKind::kInference) passes.push_back(&step);
  }
  if (passes.empty()) return std::nullopt;
  const std::vector<double> flops = FlopsOf(facts.model(), track->process, passes);
  const double usual = Median(flops);
  std::vector<size_t> prompts;
  for (size_t i = 0; i < passes.size(); ++i) {
    if (flops[i] >= kPromptFactor * usual) {
      if (!prompts.empty() && i - prompts.back() <= kLeastPasses) return std::nullopt;
      prompts.push_back(i);
    } else if (flops[i] > kEqualFactor * usual || kEqualFactor * flops[i] < usual) {
      return std::nullopt;  // batches of many sizes
    }
  }
  if (usual == 0 || prompts.size() <= kLeastSequences) return std::nullopt;
  Generation sum;
  double decoded = 0;
  for (size_t i = 0; i + 1 < prompts.size(); ++i) {
    const size_t first = prompts[i], next = prompts[i + 1];
    ++sum.sequences;
    sum.prefill_ns += DurationOf(*passes[first]);
    for (size_t pass = first + 1; pass < next; ++pass) sum.decode_ns += DurationOf(*passes[pass]);
    decoded += static_cast<double>(next - first - 1);
    sum.sequence_ns += static_cast<double>(passes[next - 1]->end_ns - passes[first]->start_ns);
  }
  const auto sequences = static_cast<double>(sum.sequences);
  return Generation{sum.sequences, sum.prefill_ns / sequences, sum.decode_ns / decoded, 1 + decoded / sequences,
                    sum.sequence_ns / sequences};
}

}  // namespace dlhook::analyzer::work
