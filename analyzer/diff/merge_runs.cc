// The runs of a side as one: see measured_run.h.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "analyzer/diff/measured_run.h"
#include "analyzer/diff/row_keys.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline diff {
namespace {

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
  steps.validations += run.validations;
  steps.validation_steps += run.validation_steps;
  steps.validation_ns += run.validation_ns;
  if (steps.batch != run.batch) steps.batch = 0;
}

template <typename Map>
void AddShare(const Map& from, double share, Map& to) {
  for (const auto& [key, count] : from) to[key] += share * count;
}

}  // namespace

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
    merged.optimizers.insert(run.optimizers.begin(), run.optimizers.end());
    merged.loaders.insert(run.loaders.begin(), run.loaders.end());
    merged.processes.insert(run.processes.begin(), run.processes.end());
  }
  return merged;
}

}  // namespace dlhook::analyzer::diff
