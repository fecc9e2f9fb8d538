// Steps that are not yet like the others: see warm_up.h.
#include "analyzer/layers/warm_up.h"

#include <algorithm>
#include <map>
#include <vector>

#include "analyzer/layers/iterations.h"

namespace dlhook::analyzer {
namespace {

constexpr double kWarmUpFactor = 1.5;
constexpr size_t kEnough = 3;  // steps of a batch size, to have a median of their own

// By step: a primitive was created that no cache had, or an algorithm tried.
std::vector<bool> Preparing(const TraceModel& model, const StepTrack& track) {
  std::vector<bool> preparing(track.steps.size(), false);
  const auto [begin, end] = model.calls.RangeOf(track.thread);
  for (CallIndex call = begin; call < end; ++call) {
    const Op& op = model.ops[model.calls.op[call]];
    if (!(op.is_creation && !op.cache_hit) && !op.is_trial) continue;
    if (model.threads[model.calls.thread[call]].process != track.process) continue;
    const auto after = std::upper_bound(track.steps.begin(), track.steps.end(), model.calls.start_ns[call],
                                        [](int64_t ns, const Step& step) { return ns < step.start_ns; });
    if (after != track.steps.begin()) preparing[static_cast<size_t>(after - track.steps.begin()) - 1] = true;
  }
  return preparing;
}

// Median durations of the later half of the steps, by batch size. Of regular ones; without the track's last one, which is cut
// short.
class Medians {
 public:
  Medians(std::vector<Step*> steps, const Step* last) {
    std::erase_if(steps, [](const Step* step) { return !step->is_regular; });
    if (steps.size() > 1 && steps.back() == last) steps.pop_back();
    count_ = steps.size();
    std::vector<int64_t> all;
    std::map<int64_t, std::vector<int64_t>> by_batch;
    for (size_t i = steps.size() / 2; i < steps.size(); ++i) {
      const int64_t duration_ns = steps[i]->end_ns - steps[i]->start_ns;
      all.push_back(duration_ns);
      by_batch[steps[i]->batch].push_back(duration_ns);
    }
    all_ns_ = QuartilesOf(all).median;
    for (auto& [batch, durations] : by_batch) {
      if (durations.size() >= kEnough) median_ns_[batch] = QuartilesOf(durations).median;
    }
  }
  size_t count() const { return count_; }
  int64_t Of(int64_t batch) const {
    const auto found = median_ns_.find(batch);
    return found == median_ns_.end() ? all_ns_ : found->second;
  }

 private:
  size_t count_ = 0;
  int64_t all_ns_ = 0;
  std::map<int64_t, int64_t> median_ns_;
};

void MarkKind(const std::vector<bool>& preparing, const std::vector<Step>& all, const std::vector<Step*>& steps) {
  const Medians medians(steps, &all.back());
  if (medians.count() < 2) return;
  for (size_t i = 0; i < steps.size() / 2; ++i) {
    Step& step = *steps[i];
    const auto duration_ns = static_cast<double>(step.end_ns - step.start_ns);
    const bool is_slow = duration_ns > kWarmUpFactor * static_cast<double>(medians.Of(step.batch));
    const bool is_preparing = preparing[static_cast<size_t>(&step - all.data())];
    if (!is_slow && !is_preparing && step.is_regular) return;
    step.is_warm_up = is_slow || is_preparing;
  }
}

}  // namespace

void MarkWarmUp(const TraceModel& model, StepTrack& track) {
  const std::vector<bool> preparing = Preparing(model, track);
  std::map<IterationKind, std::vector<Step*>> by_kind;
  for (Step& step : track.steps) by_kind[step.kind].push_back(&step);
  for (auto& [kind, steps] : by_kind) MarkKind(preparing, track.steps, steps);
}

}  // namespace dlhook::analyzer
