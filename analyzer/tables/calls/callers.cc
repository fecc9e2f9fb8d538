// Table `callers`: who called each problem: framework function, user's line and layer.

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/layers/functions/askers.h"
#include "analyzer/model/same_work.h"
#include "analyzer/tables/calls/call_filter.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr char kCallersTitle[] = "Call sites: framework function, line of the program and layer of each problem";

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
      {As(Role::kKey, TextColumn("kind", "What was computed, as in the table ops.")), &CallersSums::kind},
      {As(Role::kShape, Detail(TextColumn("problem", "Its size, as the library states it."))), &CallersSums::problem},
      {As(Role::kKey, TextColumn("asked_by",
                                 "The framework's function above the call (at::native::addmm_out_cpu, ...Op::Compute, "
                                 "ConvolutionLayer<float>::Forward_cpu); without native stacks the framework's op, "
                                 "else the innermost Python function. [libfoo.so]: a function without a name.")),
       Known(&CallersSums::asked_by)},
      {As(Role::kKey,
          TextColumn("line",
                     "Innermost line, or function, of the program itself; of backward work that of its layer.")),
       Known(&CallersSums::line)},
      {CallsColumn("Calls, without those inside another call of the same kind."), &CallersSums::calls},
      {PercentColumn("time_percent", Better::kLower, "Self time as a part of the thread time of all recorded calls."),
       [thread_ns](const CallersSums& sums) { return Percent(sums.self_ns, thread_ns); }},
      {As(Role::kName, TextColumn("layer", "The layer that it is computed for.")), Known(&CallersSums::layer)},
      {As(Role::kKey, TextColumn("direction", "Forward or backward, of the layer's work.")),
       Known(&CallersSums::direction)},
      {As(Role::kWeight,
          Detail(TimeColumn("self_time",
                            "Thread time without calls inside of other kinds, which have rows of their own."))),
       &CallersSums::self_ns},
      {As(Role::kKey, Detail(TextColumn("model", "The network, if there are several."))), Known(&CallersSums::model)},
      {Detail(TotalTimeColumn()), &CallersSums::total_ns},
      {Detail(MeanTimeColumn()), [](const CallersSums& sums) { return Mean(sums.total_ns, sums.calls); }},
      {Detail(TextColumn("functions", "Functions or logs through which the calls were seen.")),
       &CallersSums::functions},
  };
}

class CallersReport {
 public:
  CallersReport(const TraceModel& model, const TableOptions& options)
      : model_(model),
        options_(options),
        attribution_(options.analysis->attribution()),
        filter_(model, options),
        same_work_(model),
        askers_(model, attribution_) {}

  Table Make() {
    for (CallIndex call = 0; call < model_.calls.size(); ++call) AddCall(call);
    for (const AggregateRow& row : model_.aggregates) AddAggregate(row);
    auto order = ByWeight(groups_, &CallersSums::self_ns);
    if (!knows_any_) order.clear();
    Table table = NewTable("callers", kCallersTitle, CallersColumns(thread_ns_), order);
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
    if (!filter_.Takes(model_.calls.op[outermost])) return;
    CallersSums& sums = SumsOf(outermost, op);
    sums.self_ns += model_.calls.self_ns[call];
    sums.functions.insert(model_.ops[model_.calls.op[call]].function);
    if (call != outermost) return;
    ++sums.calls;
    sums.total_ns += model_.calls.duration_ns[call];
    const bool is_known = model_.calls.NativeStackOf(call) != kNone;
    with_stack_ += is_known ? 1 : 0;
    without_stack_ += is_known ? 0 : 1;
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
    if (!filter_.Takes(row.op)) return;
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
      table->notes.push_back(
          absl::StrCat(without_stack_, " of ", with_stack_ + without_stack_, " calls were kept without native stack."));
    }
    for (const std::string& note : model_.native_symbols.notes) table->notes.push_back(note);
  }

  const TraceModel& model_;
  const TableOptions& options_;
  const Attribution& attribution_;
  const CallFilter filter_;
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

}  // namespace

absl::StatusOr<Table> CallersTable(const TraceModel& model, const TableOptions& options) {
  return CallersReport(model, options).Make();
}

}  // namespace dlhook::analyzer::tables
