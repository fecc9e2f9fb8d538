// Table `algorithms`: which implementation and algorithm a library took for each distinct problem.
// A problem that was done in several ways has several rows.
#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/passes/columns.h"
#include "analyzer/passes/op_groups.h"
#include "analyzer/passes/pass.h"
#include "analyzer/passes/tables.h"

namespace dlhook::analyzer {
namespace {

// kind, direction, problem, types, formats, implementation, algorithm, post-ops.
using Key = std::tuple<std::string, Direction, std::string, std::string, std::string, std::string,
                       std::string, std::string>;

Key KeyOf(const Op& op) {
  return {op.kind,          op.direction,      op.problem,   op.types,
          FormatsLabel(op), op.implementation, op.algorithm, absl::StrJoin(op.post_ops, "+")};
}

struct Choice {
  OpGroup executions;
  int64_t cache_hits = 0;
  int64_t cache_misses = 0;
  int64_t creation_ns = 0;
};

std::vector<Column> Columns() {
  return {
      TextColumn("kind", "The primitive."),
      TextColumn("direction", "Forward or backward, where the library says so."),
      TextColumn("problem", "Its size, as the library states it."),
      TextColumn("implementation", "The kernel that the library chose."),
      CallsColumn("Executions."),
      TotalTimeColumn(),
      MeanTimeColumn(),
      WallPercentColumn(),
      TextColumn("algorithm", "The algorithm, as the library names it."),
      TextColumn("formats", "Memory format of every tensor."),
      TextColumn("types",
                 "Data types of source, weights and destination; one where all are equal."),
      TextColumn("post_ops", "Operations fused after this one."),
      WallShareColumn(),
      IntegerColumn("flops", "flops", Better::kNeither,
                    "Floating-point operations of one call, by the books."),
      RateColumn(),
      IntegerColumn("cache_hits", "", Better::kNeither,
                    "Primitives taken from the library's cache (seen at capture level 2)."),
      IntegerColumn(
          "cache_misses", "", Better::kLower,
          "Primitives created anew: chosen, generated, compiled (seen at capture level 2)."),
      IntegerColumn("creation_time", "ns", Better::kLower, "Time of these creations."),
  };
}

Row ChoiceRow(const Key& key, const Choice& choice, int64_t wall_ns) {
  const OpGroup& group = choice.executions;
  return {std::get<0>(key),
          std::string(DirectionName(std::get<1>(key))),
          std::get<2>(key),
          std::get<5>(key),
          group.calls,
          group.total_ns,
          Mean(group.total_ns, group.calls),
          Percent(group.wall_share_ns, wall_ns),
          std::get<6>(key),
          std::get<4>(key),
          std::get<3>(key),
          std::get<7>(key),
          group.wall_share_ns,
          OrUnknown(group.flops),
          Rate(group.flops, group.calls, group.total_ns),
          choice.cache_hits,
          choice.cache_misses,
          choice.creation_ns};
}

bool HasChoice(const Op& op) { return !op.implementation.empty() || !op.algorithm.empty(); }

void AddOp(const Op& op, const OpTotals& totals, Choice& choice) {
  if (!op.is_creation) {
    choice.executions.Add(op, totals, /*at_home=*/true);
    return;
  }
  (op.cache_hit ? choice.cache_hits : choice.cache_misses) += totals.calls;
  choice.creation_ns += totals.total_ns;
}

}  // namespace

absl::StatusOr<Table> AlgorithmsTable(const TraceModel& model, const PassOptions& options) {
  std::map<Key, Choice> choices;
  int64_t silent_calls = 0;
  for (OpIndex i = 0; i < model.ops.size(); ++i) {
    const OpTotals& totals = options.totals->ops[i];
    if (totals.calls == 0) continue;
    if (HasChoice(model.ops[i])) {
      AddOp(model.ops[i], totals, choices[KeyOf(model.ops[i])]);
    } else {
      silent_calls += totals.calls;
    }
  }
  std::vector<const std::pair<const Key, Choice>*> order;
  for (const auto& choice : choices) order.push_back(&choice);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::tie(a->second.executions.total_ns, a->second.creation_ns) >
           std::tie(b->second.executions.total_ns, b->second.creation_ns);
  });

  Table table = NewTable("algorithms", "Implementation and algorithm of each problem", Columns());
  for (const auto* choice : order) {
    table.rows.push_back(ChoiceRow(choice->first, choice->second, model.wall_ns()));
  }
  if (silent_calls > 0) {
    table.notes.push_back(absl::StrCat(silent_calls,
                                       " calls are not listed: their library does not "
                                       "tell which implementation it took (BLAS)."));
  }
  return table;
}

}  // namespace dlhook::analyzer
