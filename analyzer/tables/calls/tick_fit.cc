#include "analyzer/tables/calls/tick_fit.h"

#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr size_t kParts = 10;
constexpr size_t kFewestSamples = 100;
constexpr double kNearlyAll = 0.9;
constexpr double kDeviations = 5;

struct Met {
  std::vector<double> places;
  int64_t cpu_ns = 0;
};

}  // namespace

bool MeetsTheSamePlaces(const std::vector<double>& places, double computing) {
  if (places.size() < kFewestSamples || computing < kNearlyAll) return false;
  std::array<double, kParts> counts = {};
  for (const double place : places) ++counts[std::min(static_cast<size_t>(place * kParts), kParts - 1)];
  const double expected = static_cast<double>(places.size()) / kParts;
  const double most = *absl::c_max_element(counts);
  return most > 2 * expected && most > expected + kDeviations * std::sqrt(expected);
}

std::vector<std::string> TickNotes(const TraceModel& model, const std::vector<StepGroup>& groups) {
  std::vector<std::string> notes;
  for (const StepGroup& group : groups) {
    std::map<ThreadIndex, Met> met;
    for (size_t i = 0; i < model.samples.size(); ++i) {
      if (model.threads[model.samples.thread[i]].process != group.process) continue;
      const int64_t ns = model.samples.time_ns[i];
      const size_t at = StepAt(group.steady, ns);
      if (at == kNone) continue;
      const Step& step = *group.steady[at];
      Met& thread = met[model.samples.thread[i]];
      thread.places.push_back(static_cast<double>(ns - step.start_ns) /
                              static_cast<double>(step.end_ns - step.start_ns));
      thread.cpu_ns += model.samples.cpu_ns[i];
    }
    const auto most =
        absl::c_max_element(met, [](const auto& a, const auto& b) { return a.second.cpu_ns < b.second.cpu_ns; });
    const int64_t steps_ns = DurationOf(group.steady);
    if (most == met.end() || steps_ns <= 0) continue;
    const double computing = static_cast<double>(most->second.cpu_ns) / static_cast<double>(steps_ns);
    if (!MeetsTheSamePlaces(most->second.places, computing)) continue;
    notes.push_back(absl::StrCat("Samples met the ", SteadySteps(std::ssize(group.steady), group.kind, group.sort),
                                 " of ", HumanTime(steps_ns / std::ssize(group.steady)),
                                 " at the same places again and again: their period fits that of the kernel's ticks. "
                                 "What part of such a step a function has is not known by them; another length of the "
                                 "step (another batch size) tells it, or perf record -e cpu-clock."));
  }
  return notes;
}

}  // namespace dlhook::analyzer::tables
