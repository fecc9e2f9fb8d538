// Rule growing-steps: each step takes longer than the one before, over the whole run: something is appended to and never
// cleared.
//
// The trend is that of noise.h, of the steps' time without that in which the main thread waited for a processor, or of the
// median step, which other programs disturb less; their processor time must grow, too. Where the machine is too busy for the times
// to show one, the number of operations, which no other program makes, is enough, or the time of one operation.
// On a busy machine all operations take longer when others come: then, and where a run is too short to know, one of them has
// to grow by more than the rest.
// Inputs that are larger and larger explain it.
// What grows is found by comparing the first third of the steps with the last: the outermost operations by name and
// place, their number, and the time between them. The gain: a mean step less one at the start of the trend.

#include "analyzer/calls/op_labels.h"
#include "analyzer/findings/rules.h"
#include "analyzer/steps/measured_steps.h"
#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kGrowingPercent = 5;
constexpr double kGrownCpu = 1.25;  // a trend grows by half at least
constexpr double kMoreOften = 1.5;
constexpr double kOfOne = 0.8;          // of what all operations grow by: then that one is told
constexpr double kBusyPercent = 5;      // of a step, waiting for a processor
constexpr double kCrowdedPercent = 30;  // then Python takes longer the more others come
constexpr double kMoreThanOthers = 1.5;
constexpr double kAloneMoreThanOthers = 2;  // if only the operation itself is known to grow …
constexpr int64_t kLeastAlone = 50;         // … in so many steps
constexpr size_t kStepsOfPlateau = 8;       // at least, on average

// Of three neighbours the median (Tukey's smoother "3").
BlockMeans WithoutOutliers(const BlockMeans& blocks) {
  BlockMeans smooth = blocks;
  for (size_t i = 0; i < blocks.size() && blocks.size() >= 3; ++i) {
    const size_t first = std::min(i == 0 ? 0 : i - 1, blocks.size() - 3);
    std::array<double, 3> three = {blocks[first], blocks[first + 1], blocks[first + 2]};
    absl::c_sort(three);
    smooth[i] = three[1];
  }
  return smooth;
}

// Sums over the first and the last third of the steps.
struct Growth {
  double early_ns = 0, late_ns = 0, early_count = 0, late_count = 0;
  double ns() const { return late_ns - early_ns; }
  double factor() const { return early_ns > 0 ? late_ns / early_ns : INFINITY; }
};

// An outermost operation by kind, name and Python stack, or a library's call outside of any by kind.
struct Grown {
  std::string name;  // empty: the time between operations
  StackIndex stack = kNone;
  Growth growth;
  uint32_t look = kNone;  // of the operation's scopes
};

// Of what is known of each step; none: it does not grow.
std::optional<Trend> GrowthOf(const BlockMeans& of_steps, const std::function<BlockMeans(BlockMeans)>& smooth = {}) {
  BlockMeans blocks(std::min<size_t>(kBlocks, of_steps.size()));
  for (size_t block = 0; block < blocks.size(); ++block) {
    const auto at = [&](size_t i) {
      return of_steps.begin() + static_cast<ptrdiff_t>(i * of_steps.size() / blocks.size());
    };
    blocks[block] = MeanOf(BlockMeans(at(block), at(block + 1)));
  }
  const std::optional<Trend> trend = TrendOf(smooth ? smooth(blocks) : blocks);
  return trend && trend->IsGrowth() ? trend : std::nullopt;
}

class Thirds {
 public:
  explicit Thirds(const StepFacts& facts) : facts_(facts) {
    for (const StepTrack& track : facts.steps().tracks) {
      steps_ += static_cast<double>(track.steps.size() / 3);
      for (size_t step = 0; step < track.steps.size(); ++step)
        Add(track, step, track.steps[step].end_ns - track.steps[step].start_ns, between_);
    }
    AddOperations();
  }

  double steps() const { return steps_; }  // of a third

  // Of the number of operations of a step.
  std::optional<Trend> TrendOfNumber() const {
    BlockMeans of_track = ops_of_step_;
    for (double& ops : of_track) ops /= static_cast<double>(facts_.steps().tracks.size());
    return GrowthOf(of_track);
  }

  // Of the time in each step of an operation that Largest() told.
  std::optional<Trend> TrendOfOne(const Grown& one) const {
    BlockMeans ns_of_step(ops_of_step_.size());
    ForEachOperation([&](uint32_t look, const std::string& kind, const StepTrack&, size_t step, int64_t ns) {
      if (look == one.look && (look != kNone || kind == one.name)) ns_of_step[step] += static_cast<double>(ns);
    });
    return GrowthOf(ns_of_step, WithoutOutliers);
  }

  // Whether steps compute more from time to time, and then stay so: larger inputs or batches, layers that thaw. What a step leaves
  // behind grows with each.
  bool IsInPlateaus() const {
    size_t changes = 0;
    const size_t steps = flops_of_step_.size();
    for (size_t step = 1; step < steps; ++step) changes += flops_of_step_[step] != flops_of_step_[step - 1] ? 1 : 0;
    const auto [early, late] = FlopsOfThirds();
    return changes > 0 && changes * kStepsOfPlateau <= steps && late >= kGrownCpu * early;
  }

  // Whether the steps' inputs are larger and larger, as texts that are sorted by length: not by the same each time, as what a step
  // leaves behind is. Attention grows with the square of the rows.
  bool ComputeMore(double factor) const {
    std::map<double, size_t> increments;
    const size_t steps = flops_of_step_.size();
    for (size_t step = 1; step < steps; ++step) ++increments[flops_of_step_[step] - flops_of_step_[step - 1]];
    const bool is_regular = absl::c_any_of(increments, [&](const auto& one) { return 2 * one.second > steps; });
    const auto [early, late] = FlopsOfThirds();
    return early > 0 && !is_regular && (late / early) * (late / early) >= factor;
  }

  // All operations, where their number grows and no single one tells why.
  std::optional<Growth> MoreOperations() const {
    Growth all, longest;
    const auto add = [&](const Growth& growth) {
      if (growth.ns() > longest.ns()) longest = growth;
      all = {all.early_ns + growth.early_ns, all.late_ns + growth.late_ns, all.early_count + growth.early_count,
             all.late_count + growth.late_count};
    };
    for (const auto& [scope, growth] : of_looks_) add(growth);
    for (const auto& [kind, growth] : of_calls_) add(growth);
    const bool are_more = all.late_count >= kMoreOften * all.early_count && all.ns() > 0;
    return are_more && longest.ns() < kOfOne * all.ns() ? std::optional(all) : std::nullopt;
  }

  // Whether those of the backward pass alone become more: with a graph that is kept.
  bool IsInBackwardOnly() const {
    double early = 0, late = 0;
    for (const auto& [scope, growth] : of_looks_) {
      if (scope == kNone) continue;
      const ScopeLook& look = facts_.model().scopes.look[scope];
      // autograd::engine::evaluate_function: one around each node
      if (look.kind == ScopeKind::kBackwardNode || absl::StartsWith(facts_.model().names[look.name], "autograd::"))
        continue;
      early += growth.early_count;
      late += growth.late_count;
    }
    return late < kMoreOften * early;
  }

  // What grows most, perhaps the time between operations.
  Grown Largest(bool may_be_between) const {
    const TraceModel& model = facts_.model();
    Grown largest;
    if (may_be_between) largest.growth = between_;
    for (const auto& [scope, growth] : of_looks_) {
      if (scope != kNone && growth.ns() > largest.growth.ns()) {
        largest = {ScopeLabel(model, scope), model.scopes.look[scope].stack, growth, model.scopes.look.IndexAt(scope)};
      }
    }
    for (const auto& [kind, growth] : of_calls_) {
      if (growth.ns() > largest.growth.ns()) largest = {kind, kNone, growth};
    }
    return largest;
  }

  // By which factor, or less, half of the time of the first steps grows that other operations than this take.
  double MedianFactorWithout(const Growth& grown) const {
    std::vector<Growth> all;
    for (const auto& [scope, growth] : of_looks_) all.push_back(growth);
    for (const auto& [kind, growth] : of_calls_) all.push_back(growth);
    std::erase_if(all, [&](const Growth& growth) {
      return growth.early_ns <= 0 || (growth.early_ns == grown.early_ns && growth.late_ns == grown.late_ns);
    });
    absl::c_sort(all, [](const Growth& a, const Growth& b) { return a.factor() < b.factor(); });
    double sum_ns = 0, below_ns = 0;
    for (const Growth& growth : all) sum_ns += growth.early_ns;
    for (const Growth& growth : all) {
      below_ns += growth.early_ns;
      if (2 * below_ns >= sum_ns) return growth.factor();
    }
    return 1;
  }

 private:
  static void Add(const StepTrack& track, size_t step, int64_t ns, Growth& growth) {
    const size_t third = track.steps.size() / 3;
    if (step < third) {
      growth.early_ns += static_cast<double>(ns);
      ++growth.early_count;
    } else if (step >= track.steps.size() - third) {
      growth.late_ns += static_cast<double>(ns);
      ++growth.late_count;
    }
  }

  std::pair<double, double> FlopsOfThirds() const {
    const auto third = static_cast<ptrdiff_t>(flops_of_step_.size() / 3);
    return {std::accumulate(flops_of_step_.begin(), flops_of_step_.begin() + third, 0.0),
            std::accumulate(flops_of_step_.end() - third, flops_of_step_.end(), 0.0)};
  }

  // The outermost operations of each step: `take` gets a scope's look, or the kind of a library's call.
  template <typename Take>
  void ForEachOperation(Take take) const {
    const TraceModel& model = facts_.model();
    const auto is_op = [&](ScopeIndex scope) {
      return scope != kNone && model.scopes.look[scope].kind != ScopeKind::kUserRange;
    };
    const auto add = [&](ThreadIndex thread, int64_t start_ns, int64_t ns, uint32_t look, const std::string& kind) {
      const ProcessIndex process = model.threads[thread].process;
      const size_t step = facts_.StepAt(process, start_ns);
      if (step == kNone) return;
      for (const StepTrack& track : facts_.steps().tracks) {
        if (track.process == process) take(look, kind, track, step, ns);
      }
    };
    for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
      if (is_op(scope) && !is_op(model.scopes.parent[scope])) {
        add(model.scopes.thread[scope], model.scopes.start_ns[scope], model.scopes.duration_ns[scope],
            model.scopes.look.IndexAt(scope), "");
      }
    }
    for (CallIndex call = 0; call < model.calls.size(); ++call) {
      if (model.calls.parent[call] == kNone && !is_op(model.calls.ScopeOf(call))) {
        add(model.calls.thread[call], model.calls.start_ns[call], model.calls.duration_ns[call], kNone,
            KindLabel(model.ops[model.calls.op[call]]));
      }
    }
  }

  void AddOperations() {
    const TraceModel& model = facts_.model();
    of_looks_.resize(model.scopes.look.values().size(), {kNone, {}});
    for (ScopeIndex scope = model.scopes.size(); scope-- > 0;)
      of_looks_[model.scopes.look.IndexAt(scope)].first = scope;
    ForEachOperation([&](uint32_t look, const std::string& kind, const StepTrack& track, size_t step, int64_t ns) {
      Add(track, step, ns, look == kNone ? of_calls_[kind] : of_looks_[look].second);
      Add(track, step, -ns, between_);
      ops_of_step_.resize(std::max(ops_of_step_.size(), track.steps.size()));
      ++ops_of_step_[step];
    });
    for (CallIndex call = 0; call < model.calls.size(); ++call) {
      const size_t step = facts_.StepOfCall(call);
      if (step == kNone || model.calls.parent[call] != kNone) continue;
      flops_of_step_.resize(std::max(flops_of_step_.size(), step + 1));
      flops_of_step_[step] += static_cast<double>(model.ops[model.calls.op[call]].flops.value_or(0));
    }
  }

  const StepFacts& facts_;
  double steps_ = 0;
  Growth between_;
  BlockMeans ops_of_step_;                               // of all tracks …
  BlockMeans flops_of_step_;                             // … of libraries
  std::vector<std::pair<ScopeIndex, Growth>> of_looks_;  // with the first scope that has it
  std::map<std::string, Growth> of_calls_;
};

// From the first third to the last.
bool HasGrown(const BlockMeans& blocks) {
  const size_t third = blocks.size() / 3;
  const BlockMeans early(blocks.begin(), blocks.begin() + static_cast<ptrdiff_t>(third)),
      late(blocks.end() - static_cast<ptrdiff_t>(third), blocks.end());
  return MeanOf(late) >= kGrownCpu * MeanOf(early);
}

// Of one of the longest stretches between operations, if it is most of the time there; else null.
const GapLines* LinesBetween(const StepFacts& facts) {
  const GapLines* longest = nullptr;
  double ns = 0;
  for (const GapLines& lines : GapLinesOf(facts)) {
    ns += lines.ns;
    if (longest == nullptr || lines.ns > longest->ns) longest = &lines;
  }
  return longest != nullptr && 2 * longest->ns > ns ? longest : nullptr;
}

std::string AdviceFor(const Grown& grown) {
  const absl::string_view name = absl::StripPrefix(grown.name, "aten::");
  if (name == "cat" || name == "stack" || name == "hstack" || name == "vstack" || name == "ConcatV2")
    return "It joins onto a tensor that grows, and copies all of it each time: collect the parts in a list, join them "
           "once at the end.";
  if (grown.growth.late_count >= kMoreOften * grown.growth.early_count)
    return "Look for a list, a graph or a cache that each step appends to and goes through: clear it, or keep a sum.";
  return "Look for a tensor, a graph or a cache that each step appends to and never clears (a history, a loss that is "
         "not detached).";
}

std::optional<Trend> GrowthOfTimes(const StepFacts& facts) {
  BlockMeans medians, means;
  for (const ComparedSteps& block : CutIntoBlocks(facts.steps(), kBlocks)) {
    medians.push_back(static_cast<double>(QuartilesOf(block.Durations()).median));
    means.push_back(static_cast<double>(block.total_ns()) / static_cast<double>(block.count()));
  }
  const Samples& waiting = facts.load().waiting_samples;
  for (size_t i = 0; !waiting.empty() && i < std::min(means.size(), waiting.front().size()); ++i)
    means[i] = std::max(means[i] - waiting.front()[i], 0.0);
  std::optional<Trend> trend = TrendOf(means);
  if (!trend) trend = TrendOf(WithoutOutliers(medians));
  return trend && trend->IsGrowth() ? trend : std::nullopt;
}

}  // namespace

std::optional<Trend> GrowthOfSteps(const StepFacts& facts) {
  const Samples& cpu = facts.load().cpu_samples;
  if (!cpu.empty() && !HasGrown(cpu.front())) return std::nullopt;  // other programs did
  return GrowthOfTimes(facts);
}

std::vector<Finding> FindGrowingSteps(const StepFacts& facts) {
  if (!facts.HasSteps()) return {};
  std::optional<Trend> trend = GrowthOfTimes(facts);
  const bool may_be_busy = !facts.load().is_known || facts.IsAtLeast(facts.load().waiting_ns, kBusyPercent);
  if (!trend && !may_be_busy) return {};
  const Thirds thirds(facts);
  const std::optional<Growth> more = thirds.MoreOperations();
  const bool is_timed = trend && (more || GrowthOfSteps(facts));
  Grown grown = thirds.Largest(is_timed);
  if (more) grown = {"all operations", kNone, *more};
  const Growth& growth = grown.growth;
  const bool is_more_often = growth.late_count >= kMoreOften * growth.early_count;
  const bool is_of_one = !is_timed && !more && may_be_busy && !grown.name.empty() && !is_more_often &&
                         facts.steps().count() >= kLeastAlone;
  if (!is_timed) trend = more ? thirds.TrendOfNumber() : is_of_one ? thirds.TrendOfOne(grown) : std::nullopt;
  if (!trend || thirds.IsInPlateaus() || !FindDenormals(facts).empty()) return {};
  if (is_of_one ? thirds.ComputeMore(growth.factor()) : is_timed && thirds.ComputeMore(trend->last / trend->first))
    return {};
  const double steps = std::max(thirds.steps(), 1.0);
  // By what the trend's own mean is above its start.
  const double gain_ns = (is_of_one ? (growth.early_ns + growth.late_ns) / (2 * steps) : facts.step_ns()) *
                         (trend->last - trend->first) / (trend->last + trend->first);
  if (!facts.IsAtLeast(gain_ns, kGrowingPercent)) return {};
  const bool is_crowded = !facts.load().is_known || facts.IsAtLeast(facts.load().waiting_ns, kCrowdedPercent);
  if (is_crowded && grown.name.empty()) return {};
  // How long other threads than the first wait for a processor is not known.
  const bool is_unknown = !facts.FirstThreadsWorkAlone() && facts.load().runnable > facts.load().allowed;
  if (is_unknown && !is_more_often) return {};
  const double least = is_of_one ? kAloneMoreThanOthers : kMoreThanOthers;
  if (!is_more_often && may_be_busy && growth.factor() < least * thirds.MedianFactorWithout(growth)) return {};
  Finding finding = {
      .where = more                 ? "number of operations"
               : grown.name.empty() ? "between operations"
                                    : grown.name,
      .line = facts.LineOfStack(grown.stack),
      .gain_ns = gain_ns,
      .basis = GainBasis::kComputed,
      .evidence = absl::StrCat(is_timed ? "table steps: durations over the run" : "table work: operations of a step",
                               is_of_one ? "; the gain is its mean time less that at the start of its trend"
                                         : "; the gain is a mean step less one at the start of the trend"),
      .advice =
          !more ? AdviceFor(grown)
          : thirds.IsInBackwardOnly()
              ? "The backward pass goes through the earlier steps, too: detach what one step hands to the next (hidden "
                "= hidden.detach()), and sum losses as numbers (loss.item())."
              : "Look for a list or a cache that each step appends to and goes through; or the inputs become longer."};
  if (const GapLines* lines = grown.name.empty() ? LinesBetween(facts) : nullptr) {
    finding.line = lines->text;
    finding.is_in_loop = true;
  }
  const std::string what = more                 ? "its operations, which become more"
                           : grown.name.empty() ? "the time between operations (Python or native code)"
                                                : grown.name;
  const auto counted = [&](double count) { return more ? absl::StrFormat(" for %.0f of them", count / steps) : ""; };
  const std::string change =
      is_timed ? absl::StrFormat("takes longer than the one before, from %s to %s over %d of them, mostly in %s",
                                 HumanTime(trend->first), HumanTime(trend->last), facts.steps().count(), what)
      : is_of_one
          ? absl::StrFormat("takes longer in %s than the one before, over %d of them", what, facts.steps().count())
          : absl::StrFormat("has more operations than the one before, from %.0f to %.0f over %d of them", trend->first,
                            trend->last, facts.steps().count());
  finding.sentence =
      absl::StrFormat("Each %s %s: %s%s a %s in the first third, %s%s in the last", facts.StepNoun(), change,
                      HumanTime(std::max(growth.early_ns, 0.0) / steps), counted(growth.early_count), facts.StepNoun(),
                      HumanTime(growth.late_ns / steps), counted(growth.late_count));
  if (!grown.name.empty() && is_more_often && !more) {
    absl::StrAppendFormat(&finding.sentence, ", and it runs %.3g, then %.3g times", growth.early_count / steps,
                          growth.late_count / steps);
  }
  finding.sentence += ".";
  return {finding};
}

}  // namespace dlhook::analyzer::findings
