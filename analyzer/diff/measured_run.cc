#include "analyzer/diff/measured_run.h"

#include "analyzer/diff/changes.h"
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
    if (const auto exact = exact_.find(RowKey(block, row, KeyParts::kAll)); exact != exact_.end()) return exact->second;
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

// Sums of a run become those of so many steps: whole numbers of them are then exact to a thousandth.
constexpr double kStepsOfARun = 1000;

class TableMerger {
 public:
  void Add(const MeasuredTable& run) {
    if (merged_.table.columns.empty()) merged_.table = {run.table.name, run.table.title, run.table.columns, {}, {}};
    std::map<std::string, size_t> met;  // of equal rows each is its own
    for (size_t row = 0; row < run.table.rows.size(); ++row) {
      const std::string key = RowKey(run.table, row, KeyParts::kAll);
      AddRow(run, row, {key, met[key]++});
    }
    merged_.block_counts.insert(merged_.block_counts.end(), run.block_counts.begin(), run.block_counts.end());
    ++runs_;
    for (Samples& samples : merged_.samples) PadTo(runs_, samples);
  }

  MeasuredTable Take() {
    merged_.per = kStepsOfARun * static_cast<double>(runs_);
    for (Row& row : merged_.table.rows) {
      for (size_t column = 0; column < row.size(); ++column) {
        if (merged_.table.columns[column].role == Role::kPart)
          row[column] = SumOf(row[column]) / static_cast<int64_t>(runs_);
      }
    }
    return std::move(merged_);
  }

 private:
  using Key = std::pair<std::string, size_t>;

  void AddRow(const MeasuredTable& run, size_t row, Key key) {
    const auto [place, is_new] = places_.try_emplace(std::move(key), merged_.table.rows.size());
    if (is_new) {
      merged_.table.rows.push_back(run.table.rows[row]);
      merged_.samples.emplace_back();
      PadTo(runs_, merged_.samples.back());
    }
    merged_.samples[place->second].push_back(run.samples[row].front());
    Row& sum = merged_.table.rows[place->second];
    for (size_t column = 0; column < run.table.columns.size(); ++column) {
      const Role role = run.table.columns[column].role;
      const auto* number = std::get_if<int64_t>(&run.table.rows[row][column]);
      const bool is_sum = role == Role::kWeight || role == Role::kAmount;
      if (number == nullptr || (!is_sum && role != Role::kPart)) continue;
      const double of_run = static_cast<double>(*number) * (is_sum ? kStepsOfARun / run.per : 1);
      sum[column] = (is_new ? 0 : SumOf(sum[column])) + std::llround(of_run);
    }
  }

  // Of a run that has not the row: blocks of nothing.
  void PadTo(size_t runs, Samples& samples) const {
    while (samples.size() < runs) samples.emplace_back(std::max<size_t>(merged_.block_counts[samples.size()], 1));
  }

  static int64_t SumOf(const Cell& cell) {
    const auto* number = std::get_if<int64_t>(&cell);
    return number == nullptr ? 0 : *number;
  }

  MeasuredTable merged_;
  size_t runs_ = 0;
  std::map<Key, size_t> places_;  // of rows
};

void Append(const Samples& from, Samples& to) { to.insert(to.end(), from.begin(), from.end()); }

void MergeLoad(const MachineLoad& run, double share, MachineLoad& load) {
  load.is_known = load.is_known && run.is_known;
  load.cpu_ns += share * run.cpu_ns;
  load.first_thread_cpu_ns += share * run.first_thread_cpu_ns;
  load.waiting_ns += share * run.waiting_ns;
  load.throttled_ns += share * run.throttled_ns;
  load.runnable += share * run.runnable;
  load.processors = std::max(load.processors, run.processors);
  load.allowed = std::max(load.allowed, run.allowed);
  load.own.running += share * run.own.running;
  if (run.own.wanted) load.own.wanted = load.own.wanted.value_or(0) + share * *run.own.wanted;
  load.own.ran += share * run.own.ran;
  load.own.others += share * run.own.others;
  load.own.threads = std::max(load.own.threads, run.own.threads);
  load.own.processes = std::max(load.own.processes, run.own.processes);
  load.threads = std::max(load.threads, run.threads);
  Append(run.cpu_samples, load.cpu_samples);
  Append(run.waiting_samples, load.waiting_samples);
}

void MergeSteps(const ComparedSteps& run, ComparedSteps& steps) {
  steps.tracks.insert(steps.tracks.end(), run.tracks.begin(), run.tracks.end());
  steps.interrupted += run.interrupted;
  steps.interrupted_ns += run.interrupted_ns;
  steps.unrecorded += run.unrecorded;
  steps.unrecorded_ns += run.unrecorded_ns;
  steps.validations += run.validations;
  steps.validation_steps += run.validation_steps;
  steps.validation_ns += run.validation_ns;
  steps.batch_is_rows |= run.batch_is_rows;
  if (steps.batch != run.batch) steps.batch = 0;
}

template <typename Map>
void AddShare(const Map& from, double share, Map& to) {
  for (const auto& [key, count] : from) to[key] += share * count;
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

MeasuredRun MergeRuns(std::vector<MeasuredRun> runs) {
  if (runs.size() == 1) return std::move(runs.front());
  const double share = 1 / static_cast<double>(runs.size());
  MeasuredRun merged;
  merged.names.clear();
  merged.steps.kind = runs.front().steps.kind;
  merged.steps.batch = runs.front().steps.batch;
  merged.load.is_known = true;
  std::vector<TableMerger> tables(runs.front().tables.size());
  for (const MeasuredRun& run : runs) {
    merged.names.insert(merged.names.end(), run.names.begin(), run.names.end());
    merged.time_ns += share * run.time_ns;
    MergeSteps(run.steps, merged.steps);
    MergeLoad(run.load, share, merged.load);
    merged.preparing.Add(run.preparing);
    merged.around.Add(run.around, share);
    merged.between_calls.Add(run.between_calls);
    for (const auto& [line, ns] : run.between_lines)
      merged.between_lines[line] += ns / static_cast<double>(runs.size());
    Append(run.samples, merged.samples);
    Append(run.low_samples, merged.low_samples);
    for (size_t i = 0; i < tables.size(); ++i) tables[i].Add(run.tables[i]);
  }
  for (TableMerger& table : tables) merged.tables.push_back(table.Take());
  return merged;
}

DoneWork MergeWork(const std::vector<DoneWork>& runs) {
  const double share = 1 / static_cast<double>(runs.size());
  DoneWork merged;
  merged.micro_steps = runs.front().micro_steps;
  for (const DoneWork& run : runs) {
    merged.steps += run.steps;
    AddShare(run.calls, share, merged.calls);
    AddShare(run.ops, share, merged.ops);
    AddShare(run.types, share, merged.types);
    AddShare(run.other_steps, share, merged.other_steps);
    merged.updates += run.updates * share;
    merged.optimizers.insert(run.optimizers.begin(), run.optimizers.end());
    merged.loaders.insert(run.loaders.begin(), run.loaders.end());
    merged.processes.insert(run.processes.begin(), run.processes.end());
  }
  return merged;
}

}  // namespace dlhook::analyzer::diff
