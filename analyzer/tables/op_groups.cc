// Totals of ops that belong in one row of a table: see op_groups.h.
#include "analyzer/tables/op_groups.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "analyzer/model/same_work.h"
#include "analyzer/tables/columns.h"

namespace dlhook::analyzer::inline tables {

std::vector<OpIndex> HomeOps(const TraceModel& model, const RunTotals& totals) {
  std::vector<OpIndex> home(model.ops.size());
  bool any_nested = false;
  for (OpIndex op = 0; op < home.size(); ++op) {
    home[op] = op;
    any_nested |= totals.ops[op].nested_calls > 0;
  }
  if (!any_nested) return home;
  const SameWork same_work(model);
  std::map<OpIndex, std::map<OpIndex, int64_t>> around;
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const OpTotals& op_totals = totals.ops[model.calls.op[call]];
    if (op_totals.nested_calls == 0 || op_totals.nested_calls != op_totals.calls) continue;
    const CallIndex outermost = same_work.Outermost(call);
    if (outermost != call) ++around[model.calls.op[call]][model.calls.op[outermost]];
  }
  for (const auto& [op, counts] : around) {
    home[op] = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
                 return a.second < b.second;
               })->first;
  }
  return home;
}

void OpGroup::Add(const Op& op, const OpTotals& totals, bool at_home) {
  const int64_t own_calls = totals.calls - totals.nested_calls;
  if (totals.calls > 0 && !op.is_continuation) {
    min_ns = calls + nested_calls == 0 ? totals.min_ns : std::min(min_ns, totals.min_ns);
    max_ns = std::max(max_ns, totals.max_ns);
  }
  const bool first_calls = calls == 0;
  calls += own_calls;
  if (!op.is_continuation) nested_calls += totals.nested_calls;
  total_ns += totals.total_ns;
  self_ns += totals.self_ns;
  wall_share_ns += totals.wall_share_ns;
  functions.insert(op.function);
  if (!at_home) return;
  families.insert(op.family);
  if (!op.implementation.empty()) implementations.insert(op.implementation);
  if (!op.algorithm.empty()) algorithms.insert(op.algorithm);
  if (own_calls > 0) {
    const bool op_has_rate = !op.is_asynchronous && !op.captured;
    flops = first_calls || flops == op.flops ? op.flops : std::nullopt;
    has_rate &= op_has_rate;
    if (op.flops && op_has_rate) {
      total_flops += static_cast<double>(*op.flops) * static_cast<double>(own_calls);
      flops_ns += totals.total_ns;
    }
  }
}

std::string ChosenLabel(const Op& op) {
  absl::string_view chosen = op.implementation.empty() ? op.algorithm : op.implementation;
  for (const char* library : {"cudnn ", "cublasLt ", "cublas "}) {
    if (absl::ConsumePrefix(&chosen, library)) break;
  }
  return std::string(chosen);
}

std::string TensorCoreLabel(const TensorCore& tensor_core) {
  const char* answer = tensor_core.eligible ? "yes" : "no";
  if (tensor_core.reason.empty()) return answer;
  return absl::StrCat(answer, ": ", tensor_core.reason);
}

TypedColumn<OpGroup> OpTotalTime() { return {TotalTimeColumn(), &OpGroup::total_ns}; }

TypedColumn<OpGroup> OpMeanTime() {
  return {MeanTimeColumn(), [](const OpGroup& group) { return Mean(group.total_ns, group.calls); }};
}

TypedColumn<OpGroup> OpWallShare() { return {WallShareColumn(), &OpGroup::wall_share_ns}; }

TypedColumn<OpGroup> OpWallPercent(int64_t wall_ns) {
  return {WallPercentColumn(), [wall_ns](const OpGroup& group) { return Percent(group.wall_share_ns, wall_ns); }};
}

TypedColumn<OpGroup> OpRate() {
  return {RateColumn(), [](const OpGroup& group) {
            return group.has_rate ? Rate(group.flops, group.calls, group.total_ns) : Cell();
          }};
}

TypedColumn<OpGroup> OpFlops() {
  return {IntegerColumn("flops", "flops", Better::kNeither, "Floating-point operations of one call, by the formula."),
          &OpGroup::flops};
}

TypedColumn<OpGroup> OpFunctions() {
  return {TextColumn("functions", "Functions or logs through which the calls were seen."), &OpGroup::functions};
}

}  // namespace dlhook::analyzer::tables
