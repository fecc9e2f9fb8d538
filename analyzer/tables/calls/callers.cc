// Table `callers`: who asked for each problem, by framework function, user's line and layer.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/layers/functions/askers.h"
#include "analyzer/model/same_work.h"
#include "analyzer/tables/calls/call_filter.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/op_groups.h"
#include "analyzer/tables/table_kind.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr char kTitle[] = "Who asked for what: by framework function, line of the program and layer";

// kind, problem, asking function, line, layer, model, direction.
using Key = std::tuple<std::string, std::string, std::string, std::string, std::string, std::string, std::string>;

struct Sums {
  int64_t calls = 0;
  int64_t total_ns = 0;
  int64_t self_ns = 0;
  std::set<std::string> functions;
};

std::vector<Column> Columns() {
  return {
      As(Role::kKey, TextColumn("kind", "What was computed, as in the table ops.")),
      As(Role::kShape, Detail(TextColumn("problem", "Its size, as the library states it."))),
      As(Role::kKey,
         TextColumn(
             "asked_by",
             "The framework's function above the call (at::native::addmm_out_cpu, ...Op::Compute, "
             "ConvolutionLayer<float>::Forward_cpu); without native stacks the framework's op, else the innermost "
             "Python function. [libfoo.so]: a function without a name.")),
      As(Role::kKey,
         TextColumn("line", "Innermost line, or function, of the program itself; of backward work that of its layer.")),
      CallsColumn("Calls, without those inside another call of the same kind."),
      RealColumn("time_percent", "%", Better::kLower, "Self time as a part of the thread time of all recorded calls."),
      As(Role::kName, TextColumn("layer", "The layer that it is computed for.")),
      As(Role::kKey, TextColumn("direction", "Forward or backward, of the layer's work.")),
      As(Role::kWeight,
         Detail(IntegerColumn("self_time", "ns", Better::kLower,
                              "Thread time without calls inside of other kinds, which have rows of their own."))),
      As(Role::kKey, Detail(TextColumn("model", "The network, if there are several."))),
      Detail(TotalTimeColumn()),
      Detail(MeanTimeColumn()),
      Detail(TextColumn("functions", "Functions or taps that the calls were seen through.")),
  };
}

Cell TextOrUnknown(const std::string& text) { return text.empty() ? Cell() : Cell(text); }

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
    Table table = NewTable("callers", kTitle, Columns());
    if (!knows_any_) {
      table.notes.emplace_back(kNoStacks);
      return table;
    }
    std::vector<const std::pair<const Key, Sums>*> order;
    for (const auto& group : groups_) order.push_back(&group);
    std::stable_sort(order.begin(), order.end(),
                     [](const auto* a, const auto* b) { return a->second.self_ns > b->second.self_ns; });
    for (const auto* group : order) table.rows.push_back(RowOf(group->first, group->second));
    AddNotes(&table);
    return table;
  }

 private:
  // A call inside another view of the same work is booked with that one.
  void AddCall(CallIndex call) {
    thread_ns_ += model_.calls.self_ns[call];
    const CallIndex outermost = same_work_.Outermost(call);
    const Op& op = model_.ops[model_.calls.op[outermost]];
    if (!filter_.Takes(model_.calls.op[outermost])) return;
    Sums& sums = SumsOf(outermost, op);
    sums.self_ns += model_.calls.self_ns[call];
    sums.functions.insert(model_.ops[model_.calls.op[call]].function);
    if (call != outermost) return;
    ++sums.calls;
    sums.total_ns += model_.calls.duration_ns[call];
    const bool is_known = model_.calls.NativeStackOf(call) != kNone;
    with_stack_ += is_known ? 1 : 0;
    without_stack_ += is_known ? 0 : 1;
  }

  // Most calls are like one before.
  Sums& SumsOf(CallIndex call, const Op& op) {
    const Place& place = attribution_.of_call[call];
    const Alike alike = {model_.calls.op[call], &askers_.FunctionOf(call), place.layer, place.direction};
    const auto [at, is_new] = alike_.try_emplace(alike, nullptr);
    if (is_new) at->second = &groups_[KeyOf(call, op)];
    return *at->second;
  }

  Key KeyOf(CallIndex call, const Op& op) {
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
    Sums& sums = groups_[{KindLabel(op), ProblemLabel(op), "", "", "", "", ""}];
    sums.calls += row.count - row.nested_count;
    sums.total_ns += row.sum_ns - row.nested_sum_ns;
    sums.self_ns += row.sum_ns - row.nested_sum_ns;
    sums.functions.insert(op.function);
    without_stack_ += row.count - row.nested_count;
  }

  Row RowOf(const Key& key, const Sums& sums) const {
    const auto& [kind, problem, function, line, layer, model, direction] = key;
    return {kind,
            problem,
            TextOrUnknown(function),
            TextOrUnknown(line),
            sums.calls,
            Percent(sums.self_ns, thread_ns_),
            TextOrUnknown(layer),
            TextOrUnknown(direction),
            sums.self_ns,
            TextOrUnknown(model),
            sums.total_ns,
            Mean(sums.total_ns, sums.calls),
            Join(sums.functions)};
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
  using Alike =
      std::tuple<OpIndex, const std::string*, LayerIndex, LayerDirection>;  // the asker by its place in memory
  std::map<Key, Sums> groups_;
  absl::flat_hash_map<Alike, Sums*> alike_;
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
