// Table `callers`: who called each problem: framework function, user's line and layer.
//
// Table `stacks`: the heaviest stacks, native and Python frames merged: of all that steps spend time on, or of library
// calls.

#include "analyzer/calls/op_labels.h"
#include "analyzer/layers/functions/askers.h"
#include "analyzer/model/same_work.h"
#include "analyzer/profile/profile_builder.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr char kNoStacks[] = "No stacks were kept: record with DLHOOK_STACKS=all (native and Python) or native.";

constexpr char kNoNativeStacks[] =
    "Without native stacks: record with DLHOOK_STACKS=all to see the framework's functions, too.";

// Calls that TableOptions.functions selects: by function ("sgemm_") or kind ("gemm", "reorder"); all if it is empty.
std::vector<bool> WantedOps(const TraceModel& model, const TableOptions& options) {
  const std::vector<std::string>& wanted = options.functions;
  const auto has = [&](const std::string& name) { return absl::c_linear_search(wanted, name); };
  std::vector<bool> is_wanted;
  for (const Op& op : model.ops) is_wanted.push_back(wanted.empty() || has(op.function) || has(KindLabel(op)));
  return is_wanted;
}

struct CallersKey {
  std::string kind, problem;
  std::string asked_by, line, layer, model, direction;  // empty: not known
  auto operator<=>(const CallersKey&) const = default;
};

struct CallersSums : CallersKey {
  int64_t calls = 0;
  int64_t total_ns = 0;
  int64_t self_ns = 0;
  std::set<std::string> functions;
};

TypedColumns<CallersSums> CallersColumns(int64_t thread_ns) {
  return {
      {As(Role::kKey, TextColumn("kind")), "What was computed, as in the table ops.", &CallersSums::kind},
      {As(Role::kShape, Detail(TextColumn("problem"))), "Its size, as the library states it.", &CallersSums::problem},
      {As(Role::kKey, TextColumn("asked_by")),
       "The framework's function above the call (at::native::addmm_out_cpu, ...Op::Compute, "
       "ConvolutionLayer<float>::Forward_cpu); without native stacks the framework's op, else the innermost Python "
       "function. [libfoo.so]: a function without a name.",
       Known(&CallersSums::asked_by)},
      {As(Role::kKey, TextColumn("line")),
       "Innermost line, or function, of the program itself; of backward work that of its layer.",
       Known(&CallersSums::line)},
      {CallsColumn("Calls, without those inside another call of the same kind."), &CallersSums::calls},
      {PercentColumn("time_percent", Better::kLower), "Self time as a part of the thread time of all recorded calls.",
       [thread_ns](const CallersSums& sums) { return Percent(sums.self_ns, thread_ns); }},
      {As(Role::kName, TextColumn("layer")), "The layer that it is computed for.", Known(&CallersSums::layer)},
      {As(Role::kKey, TextColumn("direction")), "Forward or backward, of the layer's work.",
       Known(&CallersSums::direction)},
      {As(Role::kWeight, Detail(TimeColumn("self_time"))),
       "Thread time without calls inside of other kinds, which have rows of their own.", &CallersSums::self_ns},
      {As(Role::kKey, Detail(TextColumn("model"))), "The network, if there are several.", Known(&CallersSums::model)},
      {Detail(TotalTimeColumn()), &CallersSums::total_ns},
      {Detail(MeanTimeColumn()), [](const CallersSums& sums) { return Mean(sums.total_ns, sums.calls); }},
      {Detail(TextColumn("functions")), "Functions or logs through which the calls were seen.",
       &CallersSums::functions},
  };
}

class CallersReport {
 public:
  CallersReport(const TraceModel& model, const TableOptions& options)
      : model_(model),
        attribution_(options.analysis->attribution()),
        is_wanted_(WantedOps(model, options)),
        same_work_(model),
        askers_(model, attribution_) {}

  Table Make() {
    for (CallIndex call = 0; call < model_.calls.size(); ++call) AddCall(call);
    for (const AggregateRow& row : model_.aggregates) AddAggregate(row);
    auto order = ByWeight(groups_, &CallersSums::self_ns);
    if (!knows_any_) order.clear();
    Table table = NewTable("callers", "Call sites: framework function, line of the program and layer of each problem",
                           CallersColumns(thread_ns_), order);
    if (!knows_any_) {
      table.notes.emplace_back(kNoStacks);
      return table;
    }
    AddNotes(&table);
    return table;
  }

 private:
  // A nested view of the same work is booked with the outer call.
  void AddCall(CallIndex call) {
    thread_ns_ += model_.calls.self_ns[call];
    const CallIndex outermost = same_work_.Outermost(call);
    const Op& op = model_.ops[model_.calls.op[outermost]];
    if (!is_wanted_[model_.calls.op[outermost]]) return;
    CallersSums& sums = SumsOf(outermost, op);
    sums.self_ns += model_.calls.self_ns[call];
    sums.functions.insert(model_.ops[model_.calls.op[call]].function);
    if (call != outermost) return;
    ++sums.calls;
    sums.total_ns += model_.calls.duration_ns[call];
    ++(model_.calls.NativeStackOf(call) != kNone ? with_stack_ : without_stack_);
  }

  // A cache: most calls resemble an earlier one.
  CallersSums& SumsOf(CallIndex call, const Op& op) {
    const Place& place = attribution_.of_call[call];
    const Alike alike = {model_.calls.op[call], &askers_.FunctionOf(call), place.layer, place.direction};
    const auto [at, is_new] = alike_.try_emplace(alike, nullptr);
    if (is_new) at->second = &GroupOf(KeyOf(call, op), groups_);
    return *at->second;
  }

  CallersKey KeyOf(CallIndex call, const Op& op) {
    const Place& place = attribution_.of_call[call];
    const Layer none;
    const Layer& layer = place.layer == kNone ? none : attribution_.layers[place.layer];
    std::string direction = place.direction == LayerDirection::kUnknown ? "" : LayerDirectionName(place.direction);
    if (direction.empty() && op.direction != Direction::kUnknown) direction = std::string(DirectionName(op.direction));
    const std::string& function = askers_.FunctionOf(call);
    const std::string& line = askers_.LineOf(call);
    knows_any_ = knows_any_ || !function.empty() || !line.empty();
    return {KindLabel(op), ProblemLabel(op), function, line, layer.name, layer.model, direction};
  }

  void AddAggregate(const AggregateRow& row) {
    const Op& op = model_.ops[row.op];
    thread_ns_ += row.sum_ns - row.nested_sum_ns;
    if (!is_wanted_[row.op]) return;
    CallersSums& sums = GroupOf<CallersKey>({KindLabel(op), ProblemLabel(op), "", "", "", "", ""}, groups_);
    sums.calls += row.count - row.nested_count;
    sums.total_ns += row.sum_ns - row.nested_sum_ns;
    sums.self_ns += row.sum_ns - row.nested_sum_ns;
    sums.functions.insert(op.function);
    without_stack_ += row.count - row.nested_count;
  }

  void AddNotes(Table* table) const {
    if (with_stack_ == 0) {
      table->notes.emplace_back(kNoNativeStacks);
    } else if (without_stack_ > 0) {
      table->Note(without_stack_, " of ", with_stack_ + without_stack_, " calls were kept without native stack.");
    }
    for (const std::string& note : model_.native_symbols.notes) table->notes.push_back(note);
  }

  const TraceModel& model_;
  const Attribution& attribution_;
  const std::vector<bool> is_wanted_;  // by op
  const SameWork same_work_;
  Askers askers_;
  using Alike = std::tuple<OpIndex, const std::string*, LayerIndex, LayerDirection>;  // the caller's name by address
  std::map<CallersKey, CallersSums> groups_;
  absl::flat_hash_map<Alike, CallersSums*> alike_;
  int64_t thread_ns_ = 0;
  int64_t with_stack_ = 0;
  int64_t without_stack_ = 0;
  bool knows_any_ = false;
};

constexpr size_t kInnerFrames = 2;  // that `path` shows, beside the outermost

// What time passed in, and where: "relu < Model.forward (model.py:12) < main (model.py:40)".
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
      {As(Role::kKey, TextColumn("kind")), "What was computed, as in the table ops.", &StacksSums::kind},
      {CallsColumn("Calls, without those inside another call of the same kind."), &StacksSums::calls},
      {As(Role::kWeight, TimeColumn("self_time")), "Thread time without calls inside of other kinds.",
       &StacksSums::self_ns},
      {PercentColumn("time_percent", Better::kLower), "Self time as a part of the thread time of all recorded calls.",
       [thread_ns](const StacksSums& sums) { return Percent(sums.self_ns, thread_ns); }},
      {Detail(TotalTimeColumn()), &StacksSums::total_ns},
      {As(Role::kKey, Detail(TextColumn("stack"))),
       "The called function, then its callers outwards, with lines where known.", &StacksSums::stack},
      {TextColumn("path"), "The same without the inside of math libraries, dispatchers and the start of threads.",
       &StacksSums::path},
  };
}

struct StepStack : StacksKey {
  Weights weights = {};
};
using StepStacks = std::map<StacksKey, StepStack>;

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
    const StacksKey key = {profile.labels()[sample.labels].kind, absl::StrJoin(frames, " < "), PathOf(frames)};
    if (!stacks.contains(key)) text.Take(key.stack.size());
    AddTo(sample.weights, GroupOf(key, stacks).weights);
  }
  return stacks;
}

TypedColumns<StepStack> StepStacksColumns(const StepStacks& stacks) {
  int64_t host_ns = 0, gpu_ns = 0;
  for (const auto& [key, stack] : stacks) (key.kind == kGpuKind ? gpu_ns : host_ns) += TimeIn(stack.weights);
  return {
      {As(Role::kKey, TextColumn("kind")),
       "library, framework, waiting …, as in the table accounting; gpu: what GPUs did meanwhile.", &StepStack::kind},
      {CallsColumn("Library calls that began in the steps."),
       [](const StepStack& stack) { return stack.weights[static_cast<size_t>(Weight::kCalls)]; }},
      {As(Role::kWeight, TimeColumn("time")), "Wall share in all steady steps.",
       [](const StepStack& stack) { return TimeIn(stack.weights); }},
      {PercentColumn("time_percent", Better::kLower),
       "The same as a part of the steps' duration, or of the GPUs' time in them.",
       [host_ns, gpu_ns](const StepStack& stack) {
         return Percent(TimeIn(stack.weights), stack.kind == kGpuKind ? gpu_ns : host_ns);
       }},
      {As(Role::kKey, Detail(TextColumn("stack"))), "The activity, then its callers outwards, with lines where known.",
       &StepStack::stack},
      {TextColumn("path"), "The innermost frames and the outermost.", &StepStack::path},
  };
}

Table StepStacksTable(const TraceModel& model, const TableOptions& options) {
  const StepStacks stacks = StacksOf(BuildProfile(model, *options.analysis, {.with_kinds = false}));
  const auto order = ByWeight(stacks, [](const StepStack& stack) { return TimeIn(stack.weights); });
  Table table = NewTable("stacks", "Stacks under which the steps' time passed", StepStacksColumns(stacks), order);
  const bool has_steps =
      absl::c_any_of(options.analysis->steps(), [](const StepTrack& track) { return !track.steps.empty(); });
  if (!has_steps) table.Note("No repeating step was found: the time is that of the whole run.");
  if (model.python_stacks.empty() && model.calls.native_stack.empty()) {
    table.notes.emplace_back(kNoStacks);
  } else if (model.calls.native_stack.empty()) {
    table.notes.emplace_back(kNoNativeStacks);
  }
  table.Note("The times add up to those of the table accounting; --only library has every library call of the run.");
  return table;
}

Table LibraryStacks(const TraceModel& model, const TableOptions& options) {
  const std::vector<bool> is_wanted = WantedOps(model, options);
  const SameWork same_work(model);
  Askers askers(model, options.analysis->attribution());
  std::map<StacksKey, StacksSums> groups;
  absl::flat_hash_map<std::pair<OpIndex, const std::string*>, StacksSums*> alike;  // most calls resemble an earlier one
  int64_t thread_ns = 0, without_ns = 0;
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const int64_t self_ns = model.calls.self_ns[call];
    thread_ns += self_ns;
    const CallIndex outermost = same_work.Outermost(call);
    if (!is_wanted[model.calls.op[outermost]]) continue;
    const std::string& stack = askers.StackOf(outermost);
    if (stack.empty()) {
      without_ns += self_ns;
      continue;
    }
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
    if (is_wanted[row.op]) without_ns += row.sum_ns - row.nested_sum_ns;
  }
  const auto order = ByWeight(groups, &StacksSums::self_ns);
  Table table =
      NewTable("stacks", "Stacks under which the time of recorded calls passed", StacksColumns(thread_ns), order);
  if (groups.empty()) {
    table.notes.emplace_back(kNoStacks);
    return table;
  }
  if (model.calls.native_stack.empty()) table.notes.emplace_back(kNoNativeStacks);
  if (without_ns > 0) table.Note(HumanTime(without_ns), " of calls have no stack.");
  for (const std::string& note : model.native_symbols.notes) table.notes.push_back(note);
  return table;
}

}  // namespace

absl::StatusOr<Table> CallersTable(const TraceModel& model, const TableOptions& options) {
  return CallersReport(model, options).Make();
}

std::vector<std::string> FunctionsAndKinds(const TraceModel& model) {
  std::set<std::string> names;
  for (const Op& op : model.ops) {
    names.insert(op.function);
    names.insert(KindLabel(op));
  }
  return {names.begin(), names.end()};
}

absl::StatusOr<Table> StacksTable(const TraceModel& model, const TableOptions& options) {
  if (options.library_only || !options.functions.empty()) return LibraryStacks(model, options);
  return StepStacksTable(model, options);
}

}  // namespace dlhook::analyzer::tables
