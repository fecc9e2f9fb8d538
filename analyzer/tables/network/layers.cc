// Table `layers`: what each layer of the network costs, forward and backward, in a mean step.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/steps/phases.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/network/layer_groups.h"
#include "analyzer/tables/network/layer_sums.h"
#include "analyzer/tables/table_kind.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr size_t kMaxAmbiguitiesNoted = 5;
constexpr size_t kMaxStepSets = 16;  // sorts of steps that have rows
constexpr char kTitle[] = "What each layer costs, forward and backward, in a mean step";

Column StepTimeColumn(std::string name, std::string explanation) {
  return IntegerColumn(std::move(name), "ns", Better::kLower, std::move(explanation));
}

const char* LabelName(LayersBy by) {
  switch (by) {
    case LayersBy::kLayer:
      return "layer";
    case LayersBy::kModule:
      return "module";
    case LayersBy::kType:
      return "type";
    case LayersBy::kOp:
      return "op";
    case LayersBy::kLine:
      return "line";
    case LayersBy::kFunction:
      return "function";
    case LayersBy::kStack:
      return "stack";
  }
  return "layer";
}

// Of what GPUs did, where the run has their times.
std::vector<Column> GpuColumns() {
  return {
      As(Role::kPart,
         StepTimeColumn("gpu_forward", "How long GPUs worked for its forward pass in a mean step: sum of durations.")),
      As(Role::kPart, StepTimeColumn("gpu_backward", "For its backward pass: data, weights and bias together.")),
      RealColumn("gpu_percent", "%", Better::kLower,
                 "Its part of the GPUs' time in the steps: every moment of a GPU divided equally among what runs in "
                 "it."),
      RealColumn("gpu_rate", "GFLOP/s", Better::kHigher,
                 "FLOPs of its library calls, as executed, over all its GPU time."),
      RealColumn("kernels", "", Better::kLower, "Kernels in a mean step."),
  };
}

std::vector<Column> GpuDetailColumns() {
  return {
      Detail(StepTimeColumn("gpu_time",
                            "Sum of all durations on GPUs in a mean step, of what was asked for in the steps.")),
      As(Role::kPart, Detail(StepTimeColumn("gpu_recompute", "Of gpu_time: forward pass done again."))),
      As(Role::kPart, Detail(StepTimeColumn("gpu_update", "Of gpu_time: the optimizer's work."))),
      Detail(StepTimeColumn("gpu_backward_data", "Of gpu_backward: gradient of the layer's input.")),
      Detail(StepTimeColumn("gpu_backward_weights", "Of gpu_backward: gradient of the weights.")),
      As(Role::kWeight, Detail(StepTimeColumn("gpu_total", "Sum of all durations on GPUs of all steps together."))),
      Detail(
          StepTimeColumn("gpu_share", "Part of the GPUs' time of all steps together: the rows add up to it exactly.")),
  };
}

constexpr size_t kGpuColumnsAt = 2;
constexpr size_t kGpuDetailsAt = 10;  // before those come in: behind `time`
// With GPU times the line is full without these.
constexpr const char* kSecondRankBesideGpu[] = {"time_percent", "rate", "layout", "matched_by", "recompute"};

// What a layer costs a program that waits for GPUs is their time; the host's stands beside it.
void AddGpuColumns(std::vector<Column>* columns) {
  for (Column& column : *columns) {
    if (column.role == Role::kWeight) column.role = Role::kNone;
    if (column.role == Role::kPart) column.role = Role::kNone;
    const auto is_this = [&](const char* name) { return column.name == name; };
    if (std::any_of(std::begin(kSecondRankBesideGpu), std::end(kSecondRankBesideGpu), is_this)) column.detail = true;
  }
  const std::vector<Column> gpu = GpuColumns(), details = GpuDetailColumns();
  columns->insert(columns->begin() + kGpuDetailsAt, details.begin(), details.end());
  columns->insert(columns->begin() + kGpuColumnsAt, gpu.begin(), gpu.end());
}

// In text `model` and `recompute` have places of their own only where they say something.
std::vector<Column> Columns(LayersBy by, bool has_models, bool has_recompute, bool has_gpu) {
  std::vector<Column> columns = {
      As(Role::kName, TextColumn(LabelName(by), "As the program names it, in the order of the first forward pass.")),
      As(Role::kKey, TextColumn("model", "The network, if there are several.")),
      As(Role::kPart, StepTimeColumn("forward", "Wall share of its forward pass in a mean step.")),
      As(Role::kPart, StepTimeColumn("backward", "Of its backward pass: data, weights and bias together.")),
      As(Role::kPart, StepTimeColumn("recompute", "Forward pass done again for the backward pass (checkpointing).")),
      RealColumn("time_percent", "%", Better::kLower, "All its time as a part of the steps' time."),
      RealColumn("rate", "GFLOP/s", Better::kHigher, "FLOPs of its library calls over all its time."),
      As(Role::kPart, StepTimeColumn("layout", "Of all its time: moving tensors into another memory format for it.")),
      TextColumn("matched_by",
                 "Weakest evidence that was needed: framework, module, function, pointers, shapes, order."),
      Detail(StepTimeColumn("time", "Wall share of all it does in a mean step.")),
      Detail(StepTimeColumn("backward_data", "Of backward: gradient of the layer's input.")),
      Detail(StepTimeColumn("backward_weights", "Of backward: gradient of the weights.")),
      Detail(StepTimeColumn("backward_bias", "Of backward: gradient of the bias.")),
      As(Role::kPart, Detail(StepTimeColumn("update", "The optimizer's work."))),
      Detail(RealColumn("calls", "", Better::kLower, "Library calls in a mean step.")),
      Detail(RealColumn("flops", "flops", Better::kNeither, "Of its library calls in a mean step.")),
      Detail(RealColumn("bytes", "bytes", Better::kNeither, "Operands of its library calls in a mean step.")),
      Detail(StepTimeColumn("thread_time",
                            "Durations over all threads in a mean step, with what other layers do inside.")),
      Detail(StepTimeColumn("self_time", "The same without what other layers do inside.")),
      As(Role::kWeight,
         Detail(StepTimeColumn("wall_share", "Of all steps together: the rows add up to them exactly."))),
  };
  if (by != LayersBy::kType) columns.push_back(Detail(TextColumn("type", "Kind of work.")));
  if (by != LayersBy::kModule) columns.push_back(Detail(TextColumn("module", "Innermost module around it.")));
  columns.push_back(Detail(TextColumn("module_type", "Its class.")));
  if (by != LayersBy::kLine) columns.push_back(Detail(TextColumn("line", "Innermost line that is not a framework's.")));
  columns.push_back(Detail(TextColumn("ambiguity", "What had to be chosen to tell the layer from others.")));
  for (Column& column : columns) {
    if (column.name == "model") column.detail = !has_models;
    if (column.name == "recompute") column.detail = !has_recompute;
    if (column.name == "layout") column.detail = has_recompute;
  }
  if (has_gpu) AddGpuColumns(&columns);
  columns.insert(columns.begin(),
                 Detail(TextColumn("step",
                                   "Which steps the mean is of: kind, and in brackets what tells them from "
                                   "others; of the whole run where no steps are known.")));
  return columns;
}

// What all layers of the group have in common; "" where they differ.
std::string Common(const Attribution& attribution, const LayerGroup& group, std::string Layer::*field) {
  if (group.layers.empty()) return "";
  const std::string& first = attribution.layers[group.layers.front()].*field;
  for (LayerIndex layer : group.layers) {
    if (attribution.layers[layer].*field != first) return "";
  }
  return first;
}

std::string MatchedBy(const Attribution& attribution, const LayerGroup& group) {
  Evidence weakest = Evidence::kNone;
  for (LayerIndex layer : group.layers) weakest = std::max(weakest, attribution.layers[layer].evidence);
  return EvidenceName(weakest);
}

Cell TextOrUnknown(std::string text) {
  if (text.empty()) return std::monostate();
  return text;
}

// Of one set of steps.
class LayersReport {
 public:
  LayersReport(const TraceModel& model, const TableOptions& options, const StepSet& set)
      : attribution_(options.analysis->attribution()),
        step_(set.steps.empty() ? "" : StepName(set.kind, set.sort)),
        has_gpu_(GpuTimesOf(model, options) != GpuTimes::kNone),
        by_(options.layers_depth > 0 && options.layers_by == LayersBy::kLayer ? LayersBy::kModule : options.layers_by),
        groups_(model, attribution_, by_, options.layers_depth),
        sums_(SumLayers(model, *options.analysis, groups_, *options.totals, set)) {}

  Table Make() {
    has_models_ = HasSeveralModels();
    Table table = NewTable("layers", kTitle, Columns(by_, has_models_, HasRecompute(), has_gpu_));
    for (GroupIndex group : Order()) {
      if (IsListed(sums_.groups[group])) table.rows.push_back(RowOf(table, group));
    }
    AddNotes(&table);
    return table;
  }

 private:
  bool IsListed(const LayerSums::Group& group) const {
    return group.share_ns != 0 || (has_gpu_ && (group.gpu_share_ns != 0 || group.gpu_activities != 0));
  }

  bool HasSeveralModels() const {
    std::vector<std::string> models;
    for (const LayerGroup& group : groups_.groups()) {
      if (!group.model.empty()) models.push_back(group.model);
    }
    std::sort(models.begin(), models.end());
    return !models.empty() && models.front() != models.back();
  }

  bool HasRecompute() const {
    return std::any_of(sums_.groups.begin(), sums_.groups.end(),
                       [](const LayerSums::Group& group) { return group.Of(LayerDirection::kRecompute) != 0; });
  }

  // Of networks in their own order; kinds of work, ops and lines by time; what is of no layer last.
  std::vector<GroupIndex> Order() const {
    std::vector<GroupIndex> order(groups_.groups().size());
    for (GroupIndex i = 0; i < order.size(); ++i) order[i] = i;
    if (by_ == LayersBy::kLayer || by_ == LayersBy::kModule) return order;
    std::stable_sort(order.begin(), order.end(), [&](GroupIndex a, GroupIndex b) {
      const bool of_layer = groups_.IsLayerGroup(a), other_of_layer = groups_.IsLayerGroup(b);
      if (of_layer != other_of_layer) return of_layer;
      return of_layer && WeightOf(a) > WeightOf(b);
    });
    return order;
  }

  std::pair<int64_t, int64_t> WeightOf(GroupIndex group) const {
    return {has_gpu_ ? sums_.groups[group].gpu_share_ns : 0, sums_.groups[group].share_ns};
  }

  // What is nothing in all steps is not known rather than zero: a pooling layer has no gradient of weights.
  Cell PerStep(int64_t sum_ns) const {
    if (sum_ns == 0) return std::monostate();
    return Mean(sum_ns, sums_.steps());
  }
  Cell PerGpuStep(int64_t sum_ns) const {
    if (sum_ns == 0) return std::monostate();
    return Mean(sum_ns, sums_.gpu_steps());
  }
  Cell RealPerStep(double sum) const {
    if (sum == 0) return std::monostate();
    return sum / static_cast<double>(sums_.steps());
  }

  Cell RateOf(const LayerSums::Group& group) const {
    if (group.flops == 0 || !group.has_rate || group.share_ns <= 0) return std::monostate();
    return group.flops / static_cast<double>(group.share_ns);
  }

  Row RowOf(const Table& table, GroupIndex index) const {
    const LayerGroup& group = groups_.groups()[index];
    const LayerSums::Group& sums = sums_.groups[index];
    Row row = {group.label,
               TextOrUnknown(has_models_ ? group.model : ""),
               PerStep(sums.Of(LayerDirection::kForward)),
               PerStep(sums.backward_ns()),
               PerStep(sums.Of(LayerDirection::kRecompute)),
               Percent(sums.share_ns, sums_.total_ns),
               RateOf(sums),
               PerStep(sums.layout_ns),
               TextOrUnknown(MatchedBy(attribution_, group)),
               PerStep(sums.share_ns),
               PerStep(sums.Of(LayerDirection::kBackwardData)),
               PerStep(sums.Of(LayerDirection::kBackwardWeights)),
               PerStep(sums.Of(LayerDirection::kBackwardBias)),
               PerStep(sums.Of(LayerDirection::kUpdate)),
               RealPerStep(static_cast<double>(sums.calls)),
               RealPerStep(sums.flops),
               RealPerStep(sums.bytes),
               PerStep(sums.thread_ns),
               PerStep(sums.self_ns),
               sums.share_ns};
    if (has_gpu_) {
      const Row gpu = GpuCells(sums), details = GpuDetailCells(sums);
      row.insert(row.begin() + kGpuDetailsAt, details.begin(), details.end());
      row.insert(row.begin() + kGpuColumnsAt, gpu.begin(), gpu.end());
    }
    row.insert(row.begin(), TextOrUnknown(step_));
    for (size_t column = row.size(); column < table.columns.size(); ++column) {
      row.push_back(TextOrUnknown(Common(attribution_, group, FieldOf(table.columns[column].name))));
    }
    return row;
  }

  Row GpuCells(const LayerSums::Group& sums) const {
    const auto kernels = static_cast<double>(sums.gpu_kernels);
    return {PerGpuStep(sums.GpuOf(LayerDirection::kForward)), PerGpuStep(sums.gpu_backward_ns()),
            sums.gpu_share_ns == 0 ? Cell() : Percent(sums.gpu_share_ns, sums_.gpu_total_ns),
            sums.gpu_flops > 0 && sums.gpu_ns > 0 ? Cell(sums.gpu_flops / static_cast<double>(sums.gpu_ns)) : Cell(),
            sums.gpu_kernels == 0 ? Cell() : Cell(kernels / static_cast<double>(sums_.gpu_steps()))};
  }

  Row GpuDetailCells(const LayerSums::Group& sums) const {
    return {PerGpuStep(sums.gpu_ns),
            PerGpuStep(sums.GpuOf(LayerDirection::kRecompute)),
            PerGpuStep(sums.GpuOf(LayerDirection::kUpdate)),
            PerGpuStep(sums.GpuOf(LayerDirection::kBackwardData)),
            PerGpuStep(sums.GpuOf(LayerDirection::kBackwardWeights)),
            sums.gpu_ns,
            sums.gpu_share_ns};
  }

  static std::string Layer::*FieldOf(const std::string& column) {
    if (column == "type") return &Layer::type;
    if (column == "module") return &Layer::module;
    if (column == "module_type") return &Layer::module_type;
    if (column == "line") return &Layer::line;
    return &Layer::ambiguity;
  }

  void AddNotes(Table* table) const {
    table->notes.push_back(sums_.sentence);
    if (has_gpu_) AddGpuNotes(table);
    const bool calls_differ = std::any_of(sums_.groups.begin(), sums_.groups.end(), [&](const LayerSums::Group& group) {
      return group.calls % sums_.steps() != 0;
    });
    if (calls_differ)
      table->notes.push_back("Not all these steps make the same library calls: numbers of calls are means.");
    size_t noted = 0, ambiguous = 0;
    for (const Layer& layer : attribution_.layers) {
      if (layer.ambiguity.empty()) continue;
      if (++ambiguous <= kMaxAmbiguitiesNoted) table->notes.push_back(absl::StrCat(layer.name, ": ", layer.ambiguity));
      noted = std::min(ambiguous, kMaxAmbiguitiesNoted);
    }
    if (ambiguous > noted) table->notes.push_back(absl::StrCat(ambiguous - noted, " more layers are ambiguous."));
    for (const auto& [sentence, count] : attribution_.oddities) {
      table->notes.push_back(absl::StrCat(count, " x ", sentence, "."));
    }
  }

  void AddGpuNotes(Table* table) const {
    const int64_t idle_ns = sums_.groups[groups_.gpu_idle()].gpu_share_ns;
    const int64_t blind_ns = sums_.groups[groups_.gpu_blind()].gpu_share_ns;
    const int64_t measured_ns = sums_.gpu_total_ns - blind_ns;
    if (measured_ns == 0) return;
    table->notes.push_back(
        absl::StrFormat("GPUs had nothing to do in %.1f %% of the steps' time%s: see the table gpu_idle.",
                        100.0 * static_cast<double>(idle_ns) / static_cast<double>(measured_ns),
                        blind_ns > 0 ? " in which they were measured" : ""));
    if (blind_ns > 0) {
      table->notes.push_back(absl::StrCat("Of ", HumanTime(blind_ns), " of the steps it is not known what GPUs did."));
    }
    if (sums_.gpu_step_count < sums_.step_count) {
      table->notes.push_back(absl::StrCat("Means of GPU times are of the ", sums_.gpu_step_count,
                                          " steps all through which GPUs were measured."));
    }
  }

  const Attribution& attribution_;
  const std::string step_;
  const bool has_gpu_;
  const LayersBy by_;
  const LayerGroups groups_;
  const LayerSums sums_;
  bool has_models_ = false;
};

}  // namespace

absl::StatusOr<Table> LayersTable(const TraceModel& model, const TableOptions& options) {
  const bool has_lines = options.layers_by == LayersBy::kLine && !model.python_stacks.empty();
  const bool needs_layers =
      !has_lines && options.layers_by != LayersBy::kFunction && options.layers_by != LayersBy::kStack;
  if (needs_layers && options.analysis->attribution().layers.empty()) {
    Table table = NewTable("layers", kTitle, Columns(options.layers_by, false, false, false));
    table.notes.push_back("No layers were found.");
    return table;
  }
  std::vector<StepSet> sets = StepSetsOf(options.analysis->steps());
  const size_t found = sets.size();
  if (sets.empty()) sets.emplace_back();
  if (sets.size() > kMaxStepSets) sets.resize(kMaxStepSets);
  Table table = LayersReport(model, options, sets.front()).Make();
  for (size_t i = 1; i < sets.size(); ++i) {
    Table more = LayersReport(model, options, sets[i]).Make();
    for (size_t column = 0; column < table.columns.size(); ++column)
      table.columns[column].detail &= more.columns[column].detail;
    std::move(more.rows.begin(), more.rows.end(), std::back_inserter(table.rows));
    table.notes.insert(table.notes.begin() + static_cast<std::ptrdiff_t>(i), more.notes.front());
  }
  if (sets.size() > 1) table.columns.front() = As(Role::kKey, TextColumn("step", table.columns.front().explanation));
  if (found > sets.size()) {
    table.notes.push_back(
        absl::StrCat(found - sets.size(), " more sorts of steps are not in these rows: see the table phases."));
  }
  return table;
}

}  // namespace dlhook::analyzer::tables
