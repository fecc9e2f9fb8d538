// Rule denormals: an operation gets slower while the run goes on, with the same shapes, and the others do not: values
// below 1.2e-38, which many processors compute several times slower, are the usual cause.
//
// Compared are the lower quartile of the durations in the first third of the steady steps and the lowest tenth of those in the
// last third, which interruptions hardly reach: the late one is twice the early one, and well above the early median. A neighbour or a lower
// frequency slows all down: so the late one must be so much beyond what the others' times grew by, and most of the others
// must have grown alike. The framework's ops have no shapes: they count only if the library calls of both thirds are the
// same, and not where steps grow steadily (growing-steps). The gain: a mean step's time above the early quartile, less
// the others' growth. Of a long run every k-th step
// counts: quartiles of thousands are exact enough.

#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kDenormalsPercent = 5;
constexpr double kSlower = 2;
constexpr double kApart = 1.5;
constexpr double kSamePace = 1.6;  // of the others' growth
constexpr double kNearlyLeast =
    0.1;  // of the late ones: slow values are slow each time, other programs' time slices are not
constexpr size_t kLeastInThird = 8;    // durations
constexpr size_t kMostInThird = 4096;  // steps
constexpr double kShortNs = 5'000;     // shorter ones are mostly the framework's own time
constexpr double kMostOthers = 0.7;    // of the others' time is in operations that kept their pace …
constexpr double kLeastOthers = 5;     // … and takes this percentage of a step
constexpr double kNamedPart = 0.2;     // of what the largest brings: less does not make a layer or line worth naming

// Durations in nanoseconds: as floats, exact to a ten-millionth, since there may be tens of millions.
using Sample = std::vector<float>;

// Reorders them.
double ValueAt(double part, Sample& sample) {
  return NthOf(sample, static_cast<size_t>(part * static_cast<double>(sample.size() - 1)));
}

struct Durations {
  Sample early, late;
  double sum_ns = 0;  // all steps that count
  double count = 0;

  bool AreEnough() const { return early.size() >= kLeastInThird && late.size() >= kLeastInThird; }
};

// A call's op; or a framework op by name and place.
using What = std::tuple<bool, uint32_t, LayerIndex, LayerDirection>;

// Quartiles of an operation with enough durations.
struct Pace {
  explicit Pace(Durations& of)
      : durations(&of),
        early(std::max(ValueAt(0.25, of.early), 1.0)),
        early_median(ValueAt(0.5, of.early)),
        late(ValueAt(kNearlyLeast, of.late)) {}
  double Ratio() const { return late / early; }
  // `growth`: of the others' times.
  bool IsSlower(double growth) const {
    return late >= growth * kApart * early_median && Ratio() >= growth * kSlower && early >= kShortNs;
  }

  const Durations* durations;
  double early, early_median, late;
};

// What the times of operations grew by that are not slower by themselves: the median by their early time, at least 1.
double GrowthOf(const std::map<What, Pace>& paces) {
  std::vector<std::pair<double, double>> ratios;  // with the time
  double all_ns = 0;
  for (const auto& [what, pace] : paces) {
    if (pace.IsSlower(1)) continue;
    ratios.emplace_back(pace.Ratio(), pace.early * pace.durations->count);
    all_ns += ratios.back().second;
  }
  absl::c_sort(ratios);
  double below_ns = 0;
  for (const auto& [ratio, ns] : ratios) {
    below_ns += ns;
    if (2 * below_ns >= all_ns) return std::max(ratio, 1.0);
  }
  return 1;
}

struct OpenScope {
  ScopeIndex scope = kNone;
  int64_t self_ns = 0;  // without the scopes inside
};

class OverTime {
 public:
  explicit OverTime(const StepFacts& facts) : facts_(facts) {
    for (const StepTrack& track : facts.steps().tracks) AddTrack(track);
  }
  double steps() const { return steps_; }  // that count
  std::map<What, Durations>& durations() { return durations_; }
  bool AreShapesEqual() const {
    return absl::c_all_of(durations_, [](const auto& one) {
      return !std::get<0>(one.first) || one.second.early.size() == one.second.late.size();
    });
  }

 private:
  void AddTrack(const StepTrack& track) {
    const TraceModel& model = facts_.model();
    size_t third = track.steps.size() / 3;
    every_ = third / kMostInThird + 1;
    third -= third % every_;  // both thirds have as many that count
    steps_ += static_cast<double>((track.steps.size() + every_ - 1) / every_);
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
      if (has_call[open.scope] || scopes.look[open.scope].kind != ScopeKind::kFrameworkOp) return;
      const Place& place = facts_.attribution().of_scope[open.scope];
      Add(track, third, scopes.start_ns[open.scope], open.self_ns,
          {false, scopes.look[open.scope].name, place.layer, place.direction}, step);
    };
    // Inner scopes follow the one around them.
    std::vector<OpenScope> open;
    const auto [first, last] = scopes.thread.RangeOf(thread);
    for (ScopeIndex scope = NextThatCounts(track, first, last); scope < last;
         scope = NextThatCounts(track, scope + 1, last)) {
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

  // The first scope from this one on that does not begin in a step that does not count.
  ScopeIndex NextThatCounts(const StepTrack& track, ScopeIndex scope, ScopeIndex last) const {
    const auto& starts = facts_.model().scopes.start_ns;
    if (every_ == 1 || scope == last) return scope;
    const auto is_before = [](int64_t time_ns, const Step& step) { return time_ns < step.start_ns; };
    const auto after = absl::c_upper_bound(track.steps, starts[scope], is_before);
    const auto begun = static_cast<size_t>(after - track.steps.begin());
    if (begun == 0 || (begun - 1) % every_ == 0) return scope;
    const size_t next = (begun - 1) / every_ * every_ + every_;
    if (next >= track.steps.size()) return last;
    const auto at = std::lower_bound(starts.begin() + scope, starts.begin() + last, track.steps[next].start_ns);
    return static_cast<ScopeIndex>(at - starts.begin());
  }

  // `step`: of the one before; in a thread they come nearly in order.
  void Add(const StepTrack& track, size_t third, int64_t start_ns, int64_t ns, const What& what, size_t& step) {
    while (step > 0 && (step == track.steps.size() || start_ns < track.steps[step].start_ns)) --step;
    while (step < track.steps.size() && track.steps[step].end_ns <= start_ns) ++step;
    if (step == track.steps.size() || start_ns < track.steps[step].start_ns || step % every_ != 0) return;
    auto& [recent, known] = recent_[(std::get<1>(what) * 8 + std::get<2>(what)) % recent_.size()];
    if (known == nullptr || recent != what) {
      recent = what;
      known = &durations_[what];
    }
    Durations& durations = *known;
    durations.sum_ns += static_cast<double>(ns);
    ++durations.count;
    if (step < third) durations.early.push_back(static_cast<float>(ns));
    if (step >= track.steps.size() - third) durations.late.push_back(static_cast<float>(ns));
  }

  const StepFacts& facts_;
  size_t every_ = 1;  // step of the track counts
  double steps_ = 0;
  std::map<What, Durations> durations_;
  std::array<std::pair<What, Durations*>, 256> recent_ = {};  // of durations_: a step has some hundred that recur
};

}  // namespace

std::vector<Finding> FindDenormals(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.HasGpuTimes()) return {};
  OverTime over(facts);
  // Steps that grow steadily: the tensors of the framework's ops may grow.
  const bool counts_scopes = over.AreShapesEqual() && !GrowthOfSteps(facts);
  double gain_ns = 0, kept_ns = 0, others_ns = 0, ratio = 0, most_ns = 0;
  std::map<What, double> slower;  // and what each brings
  What largest;
  std::map<What, Pace> paces;
  for (auto& [what, durations] : over.durations()) {
    if (durations.AreEnough()) paces.emplace(what, durations);
  }
  // Where the thread waits for processors, quartiles differ by that.
  const double running = 1 - std::clamp(facts.load().waiting_ns / facts.step_ns(), 0.0, 0.9);
  const double growth = GrowthOf(paces);
  for (const auto& [what, pace] : paces) {
    const Durations& durations = *pace.durations;
    const bool is_call = std::get<0>(what);
    if (!pace.IsSlower(growth / running)) {
      const double late_ns = pace.late * durations.count;  // not the sum: a few page faults would outweigh the rest
      others_ns += late_ns;
      kept_ns += pace.Ratio() <= growth * kSamePace ? late_ns : 0;
      continue;
    }
    if (!is_call && !counts_scopes) continue;
    const double part = (pace.Ratio() - growth) / (pace.Ratio() - 1);  // of what it grew by that the others did not
    const double more_ns = part * (durations.sum_ns - durations.count * pace.early);
    gain_ns += std::max(more_ns, 0.0);
    slower.emplace(what, more_ns);
    if (more_ns <= most_ns) continue;
    most_ns = more_ns;
    ratio = pace.Ratio();
    largest = what;
  }
  gain_ns = std::min(gain_ns / over.steps(), facts.step_ns());
  if (!facts.IsAtLeast(gain_ns, kDenormalsPercent) || kept_ns < kMostOthers * others_ns) return {};
  if (!facts.IsAtLeast(kept_ns / over.steps(), kLeastOthers)) return {};
  std::erase_if(slower, [&](const auto& one) { return one.second < kNamedPart * most_ns; });
  const auto is_in = [&](const WorkItem& item) {
    return absl::c_any_of(slower, [&](const auto& one) {
      const auto& [is_call, index, layer, direction] = one.first;
      if (is_call) return item.IsCall() && item.doing.what == index;
      return item.scope != nullptr && item.doing.what == index && item.doing.direction == direction;
    });
  };
  const TraceModel& model = facts.model();
  const uint32_t index = std::get<1>(largest);
  return {{.where = facts.LayersOf(is_in),
           .line = facts.LineOfLongest(is_in),
           .sentence = absl::StrFormat("%s takes %.1f times as long in the last third of the steps as in the first, "
                                       "with the same shapes, and the other operations %s: %s.",
                                       std::get<0>(largest) ? model.ops[index].kind : model.names[index], ratio,
                                       growth < 1.05 ? "do not" : absl::StrFormat("%.1f times", growth),
                                       facts.PartOfStep(gain_ns)),
           .gain_ns = gain_ns,
           .basis = GainBasis::kComputed,
           .confidence = Confidence::kLow,
           .evidence = "durations of each operation in the first and last third; the gain is the time above the "
                       "first's lower quartile",
           .advice = "Values below 1.2e-38 (denormals) are the usual cause, zeros another for a square root or "
                     "logarithm (MKL): torch.set_flush_denormal(True) makes the former zero, an epsilon avoids both; "
                     "or find what decays (weights, states, gradients).",
           .changes_numerics = true}};
}

}  // namespace dlhook::analyzer::findings
