#include "analyzer/work/generation.h"

#include "analyzer/model/op_kind.h"
#include "analyzer/steps/step_assembly.h"

namespace dlhook::analyzer::inline work {
namespace {

constexpr double kPromptFactor = 4;
constexpr double kEqualFactor = 2;
constexpr size_t kLeastPasses = 2;  // after the prompt's
constexpr size_t kLeastSequences = 2;

bool HasAttention(const StepFacts& facts) {
  return absl::c_any_of(facts.items(), [](const WorkItem& item) {
    if (item.op != nullptr && IsKind(*item.op, OpKind::kAttention)) return true;
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
    const size_t step = StepAt(steps, model.calls.start_ns[call]);
    if (step != kNone) flops[step] += static_cast<double>(*of_call);
  }
  return flops;
}

double DurationOf(const Step& step) { return static_cast<double>(step.end_ns - step.start_ns); }

// Where a function that was called in one way runs an operation, outside of all modules.
struct Site {
  uint32_t way = 0;  // of calls that lead to the function; equal ones are the same
  uint32_t line = 0;
  auto operator<=>(const Site&) const = default;
};

class SeriesFinder {
 public:
  SeriesFinder(const TraceModel& model, const StepTrack& track) : model_(model), sites_of_(model.python_stacks.size()) {
    for (const Step& step : track.steps) {
      if (step.kind == StepKind::kInference) passes_.push_back(&step);
    }
    for (const Step* pass : passes_) recorded_ += pass->has_scopes ? 1 : 0;
    const ScopeColumns& scopes = model.scopes;
    for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
      const ThreadIndex thread = scopes.thread[scope];
      const bool is_here =
          track.thread == kNone ? model.threads[thread].process == track.process : thread == track.thread;
      if (is_here && IsOperation(scope) && !IsOperation(scopes.parent[scope])) Note(scope);
    }
  }

  std::optional<PassSeries> Find() const {
    const Seen* const seen = OuterLine();
    if (seen == nullptr) return std::nullopt;
    PassSeries series;
    int64_t whole = 0, steady = 0;
    for (size_t i = 0; i + 1 < seen->passes.size(); ++i) {
      const uint32_t first = seen->passes[i], next = seen->passes[i + 1];
      const absl::Span<const Step* const> of_one(passes_.data() + first, next - first);
      if (next - first < kLeastPasses) continue;  // the first one, which a network was tried in
      if (!std::ranges::all_of(of_one, &Step::has_scopes)) continue;
      ++whole;
      series.passes += static_cast<double>(of_one.size());
      if (std::ranges::any_of(of_one, &Step::is_warm_up)) continue;
      ++steady;
      series.ns += static_cast<double>(of_one.back()->end_ns - of_one.front()->start_ns);
    }
    if (whole < kLeastSeries || 2 * static_cast<size_t>(whole) < seen->passes.size() || steady == 0)
      return std::nullopt;
    series.passes /= static_cast<double>(whole);
    series.ns /= static_cast<double>(steady);
    const std::vector<PythonFrame>& frames = model_.python_stacks[seen->stack].frames;
    const auto label = [&](size_t at) { return LineLabel(model_, {.file = frames[at].file, .line = frames[at].line}); };
    series.line = label(seen->frame);
    size_t caller = seen->frame;
    while (caller < frames.size() && !IsOwn(frames[caller])) ++caller;
    if (caller < frames.size() && caller != seen->frame) series.caller = label(caller);
    return series;
  }

 private:
  static constexpr int64_t kLeastSeries = 2;  // besides the last one, of which it is not known whether it is whole
  static constexpr double kNearlyAll = 0.9;

  struct Seen {
    std::vector<uint32_t> passes;  // ascending; no longer kept when they are more than half of all
    uint32_t count = 0, last = kNone;
    StackIndex stack = kNone;
    size_t frame = 0;  // there
  };

  bool IsOperation(ScopeIndex scope) const {
    return scope != kNone && model_.scopes.look[scope].kind != ScopeKind::kUserRange;
  }

  bool IsOwn(const PythonFrame& frame) const {
    const absl::string_view file = model_.names[frame.file];
    return !IsFrameworkFile(file) && !absl::StrContains(file, "-packages/");
  }

  // Of the stack's frames around the outermost call of a module, outermost first.
  const std::vector<Site>& SitesOf(StackIndex stack) {
    std::vector<Site>& sites = sites_of_[stack];
    const PythonStack& of = model_.python_stacks[stack];
    if (!sites.empty() || of.is_cut) return sites;
    uint32_t way = 0;
    for (auto frame = of.frames.rbegin(); frame != of.frames.rend() && frame->module == kNone; ++frame) {
      way =
          ways_
              .try_emplace({way, sites.empty() ? 0 : sites.back().line, frame->file, frame->function}, ways_.size() + 1)
              .first->second;
      sites.push_back({way, frame->line});
    }
    return sites;
  }

  // What runs between two passes belongs to the second.
  void Note(ScopeIndex scope) {
    const StackIndex stack = model_.scopes.look[scope].stack;
    const auto network_end = [](const Step* step) { return LastPhaseEnd(*step); };
    const auto pass = std::ranges::upper_bound(passes_, model_.scopes.start_ns[scope], {}, network_end);
    if (stack == kNone || pass == passes_.end() || !(*pass)->has_scopes) return;
    const auto index = static_cast<uint32_t>(pass - passes_.begin());
    const std::vector<Site>& sites = SitesOf(stack);
    for (size_t i = 0; i < sites.size(); ++i) {
      Seen& seen = seen_[sites[i]];
      if (seen.last == index) continue;
      seen.last = index;
      seen.stack = stack;
      seen.frame = model_.python_stacks[stack].frames.size() - 1 - i;
      if (++seen.count <= recorded_ / 2) seen.passes.push_back(index);
    }
  }

  // The line of the innermost loop around the one that makes the passes; null: there is none.
  const Seen* OuterLine() const {
    std::map<uint32_t, uint32_t> first_line;  // of the inner loop, by way
    for (const auto& [site, seen] : seen_) {
      if (seen.count >= kNearlyAll * recorded_) first_line.try_emplace(site.way, site.line);
    }
    const Seen* outer = nullptr;
    for (const auto& [site, seen] : seen_) {
      const auto loop = first_line.find(site.way);
      const bool is_around = loop != first_line.end() && site.line < loop->second && seen.count <= recorded_ / 2;
      if (is_around && (outer == nullptr || seen.count > outer->count)) outer = &seen;
    }
    return outer;
  }

  const TraceModel& model_;
  std::vector<const Step*> passes_;
  uint32_t recorded_ = 0;  // of the passes
  std::vector<std::vector<Site>> sites_of_;
  std::map<std::tuple<uint32_t, uint32_t, NameIndex, NameIndex>, uint32_t> ways_;
  std::map<Site, Seen> seen_;
};

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
  const double usual = MedianOf(flops);
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

std::optional<PassSeries> FindPassSeries(const StepFacts& facts) {
  const StepTrack* const track = OnlyTrack(facts);
  if (facts.steps().kind != StepKind::kInference || track == nullptr) return std::nullopt;
  return SeriesFinder(facts.model(), *track).Find();
}

}  // namespace dlhook::analyzer::work
