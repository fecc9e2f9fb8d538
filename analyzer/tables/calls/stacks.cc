// Table `stacks`: the heaviest stacks, native and Python frames merged.
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

constexpr char kStacksTitle[] = "Stacks under which the time of recorded calls passed";

struct StacksKey {
  std::string kind, stack, path;
  auto operator<=>(const StacksKey&) const = default;
};

struct StacksSums : StacksKey {
  explicit StacksSums(StacksKey key) : StacksKey(std::move(key)) {}
  int64_t calls = 0;
  int64_t total_ns = 0;
  int64_t self_ns = 0;
};

TypedColumns<StacksSums> StacksColumns(int64_t thread_ns) {
  return {
      {As(Role::kKey, TextColumn("kind", "What was computed, as in the table ops.")), &StacksSums::kind},
      {CallsColumn("Calls, without those inside another call of the same kind."), &StacksSums::calls},
      {As(Role::kWeight,
          IntegerColumn("self_time", "ns", Better::kLower, "Thread time without calls inside of other kinds.")),
       &StacksSums::self_ns},
      {RealColumn("time_percent", "%", Better::kLower, "Self time as a part of the thread time of all recorded calls."),
       [thread_ns](const StacksSums& sums) { return Percent(sums.self_ns, thread_ns); }},
      {Detail(TotalTimeColumn()), &StacksSums::total_ns},
      {As(Role::kKey,
          Detail(TextColumn("stack",
                            "The function called, then who called whom, outwards, with lines where they are known."))),
       &StacksSums::stack},
      {TextColumn("path", "The same without the inside of math libraries, dispatchers and the start of threads."),
       &StacksSums::path},
  };
}

}  // namespace

absl::StatusOr<Table> StacksTable(const TraceModel& model, const TableOptions& options) {
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
      at->second = &groups.try_emplace(key, key).first->second;
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
  std::vector<const StacksSums*> order;
  for (const auto& [key, sums] : groups) order.push_back(&sums);
  std::stable_sort(order.begin(), order.end(),
                   [](const StacksSums* a, const StacksSums* b) { return a->self_ns > b->self_ns; });
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

}  // namespace dlhook::analyzer::tables
