// Table `memory`: what the memory that a framework's allocator gave out is held for, by kind, layer and operator.

#include "analyzer/analysis/memory_use.h"
#include "analyzer/calls/python_places.h"
#include "analyzer/gpu/gpu_division.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

struct MemoryRow {
  MemoryKind kind = MemoryKind::kNoSteps;
  std::string layer, op, line;
  MemorySum sum;
  int64_t pid = 0;
  std::string device;
  int64_t peak_bytes = 0;  // of all rows of the device
};

TypedColumns<MemoryRow> MemoryColumns(bool has_processes) {
  return {
      {ProcessColumn(has_processes), &MemoryRow::pid},
      {As(Role::kKey, TextColumn("device")), "Whose memory.", &MemoryRow::device},
      {As(Role::kKey, TextColumn("kind")),
       "What it is held for, as far as that follows from when it was allocated and freed.",
       [](const MemoryRow& row) { return std::string(MemoryKindName(row.kind)); }},
      {As(Role::kName, TextColumn("layer")), "For whose work it was allocated.", Known(&MemoryRow::layer)},
      {As(Role::kKey, TextColumn("allocated_by")), "The framework's operator that asked for it.",
       Known(&MemoryRow::op)},
      {As(Role::kWeight, IntegerColumn("at_peak", "bytes", Better::kLower)),
       "Held when the process holds most on this device: these add up to its peak.",
       [](const MemoryRow& row) { return row.sum.at_peak_bytes; }},
      {PercentColumn("percent", Better::kLower), "Of that peak.",
       [](const MemoryRow& row) {
         return row.kind == MemoryKind::kReserved ? Cell() : Percent(row.sum.at_peak_bytes, row.peak_bytes);
       }},
      {IntegerColumn("most", "bytes", Better::kLower), "The most that is held of this at any time.",
       [](const MemoryRow& row) { return row.sum.blocks == 0 ? Cell() : Cell(row.sum.most_bytes); }},
      {IntegerColumn("blocks", "", Better::kLower), "Allocations over the whole run.",
       [](const MemoryRow& row) { return row.sum.blocks == 0 ? Cell() : Cell(row.sum.blocks); }},
      {Detail(TextColumn("line")), "Of the program, of its largest allocation.", Known(&MemoryRow::line)},
      {Detail(TextColumn("because")), "What makes memory one of the kind, or why it could not be told apart.",
       [](const MemoryRow& row) { return std::string(MemoryKindRule(row.kind)); }},
  };
}

class MemoryRows {
 public:
  MemoryRows(const TraceModel& model, const Attribution& attribution)
      : model_(model), attribution_(attribution), places_(ReadPythonPlaces(model)) {}

  std::vector<MemoryRow> Of(const DeviceMemory& device) const {
    using Key = std::tuple<MemoryKind, LayerIndex, NameIndex>;
    std::vector<MemoryRow> all;
    for (const auto& [key, sum] : SumMemory<Key>(model_, device, [](const MemoryBlock& block) {
           return std::optional(Key(block.kind, block.layer, block.op));
         })) {
      const auto& [kind, layer, op] = key;
      MemoryRow& row = all.emplace_back();
      row.kind = kind;
      row.sum = sum;
      if (layer != kNone) row.layer = attribution_.NameOf(layer);
      if (op != kNone) row.op = std::string(WithoutEngine(model_.names[op]));
      if (sum.largest->stack != kNone) row.line = LineLabel(model_, places_[sum.largest->stack]);
    }
    const auto add = [&](MemoryKind kind, int64_t bytes) {
      if (bytes > 0) all.push_back({.kind = kind, .sum = {.at_peak_bytes = bytes}});
    };
    add(MemoryKind::kBeforeRecording, device.peak_unseen_bytes);
    add(MemoryKind::kReserved, device.peak_reserved_bytes - device.peak_bytes);
    for (MemoryRow& row : all) {
      row.pid = model_.processes[device.process].pid;
      row.device = MemoryDeviceName(device.device);
      row.peak_bytes = device.peak_bytes;
    }
    absl::c_stable_sort(all, [](const MemoryRow& a, const MemoryRow& b) {
      return std::tie(a.sum.at_peak_bytes, a.sum.most_bytes) > std::tie(b.sum.at_peak_bytes, b.sum.most_bytes);
    });
    return all;
  }

 private:
  const TraceModel& model_;
  const Attribution& attribution_;
  const std::vector<PythonPlace> places_;
};

// Why frees, or all of a part of the run, may be missing.
std::string GapsOf(const TraceModel& model, ProcessIndex process) {
  const bool was_stopped =
      absl::c_any_of(model.recording_stops, [&](const RecordingStop& stop) { return stop.process == process; });
  if (was_stopped) return "Recording was stopped for a time: what was freed then counts as held.";
  if (model.HasReachedLimit()) return "Only the beginning of the run is known (DLHOOK_MAX_BYTES).";
  if (IsMemoryOfBeginning(model)) return "Only the first steps are known (DLHOOK_BUDGET).";
  if (!model.processes[process].losses.empty()) return "Records were lost: what they tell of is missing here.";
  return "";
}

}  // namespace

absl::StatusOr<Table> MemoryTable(const TraceModel& model, const TableOptions& options) {
  const TypedColumns<MemoryRow> columns = MemoryColumns(model.processes.size() > 1);
  Table table = NewTable("memory", "What memory is held for, at its peak", columns);
  if (model.memory.empty()) {  // finding steps takes time
    SayWhyNone(model, "memory", &table);
    return table;
  }
  const LayerAnalysis& analysis = *options.analysis;
  const auto& use = analysis.Derived<MemoryUse>(model, analysis.attribution(), analysis.steps());
  const MemoryRows rows(model, analysis.attribution());
  for (const ProcessIndex process : ByRank(model)) {
    const std::string gaps = GapsOf(model, process);
    if (!gaps.empty()) table.notes.push_back(gaps);
    std::vector<const DeviceMemory*> devices;  // most first
    for (const DeviceMemory& device : use.devices) {
      if (device.process == process) devices.push_back(&device);
    }
    absl::c_stable_sort(devices, [](auto* a, auto* b) { return a->peak_bytes > b->peak_bytes; });
    for (const DeviceMemory* device : devices) {
      for (const MemoryRow& row : rows.Of(*device)) AddRow(columns, row, &table);
      table.Note(model.processes.size() > 1 ? absl::StrCat(ProcessLabel(model, process), ": ") : "", "peak of ",
                 PeakSentence(model, analysis.attribution(), *device), ".");
    }
  }
  return table;
}

}  // namespace dlhook::analyzer::tables
