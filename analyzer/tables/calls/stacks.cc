// Table `stacks`: the heaviest stacks, native frames with Python's woven in.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/layers/functions/askers.h"
#include "analyzer/model/same_work.h"
#include "analyzer/tables/calls/call_filter.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/table_kind.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr char kTitle[] = "Stacks under which the time of recorded calls passed";

struct Sums {
  int64_t calls = 0;
  int64_t total_ns = 0;
  int64_t self_ns = 0;
};

// kind, whole stack, path.
using Key = std::tuple<std::string, std::string, std::string>;

std::vector<Column> Columns() {
  return {
      As(Role::kKey, TextColumn("kind", "What was computed, as in the table ops.")),
      CallsColumn("Calls, without those inside another call of the same kind."),
      As(Role::kWeight,
         IntegerColumn("self_time", "ns", Better::kLower, "Thread time without calls inside of other kinds.")),
      RealColumn("time_percent", "%", Better::kLower, "Self time as a part of the thread time of all recorded calls."),
      Detail(TotalTimeColumn()),
      As(Role::kKey,
         Detail(TextColumn("stack",
                           "The function called, then who called whom, outwards, with lines where they are known."))),
      TextColumn("path", "The same without the inside of math libraries, dispatchers and the start of threads."),
  };
}

}  // namespace

absl::StatusOr<Table> StacksTable(const TraceModel& model, const TableOptions& options) {
  const CallFilter filter(model, options);
  const SameWork same_work(model);
  Askers askers(model, options.analysis->attribution());
  std::map<Key, Sums> groups;
  absl::flat_hash_map<std::pair<OpIndex, const std::string*>, Sums*> alike;  // most calls are like one before
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
      at->second = &groups[{KindLabel(model.ops[model.calls.op[outermost]]), stack, askers.PathOf(outermost)}];
    }
    Sums& sums = *at->second;
    sums.self_ns += self_ns;
    if (call != outermost) continue;
    ++sums.calls;
    sums.total_ns += model.calls.duration_ns[call];
  }
  for (const AggregateRow& row : model.aggregates) {
    thread_ns += row.sum_ns - row.nested_sum_ns;
    if (filter.Takes(row.op)) without_ns += row.sum_ns - row.nested_sum_ns;
  }
  Table table = NewTable("stacks", kTitle, Columns());
  if (groups.empty()) {
    table.notes.emplace_back(kNoStacks);
    return table;
  }
  std::vector<const std::pair<const Key, Sums>*> order;
  for (const auto& group : groups) order.push_back(&group);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->second.self_ns > b->second.self_ns; });
  for (const auto* group : order) {
    const auto& [kind, stack, path] = group->first;
    const Sums& sums = group->second;
    table.rows.push_back(
        {kind, sums.calls, sums.self_ns, Percent(sums.self_ns, thread_ns), sums.total_ns, stack, path});
  }
  if (model.calls.native_stack.empty()) table.notes.emplace_back(kNoNativeStacks);
  if (without_ns > 0) table.notes.push_back(absl::StrCat(HumanTime(without_ns), " of calls have no stack."));
  for (const std::string& note : model.native_symbols.notes) table.notes.push_back(note);
  return table;
}

}  // namespace dlhook::analyzer::tables
