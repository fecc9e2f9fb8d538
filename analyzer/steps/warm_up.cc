// Marks warm-up steps: see step_assembly.h.
#include <set>

#include "analyzer/steps/measured_steps.h"
#include "analyzer/steps/step_assembly.h"

namespace dlhook::analyzer::inline steps {
namespace {

constexpr double kWarmUpFactor = 1.5;  // so many times longer than later ones is slow
constexpr size_t kEnough = 3;          // steps of a batch size, to use their own median

// What a step requested from the library.
struct Asked {
  bool prepares = false;  // creates a primitive that was not cached, or tries an algorithm
  int64_t calls = 0;
};

std::vector<Asked> AskedInSteps(const TraceModel& model, const StepTrack& track) {
  std::vector<Asked> asked(track.steps.size());
  ForEachCallIn(model, track, [&](size_t step, CallIndex call) {
    const Op& op = model.ops[model.calls.op[call]];
    asked[step].prepares |= (op.is_creation && !op.cache_hit) || op.is_trial;
    asked[step].calls += op.is_creation ? 0 : 1;
  });
  return asked;
}

// Median durations of the later half of the regular steps, by batch size; of those whose scopes were recorded apart, which
// may take longer for it. Without the track's last step, which seems shorter.
class Medians {
 public:
  Medians(std::vector<Step*> steps, const Step* last) {
    std::erase_if(steps, [](const Step* step) { return !step->is_regular; });
    if (steps.size() > 1 && steps.back() == last) steps.pop_back();
    count_ = steps.size();
    std::map<bool, std::vector<const Step*>> by_scopes;
    for (const Step* step : steps) by_scopes[step->has_scopes].push_back(step);
    std::map<std::pair<bool, int64_t>, std::vector<int64_t>> durations_ns;
    for (const auto& [has_scopes, some] : by_scopes) {
      for (size_t i = some.size() / 2; i < some.size(); ++i) {
        const int64_t duration_ns = some[i]->end_ns - some[i]->start_ns;
        durations_ns[{has_scopes, kAnyBatch}].push_back(duration_ns);
        durations_ns[{has_scopes, some[i]->batch}].push_back(duration_ns);
      }
    }
    for (auto& [key, some] : durations_ns) {
      if (some.size() >= kEnough || key.second == kAnyBatch) median_ns_[key] = QuartilesOf(some).median;
    }
  }
  size_t count() const { return count_; }
  int64_t Of(const Step& step) const {
    auto found = median_ns_.find({step.has_scopes, step.batch});
    if (found == median_ns_.end()) found = median_ns_.find({step.has_scopes, kAnyBatch});
    return found == median_ns_.end() ? INT64_MAX : found->second;  // no regular step is like it
  }

 private:
  static constexpr int64_t kAnyBatch = -1;
  size_t count_ = 0;
  std::map<std::pair<bool, int64_t>, int64_t> median_ns_;
};

// The largest number of calls in the later half of the steps whose scopes were recorded, or not: of others a bounded trace has
// no single calls.
int64_t MostCalls(const std::vector<Asked>& asked, const std::vector<Step>& all, std::vector<Step*> steps,
                  bool has_scopes) {
  std::erase_if(steps, [&](const Step* step) { return step->has_scopes != has_scopes; });
  int64_t most = 0;
  for (size_t i = steps.size() / 2; i < steps.size(); ++i) {
    most = std::max(most, asked[static_cast<size_t>(steps[i] - all.data())].calls);
  }
  return most;
}

void MarkAlike(const std::vector<Asked>& asked, const std::vector<Step>& all, const std::vector<Step*>& steps) {
  const Medians medians(steps, &all.back());
  if (medians.count() < 2) return;
  const int64_t most_calls[] = {MostCalls(asked, all, steps, false), MostCalls(asked, all, steps, true)};
  for (size_t i = 0; i < steps.size() / 2; ++i) {
    Step& step = *steps[i];
    const auto duration_ns = static_cast<double>(step.end_ns - step.start_ns);
    const bool is_slow = duration_ns > kWarmUpFactor * static_cast<double>(medians.Of(step));
    const Asked& of_step = asked[static_cast<size_t>(&step - all.data())];
    const bool is_preparing = of_step.prepares || of_step.calls > most_calls[step.has_scopes ? 1 : 0];
    if (!is_slow && !is_preparing && step.is_regular) return;
    step.is_warm_up = is_slow || is_preparing;
  }
}

constexpr size_t kMaxCycle = 8;
constexpr size_t kMinCycles = 2;
constexpr double kNearlyAll = 0.9;

bool IsCycle(const std::vector<uint64_t>& updates, size_t length) {
  if (updates.size() < kMinCycles * length) return false;
  size_t equal = 0;
  for (size_t i = length; i < updates.size(); ++i) equal += updates[i] == updates[i - length] ? 1 : 0;
  if (static_cast<double>(equal) < kNearlyAll * static_cast<double>(updates.size() - length)) return false;
  size_t mixed = 0;
  const size_t cycles = updates.size() / length;
  for (size_t cycle = 0; cycle < cycles; ++cycle) {
    const auto begin = updates.begin() + static_cast<ptrdiff_t>(cycle * length);
    mixed += std::set<uint64_t>(begin, begin + static_cast<ptrdiff_t>(length)).size() > 1 ? 1 : 0;
  }
  return static_cast<double>(mixed) >= kNearlyAll * static_cast<double>(cycles);
}

}  // namespace

void MarkWarmUp(const TraceModel& model, StepTrack& track) {
  const std::vector<Asked> asked = AskedInSteps(model, track);
  std::map<std::string, std::vector<Step*>> alike;
  for (Step& step : track.steps) alike[StepName(step.kind, step.sort)].push_back(&step);
  for (auto& [name, steps] : alike) MarkAlike(asked, track.steps, steps);
}

std::vector<size_t> FindTurns(const std::vector<uint64_t>& updates) {
  std::vector<uint64_t> known;
  absl::c_copy_if(updates, std::back_inserter(known), [](uint64_t update) { return update != kNoTurn; });
  size_t length = 2;
  while (length <= kMaxCycle && !IsCycle(known, length)) ++length;
  if (length > kMaxCycle) return {};
  std::vector<size_t> places;
  size_t next = 0;
  for (uint64_t update : updates) {
    if (update == kNoTurn || update != known[next]) next = 0;
    places.push_back(next);
    if (update == known[next]) next = (next + 1) % length;
  }
  return places;
}

}  // namespace dlhook::analyzer::steps
