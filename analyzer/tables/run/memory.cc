// Table `memory`: what the memory that a framework's allocator gave out is held for, by kind, layer and operator.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/analysis/memory_use.h"
#include "analyzer/calls/python_places.h"
#include "analyzer/gpu/gpu_busy.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/table/human.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/table_kind.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

struct MemoryRow {
  MemoryKind kind = MemoryKind::kNoSteps;
  std::string layer, op, line;
  int64_t at_peak_bytes = 0;
  int64_t most_bytes = 0;  // held at any time
  int64_t now_bytes = 0;   // while events are followed
  int64_t blocks = 0;
  int64_t pid = 0;
  std::string device;
  int64_t peak_bytes = 0;  // of all rows of the device
};

TypedColumns<MemoryRow> MemoryColumns(bool has_processes) {
  return {
      {ProcessColumn(has_processes), &MemoryRow::pid},
      {As(Role::kKey, TextColumn("device", "Whose memory.")), &MemoryRow::device},
      {As(Role::kKey,
          TextColumn("kind", "What it is held for, as far as that follows from when it was allocated and freed.")),
       [](const MemoryRow& row) { return std::string(MemoryKindName(row.kind)); }},
      {As(Role::kName, TextColumn("layer", "For whose work it was allocated.")), Known(&MemoryRow::layer)},
      {As(Role::kKey, TextColumn("allocated_by", "The framework's operator that asked for it.")),
       Known(&MemoryRow::op)},
      {As(Role::kWeight, IntegerColumn("at_peak", "bytes", Better::kLower,
                                       "Held when the process holds most on this device: these add up to its peak.")),
       &MemoryRow::at_peak_bytes},
      {RealColumn("percent", "%", Better::kLower, "Of that peak."),
       [](const MemoryRow& row) {
         return row.kind == MemoryKind::kReserved ? Cell() : Percent(row.at_peak_bytes, row.peak_bytes);
       }},
      {IntegerColumn("most", "bytes", Better::kLower, "The most that is held of this at any time."),
       [](const MemoryRow& row) { return row.blocks == 0 ? Cell() : Cell(row.most_bytes); }},
      {IntegerColumn("blocks", "", Better::kLower, "Allocations over the whole run."),
       [](const MemoryRow& row) { return row.blocks == 0 ? Cell() : Cell(row.blocks); }},
      {Detail(TextColumn("line", "Of the program, of its largest allocation.")), Known(&MemoryRow::line)},
      {Detail(TextColumn("because", "What makes memory one of the kind, or why it could not be told apart.")),
       [](const MemoryRow& row) { return std::string(MemoryKindRule(row.kind)); }},
  };
}

class MemoryRows {
 public:
  MemoryRows(const TraceModel& model, const Attribution& attribution)
      : model_(model), attribution_(attribution), places_(ReadPythonPlaces(model)) {}

  std::vector<MemoryRow> Of(const DeviceMemory& device) const {
    std::map<std::tuple<MemoryKind, LayerIndex, NameIndex>, MemoryRow> rows;
    std::vector<std::pair<size_t, std::pair<MemoryRow*, int64_t>>> changes;
    std::map<const MemoryRow*, int64_t> largest_block;
    for (const MemoryBlock& block : device.blocks) {
      MemoryRow& row = rows[{block.kind, block.layer, block.op}];
      const int64_t bytes = model_.memory[block.born].bytes;
      if (++row.blocks == 1) {
        row.kind = block.kind;
        if (block.layer != kNone) row.layer = attribution_.layers[block.layer].name;
        if (block.op != kNone) row.op = WithoutEngine(model_.names[block.op]);
      }
      if (int64_t& most = largest_block[&row]; bytes > most) {
        most = bytes;
        if (block.stack != kNone) row.line = LineLabel(model_, places_[block.stack]);
      }
      if (device.IsAtPeak(block)) row.at_peak_bytes += bytes;
      changes.push_back({block.born, {&row, bytes}});
      if (block.died != SIZE_MAX) changes.push_back({block.died, {&row, -bytes}});
    }
    // What is freed first: an event may do both.
    std::sort(changes.begin(), changes.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first, a.second.second) < std::tie(b.first, b.second.second);
    });
    for (const auto& [event, change] : changes) {
      const auto& [row, bytes] = change;
      row->now_bytes += bytes;
      row->most_bytes = std::max(row->most_bytes, row->now_bytes);
    }
    std::vector<MemoryRow> all;
    for (auto& [key, row] : rows) all.push_back(std::move(row));
    const auto add = [&](MemoryKind kind, int64_t bytes) {
      if (bytes > 0) all.push_back({.kind = kind, .at_peak_bytes = bytes});
    };
    add(MemoryKind::kBeforeRecording, device.peak_unseen_bytes);
    add(MemoryKind::kReserved, device.peak_reserved_bytes - device.peak_bytes);
    for (MemoryRow& row : all) {
      row.pid = model_.processes[device.process].pid;
      row.device = MemoryDeviceName(device.device);
      row.peak_bytes = device.peak_bytes;
    }
    std::stable_sort(all.begin(), all.end(), [](const MemoryRow& a, const MemoryRow& b) {
      return std::tie(a.at_peak_bytes, a.most_bytes) > std::tie(b.at_peak_bytes, b.most_bytes);
    });
    return all;
  }

 private:
  const TraceModel& model_;
  const Attribution& attribution_;
  const std::vector<PythonPlace> places_;
};

}  // namespace

absl::StatusOr<Table> MemoryTable(const TraceModel& model, const TableOptions& options) {
  const TypedColumns<MemoryRow> columns = MemoryColumns(model.processes.size() > 1);
  Table table = NewTable("memory", "What memory is held for, at its peak", columns);
  if (model.memory.empty()) return table;  // finding steps takes time
  const LayerAnalysis& analysis = *options.analysis;
  const auto& use = analysis.Derived<MemoryUse>(model, analysis.attribution(), analysis.steps());
  const MemoryRows rows(model, analysis.attribution());
  for (const ProcessIndex process : ByRank(model)) {
    for (const DeviceMemory& device : use.devices) {
      if (device.process != process) continue;
      for (const MemoryRow& row : rows.Of(device)) AddRow(columns, row, &table);
      table.notes.push_back(
          absl::StrCat(model.processes.size() > 1 ? absl::StrCat(ProcessLabel(model, process), ": ") : "", "peak of ",
                       PeakSentence(model, analysis.attribution(), device), "."));
    }
  }
  return table;
}

}  // namespace dlhook::analyzer::tables
