// Table `stacks`: the heaviest stacks, native and Python frames merged: of all that steps spend time on, or of library
// calls.

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/layers/functions/askers.h"
#include "analyzer/model/same_work.h"
#include "analyzer/profile/profile_builder.h"
#include "analyzer/tables/calls/call_filter.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr char kStacksTitle[] = "Stacks under which the time of recorded calls passed";
constexpr char kStepStacksTitle[] = "Stacks under which the steps' time passed";
constexpr size_t kInnerFrames = 2;  // that `path` shows, beside the outermost

struct StacksKey {
  std::string kind, stack, path;
  auto operator<=>(const StacksKey&) const = default;
};

struct StacksSums : StacksKey {
  int64_t calls = 0;
  int64_t total_ns = 0;
  int64_t self_ns = 0;
};

TypedColumns<StacksSums> StacksColumns(int64_t thread_ns) {
  return {
      {As(Role::kKey, TextColumn("kind", "What was computed, as in the table ops.")), &StacksSums::kind},
      {CallsColumn("Calls, without those inside another call of the same kind."), &StacksSums::calls},
      {As(Role::kWeight, TimeColumn("self_time", "Thread time without calls inside of other kinds.")),
       &StacksSums::self_ns},
      {PercentColumn("time_percent", Better::kLower, "Self time as a part of the thread time of all recorded calls."),
       [thread_ns](const StacksSums& sums) { return Percent(sums.self_ns, thread_ns); }},
      {Detail(TotalTimeColumn()), &StacksSums::total_ns},
      {As(Role::kKey,
          Detail(TextColumn("stack", "The called function, then its callers outwards, with lines where known."))),
       &StacksSums::stack},
      {TextColumn("path", "The same without the inside of math libraries, dispatchers and the start of threads."),
       &StacksSums::path},
  };
}

// What time passed in, and where: "relu < Model.forward (model.py:12) < main (model.py:40)".
struct StepStack {
  std::string kind, stack, path;
  auto operator<=>(const StepStack&) const = default;
};
using StepStacks = std::map<StepStack, Weights>;

std::string PathOf(const std::vector<std::string>& frames) {
  if (frames.size() <= kInnerFrames + 2) return absl::StrJoin(frames, " < ");
  return absl::StrCat(absl::StrJoin(frames.begin(), frames.begin() + kInnerFrames, " < "), " < ... < ", frames.back());
}

StepStacks StacksOf(const Profile& profile) {
  StepStacks stacks;
  Limit text("bytes of distinct stacks", kMaxStackTextBytes);
  for (const ProfileSample& sample : profile.samples()) {
    std::vector<std::string> frames;
    for (NodeIndex node = sample.stack; node != kRoot; node = profile.nodes()[node].parent) {
      frames.push_back(FrameTitle(profile, profile.FrameOf(node), /*with_line=*/true));
    }
    const StepStack stack = {profile.labels()[sample.labels].kind, absl::StrJoin(frames, " < "), PathOf(frames)};
    const auto [at, is_new] = stacks.try_emplace(stack);
    if (is_new) text.Take(stack.stack.size());
    AddTo(sample.weights, at->second);
  }
  return stacks;
}

TypedColumns<StepStacks::value_type> StepStacksColumns(const StepStacks& stacks) {
  int64_t host_ns = 0, gpu_ns = 0;
  for (const auto& stack : stacks) (stack.first.kind == kGpuKind ? gpu_ns : host_ns) += TimeIn(stack.second);
  using Row = StepStacks::value_type;
  return {
      {As(Role::kKey,
          TextColumn("kind",
                     "library, framework, waiting …, as in the table accounting; gpu: what GPUs did meanwhile.")),
       [](const Row& row) { return Cell(row.first.kind); }},
      {CallsColumn("Library calls that began in the steps."),
       [](const Row& row) { return Cell(row.second[static_cast<size_t>(Weight::kCalls)]); }},
      {As(Role::kWeight, TimeColumn("time", "Wall share in all steady steps.")),
       [](const Row& row) { return Cell(TimeIn(row.second)); }},
      {PercentColumn("time_percent", Better::kLower,
                     "The same as a part of the steps' duration, or of the GPUs' time in them."),
       [host_ns, gpu_ns](const Row& row) {
         return Percent(TimeIn(row.second), row.first.kind == kGpuKind ? gpu_ns : host_ns);
       }},
      {As(Role::kKey, Detail(TextColumn("stack", "The activity, then its callers outwards, with lines where known."))),
       [](const Row& row) { return Cell(row.first.stack); }},
      {TextColumn("path", "The innermost frames and the outermost."),
       [](const Row& row) { return Cell(row.first.path); }},
  };
}

Table StepStacksTable(const TraceModel& model, const TableOptions& options) {
  const StepStacks stacks = StacksOf(BuildProfile(model, *options.analysis, {.with_kinds = false}));
  std::vector<const StepStacks::value_type*> order;
  for (const auto& stack : stacks) order.push_back(&stack);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return TimeIn(a->second) > TimeIn(b->second); });
  Table table = NewTable("stacks", kStepStacksTitle, StepStacksColumns(stacks), order);
  const bool has_steps = std::any_of(options.analysis->steps().begin(), options.analysis->steps().end(),
                                     [](const StepTrack& track) { return !track.steps.empty(); });
  if (!has_steps) table.notes.emplace_back("No repeating step was found: the time is that of the whole run.");
  if (model.python_stacks.empty() && model.calls.native_stack.empty()) {
    table.notes.emplace_back(kNoStacks);
  } else if (model.calls.native_stack.empty()) {
    table.notes.emplace_back(kNoNativeStacks);
  }
  table.notes.emplace_back(
      "The times add up to those of the table accounting; --only library has every library call of the run.");
  return table;
}

Table LibraryStacks(const TraceModel& model, const TableOptions& options) {
  const CallFilter filter(model, options);
  const SameWork same_work(model);
  Askers askers(model, options.analysis->attribution());
  std::map<StacksKey, StacksSums> groups;
  absl::flat_hash_map<std::pair<OpIndex, const std::string*>, StacksSums*> alike;  // most calls resemble an earlier one
  int64_t thread_ns = 0, without_ns = 0;
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const int64_t self_ns = model.calls.self_ns[call];
    thread_ns += self_ns;
    const CallIndex outermost = same_work.Outermost(call);
    if (!filter.Takes(model.calls.op[outermost])) continue;
    const std::string& stack = askers.StackOf(outermost);
    if (stack.empty()) without_ns += self_ns;
    if (stack.empty()) continue;
    const auto [at, is_new] = alike.try_emplace({model.calls.op[outermost], &stack}, nullptr);
    if (is_new) {
      const StacksKey key = {KindLabel(model.ops[model.calls.op[outermost]]), stack, askers.PathOf(outermost)};
      at->second = &GroupOf(key, groups);
    }
    StacksSums& sums = *at->second;
    sums.self_ns += self_ns;
    if (call != outermost) continue;
    ++sums.calls;
    sums.total_ns += model.calls.duration_ns[call];
  }
  for (const AggregateRow& row : model.aggregates) {
    thread_ns += row.sum_ns - row.nested_sum_ns;
    if (filter.Takes(row.op)) without_ns += row.sum_ns - row.nested_sum_ns;
  }
  const auto order = ByWeight(groups, &StacksSums::self_ns);
  Table table = NewTable("stacks", kStacksTitle, StacksColumns(thread_ns), order);
  if (groups.empty()) {
    table.notes.emplace_back(kNoStacks);
    return table;
  }
  if (model.calls.native_stack.empty()) table.notes.emplace_back(kNoNativeStacks);
  if (without_ns > 0) table.notes.push_back(absl::StrCat(HumanTime(without_ns), " of calls have no stack."));
  for (const std::string& note : model.native_symbols.notes) table.notes.push_back(note);
  return table;
}

}  // namespace

absl::StatusOr<Table> StacksTable(const TraceModel& model, const TableOptions& options) {
  if (options.library_only || !options.functions.empty()) return LibraryStacks(model, options);
  return StepStacksTable(model, options);
}

}  // namespace dlhook::analyzer::tables
