// Marks warm-up steps: see step_assembly.h.

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

// The later half of the steps whose scopes were recorded, which may take longer for it, and of the others, of which a bounded
// trace has no single calls.
std::vector<Step*> LaterHalf(const std::vector<Step*>& steps) {
  std::vector<Step*> later;
  for (const bool has_scopes : {false, true}) {
    std::vector<Step*> some;
    absl::c_copy_if(steps, std::back_inserter(some), [&](const Step* step) { return step->has_scopes == has_scopes; });
    later.insert(later.end(), some.begin() + static_cast<std::ptrdiff_t>(some.size() / 2), some.end());
  }
  return later;
}

// Median durations of the later half of these, by whether scopes were recorded and by batch size.
class Medians {
 public:
  explicit Medians(const std::vector<Step*>& regular) {
    std::map<std::pair<bool, int64_t>, std::vector<int64_t>> durations_ns;
    for (const Step* step : LaterHalf(regular)) {
      for (const int64_t batch : {kAnyBatch, step->batch})
        durations_ns[{step->has_scopes, batch}].push_back(step->end_ns - step->start_ns);
    }
    for (auto& [key, some] : durations_ns) {
      if (some.size() >= kEnough || key.second == kAnyBatch) median_ns_[key] = QuartilesOf(some).median;
    }
  }

  int64_t Of(const Step& step) const {
    auto found = median_ns_.find({step.has_scopes, step.batch});
    if (found == median_ns_.end()) found = median_ns_.find({step.has_scopes, kAnyBatch});
    return found == median_ns_.end() ? INT64_MAX : found->second;  // no regular step is like it
  }

 private:
  static constexpr int64_t kAnyBatch = -1;
  std::map<std::pair<bool, int64_t>, int64_t> median_ns_;
};

void MarkAlike(const std::vector<Asked>& asked, const std::vector<Step>& all, const std::vector<Step*>& steps) {
  std::vector<Step*> regular;
  absl::c_copy_if(steps, std::back_inserter(regular), [](const Step* step) { return step->is_regular; });
  if (regular.size() > 1 && regular.back() == &all.back()) regular.pop_back();  // it seems shorter
  if (regular.size() < 2) return;
  const Medians medians(regular);
  const auto asked_in = [&](const Step& step) { return asked[static_cast<size_t>(&step - all.data())]; };
  std::map<bool, int64_t> most_calls;  // by whether scopes were recorded
  for (const Step* step : LaterHalf(steps)) {
    int64_t& most = most_calls[step->has_scopes];
    most = std::max(most, asked_in(*step).calls);
  }
  for (size_t i = 0; i < steps.size() / 2; ++i) {
    Step& step = *steps[i];
    const auto duration_ns = static_cast<double>(step.end_ns - step.start_ns);
    const bool is_slow = duration_ns > kWarmUpFactor * static_cast<double>(medians.Of(step));
    const bool is_preparing = asked_in(step).prepares || asked_in(step).calls > most_calls[step.has_scopes];
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
  std::vector<Step*>* last = nullptr;
  for (Step& step : track.steps) {
    if (last == nullptr || last->back()->kind != step.kind || last->back()->sort != step.sort)
      last = &alike[StepName(step.kind, step.sort)];
    last->push_back(&step);
  }
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
