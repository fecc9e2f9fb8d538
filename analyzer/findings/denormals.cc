// Rule denormals: an operation gets slower while the run goes on, with the same shapes, and the others do not: values
// below 1.2e-38, which many processors compute several times slower, are the usual cause.
//
// Compared are durations in the first and the last third of the steady steps, by their lower quartiles, which
// interruptions hardly reach: the late one is twice the early one, and well above the early median. A neighbour or a lower
// frequency slows all down, so most other operations must have kept their pace. The framework's ops have no shapes: they
// count only if the library calls of both thirds are the same. The gain: a mean step's time above the early quartile.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_format.h"
#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kDenormalsPercent = 5;
constexpr double kSlower = 2;
constexpr double kApart = 1.5;
constexpr double kSamePace = 1.6;
constexpr size_t kLeastInThird = 8;  // durations
constexpr double kShortNs = 5'000;   // shorter ones are mostly the framework's own time
constexpr double kMostOthers = 0.7;  // of the others' time is in operations that kept their pace …
constexpr double kLeastOthers = 5;   // … and takes this percentage of a step

struct Durations {
  std::vector<int64_t> early, late;
  double sum_ns = 0;  // all steady steps
  double count = 0;

  static int64_t At(std::vector<int64_t> values, double part) {
    const auto nth = values.begin() + static_cast<ptrdiff_t>(part * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), nth, values.end());
    return *nth;
  }
  bool AreEnough() const { return early.size() >= kLeastInThird && late.size() >= kLeastInThird; }
  double Early() const { return static_cast<double>(std::max<int64_t>(At(early, 0.25), 1)); }
  double Ratio() const { return static_cast<double>(At(late, 0.25)) / Early(); }
  bool IsSlower() const {
    const bool are_apart = static_cast<double>(At(late, 0.25)) >= kApart * static_cast<double>(At(early, 0.5));
    return are_apart && Ratio() >= kSlower && Early() >= kShortNs;
  }
};

// A call's op; or a framework op by name and place.
using What = std::tuple<bool, uint32_t, LayerIndex, LayerDirection>;

struct OpenScope {
  ScopeIndex scope = kNone;
  int64_t self_ns = 0;  // without the scopes inside
};

class OverTime {
 public:
  explicit OverTime(const StepFacts& facts) : facts_(facts) {
    for (const StepTrack& track : facts.steps().tracks) AddTrack(track);
  }
  const std::map<What, Durations>& durations() const { return durations_; }
  bool AreShapesEqual() const {
    return std::all_of(durations_.begin(), durations_.end(), [](const auto& one) {
      return !std::get<0>(one.first) || one.second.early.size() == one.second.late.size();
    });
  }

 private:
  void AddTrack(const StepTrack& track) {
    const TraceModel& model = facts_.model();
    const size_t third = track.steps.size() / 3;
    if (third == 0) return;
    for (ThreadIndex thread = 0; thread < model.threads.size(); ++thread) {
      if (model.threads[thread].process != track.process) continue;
      size_t step = 0;
      const auto [first, last] = model.calls.RangeOf(thread);
      for (CallIndex call = first; call < last; ++call) {
        const Op& op = model.ops[model.calls.op[call]];
        if (op.on_gpu || op.is_creation || op.flops.value_or(0) == 0 || model.calls.parent[call] != kNone) continue;
        Add(track, third, model.calls.start_ns[call], model.calls.duration_ns[call],
            {true, model.calls.op[call], kNone, LayerDirection::kUnknown}, step);
      }
    }
    std::vector<bool> has_call(model.scopes.size());
    for (CallIndex call = 0; call < model.calls.size(); ++call) {
      if (const ScopeIndex scope = model.calls.ScopeOf(call); scope != kNone) has_call[scope] = true;
    }
    for (ThreadIndex thread = 0; thread < model.threads.size(); ++thread) {
      if (model.threads[thread].process == track.process) AddScopes(track, third, thread, has_call);
    }
  }

  void AddScopes(const StepTrack& track, size_t third, ThreadIndex thread, const std::vector<bool>& has_call) {
    const ScopeColumns& scopes = facts_.model().scopes;
    size_t step = 0;
    const auto close = [&](const OpenScope& open) {
      if (has_call[open.scope] || scopes.kind[open.scope] != ScopeKind::kFrameworkOp) return;
      const Place& place = facts_.attribution().of_scope[open.scope];
      Add(track, third, scopes.start_ns[open.scope], open.self_ns,
          {false, scopes.name[open.scope], place.layer, place.direction}, step);
    };
    // Inner scopes follow the one around them.
    std::vector<OpenScope> open;
    const auto [first, last] = scopes.thread.RangeOf(thread);
    for (ScopeIndex scope = first; scope < last; ++scope) {
      const ScopeIndex parent = scopes.parent[scope];
      while (!open.empty() && open.back().scope != parent) {
        close(open.back());
        open.pop_back();
      }
      if (!open.empty()) open.back().self_ns -= scopes.duration_ns[scope];
      open.push_back({scope, scopes.duration_ns[scope]});
    }
    while (!open.empty()) {
      close(open.back());
      open.pop_back();
    }
  }

  // `step`: of the one before; in a thread they come nearly in order.
  void Add(const StepTrack& track, size_t third, int64_t start_ns, int64_t ns, const What& what, size_t& step) {
    while (step > 0 && (step == track.steps.size() || start_ns < track.steps[step].start_ns)) --step;
    while (step < track.steps.size() && track.steps[step].end_ns <= start_ns) ++step;
    if (step == track.steps.size() || start_ns < track.steps[step].start_ns) return;
    Durations& durations = durations_[what];
    durations.sum_ns += static_cast<double>(ns);
    ++durations.count;
    if (step < third) durations.early.push_back(ns);
    if (step >= track.steps.size() - third) durations.late.push_back(ns);
  }

  const StepFacts& facts_;
  std::map<What, Durations> durations_;
};

}  // namespace

std::vector<Finding> FindDenormals(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.HasGpuTimes()) return {};
  const OverTime over(facts);
  const bool counts_scopes = over.AreShapesEqual();
  double gain_ns = 0, kept_ns = 0, others_ns = 0, ratio = 0, most_ns = 0;
  std::set<What> slower;
  What largest;
  for (const auto& [what, durations] : over.durations()) {
    if (!durations.AreEnough()) continue;
    const bool is_call = std::get<0>(what);
    if (!durations.IsSlower()) {
      others_ns += durations.sum_ns;
      kept_ns += durations.Ratio() <= kSamePace ? durations.sum_ns : 0;
      continue;
    }
    if (!is_call && !counts_scopes) continue;
    const double more_ns = durations.sum_ns - durations.count * durations.Early();
    gain_ns += std::max(more_ns, 0.0);
    slower.insert(what);
    if (more_ns <= most_ns) continue;
    most_ns = more_ns;
    ratio = durations.Ratio();
    largest = what;
  }
  gain_ns = std::min(gain_ns / facts.count(), facts.step_ns());
  if (!facts.IsAtLeast(gain_ns, kDenormalsPercent) || kept_ns < kMostOthers * others_ns) return {};
  if (!facts.IsAtLeast(kept_ns / facts.count(), kLeastOthers)) return {};
  const auto is_in = [&](const WorkItem& item) {
    return std::any_of(slower.begin(), slower.end(), [&](const What& what) {
      const auto& [is_call, index, layer, direction] = what;
      if (is_call) return item.IsCall() && item.doing.what == index;
      return item.scope != nullptr && item.doing.what == index && item.doing.direction == direction;
    });
  };
  const TraceModel& model = facts.model();
  const uint32_t index = std::get<1>(largest);
  Finding finding;
  finding.where = facts.LayersOf(is_in);
  finding.line = facts.LineOfLongest(is_in);
  finding.sentence = absl::StrFormat(
      "%s takes %.1f times as long in the last third of the steps as in the first, with the same shapes, and the other "
      "operations do not: %s.",
      std::get<0>(largest) ? model.ops[index].kind : model.names[index], ratio, facts.PartOfStep(gain_ns));
  finding.gain_ns = gain_ns;
  finding.basis = GainBasis::kComputed;
  finding.confidence = Confidence::kLow;
  finding.evidence =
      "durations of each operation in the first and last third; the gain is the time above the first's lower quartile";
  finding.advice =
      "Values below 1.2e-38 (denormals) are the usual cause, zeros another for a square root or logarithm (MKL): "
      "torch.set_flush_denormal(True) makes the former zero, an epsilon avoids both; or find what decays (weights, "
      "states, gradients).";
  finding.changes_numerics = true;
  return {finding};
}

}  // namespace dlhook::analyzer::findings
