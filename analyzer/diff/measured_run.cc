// Prepares a run for comparison: see measured_run.h.
#include "analyzer/diff/measured_run.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "analyzer/diff/row_keys.h"
#include "analyzer/diff/step_slice.h"
#include "analyzer/steps/measured_steps.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer::inline diff {
namespace {

absl::StatusOr<std::vector<Table>> RunTables(const TraceModel& model, const TableOptions& options,
                                             const std::vector<const TableKind*>& kinds) {
  std::vector<Table> tables;
  for (const TableKind* kind : kinds) {
    absl::StatusOr<Table> table = MakeTable(*kind, model, options);
    if (!table.ok()) return table.status();
    tables.push_back(*std::move(table));
  }
  return tables;
}

absl::StatusOr<std::vector<Table>> RunTablesOn(const StepSlice& slice, const TableOptions& options,
                                               const std::vector<const TableKind*>& kinds) {
  TableOptions own = options;
  own.choices = &slice.choices();
  own.totals = &slice.totals();
  own.analysis = &slice.analysis();
  return RunTables(slice.model(), own, kinds);
}

// Steps that are not compared (only warm-up, validation) must not be taken for the whole run.
absl::StatusOr<std::vector<Table>> RunTablesOnAll(const TraceModel& model, const TableOptions& options,
                                                  const std::vector<const TableKind*>& kinds) {
  const LayerAnalysis analysis(*options.analysis, {});
  TableOptions own = options;
  own.analysis = &analysis;
  return RunTables(model, own, kinds);
}

// Adds the weights of a block's rows to the corresponding rows of the table over all blocks.
class BlockRows {
 public:
  explicit BlockRows(const Table& whole) : weight_(ColumnOf(whole, Role::kWeight)) {
    for (size_t row = 0; row < whole.rows.size(); ++row) {
      exact_.try_emplace(RowKey(whole, row, KeyParts::kAll), row);
      same_.try_emplace(RowKey(whole, row, KeyParts::kWithoutChoices), row);
    }
  }

  void Add(const Table& block, double steps, size_t index, std::vector<Samples>& samples) const {
    for (size_t row = 0; row < block.rows.size(); ++row) {
      const auto* weight = std::get_if<int64_t>(&block.rows[row][weight_]);
      const size_t whole = Find(block, row);
      if (weight != nullptr && whole != kNoColumn)
        samples[whole].front()[index] += static_cast<double>(*weight) / steps;
    }
  }

 private:
  size_t Find(const Table& block, size_t row) const {
    const auto exact = exact_.find(RowKey(block, row, KeyParts::kAll));
    if (exact != exact_.end()) return exact->second;
    const auto same = same_.find(RowKey(block, row, KeyParts::kWithoutChoices));
    return same != same_.end() ? same->second : kNoColumn;
  }

  const size_t weight_;
  std::map<std::string, size_t> exact_, same_;
};

// None where there are no steps: then one number is all that a run says of a row.
std::vector<Samples> SamplesOf(const Table& table, size_t blocks) {
  std::vector<Samples> samples(table.rows.size(), Samples{BlockMeans(std::max<size_t>(blocks, 1))});
  if (blocks > 0) return samples;
  const size_t weight = ColumnOf(table, Role::kWeight);
  for (size_t row = 0; row < table.rows.size(); ++row) {
    if (const auto* sum = std::get_if<int64_t>(&table.rows[row][weight])) samples[row] = {{static_cast<double>(*sum)}};
  }
  return samples;
}

}  // namespace

bool IsComparable(const Table& table) { return ColumnOf(table, Role::kWeight) != kNoColumn; }

MeasuredRun MeasureDurations(const ComparedSteps& steps) {
  MeasuredRun run;
  run.steps = steps;
  run.time_ns = static_cast<double>(steps.total_ns()) / static_cast<double>(std::max<int64_t>(steps.count(), 1));
  BlockMeans means, lows;
  for (const ComparedSteps& block : CutIntoBlocks(steps, kBlocks)) {
    means.push_back(static_cast<double>(block.total_ns()) / static_cast<double>(block.count()));
    lows.push_back(static_cast<double>(QuartilesOf(block.Durations()).lower));
  }
  run.samples = {std::move(means)};
  run.low_samples = {std::move(lows)};
  return run;
}

absl::StatusOr<MeasuredRun> MeasureRun(const TraceModel& model, const TableOptions& options, const ComparedSteps& steps,
                                       const std::vector<const TableKind*>& kinds) {
  MeasuredRun run = MeasureDurations(steps);
  run.names = {model.name};
  const int64_t count = steps.count();
  const Attribution& attribution = options.analysis->attribution();
  absl::StatusOr<std::vector<Table>> tables = count == 0
                                                  ? RunTablesOnAll(model, options, kinds)
                                                  : RunTablesOn(StepSlice(model, attribution, steps), options, kinds);
  if (!tables.ok()) return tables.status();
  if (count == 0) {
    run.time_ns = static_cast<double>(model.wall_ns());
    run.samples = run.low_samples = {{run.time_ns}};
  }
  const std::vector<ComparedSteps> blocks = CutIntoBlocks(steps, kBlocks);
  run.load = FindLoad(model, steps, blocks);
  std::vector<BlockRows> rows;
  for (Table& table : *tables) {
    rows.emplace_back(table);
    const std::vector<Samples> samples = SamplesOf(table, blocks.size());
    run.tables.push_back(
        {std::move(table), static_cast<double>(std::max<int64_t>(count, 1)), {blocks.size()}, samples});
  }
  for (size_t block = 0; block < blocks.size(); ++block) {
    const auto block_steps = static_cast<double>(blocks[block].count());
    const auto parts = RunTablesOn(StepSlice(model, attribution, blocks[block]), options, kinds);
    if (!parts.ok()) return parts.status();
    for (size_t i = 0; i < parts->size(); ++i) rows[i].Add((*parts)[i], block_steps, block, run.tables[i].samples);
  }
  return run;
}

}  // namespace dlhook::analyzer::diff
