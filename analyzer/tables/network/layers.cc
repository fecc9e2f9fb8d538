// Table `layers`: the cost of each layer of the network, forward and backward, in a mean step.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/steps/phases.h"
#include "analyzer/table/table_ops.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/network/layer_groups.h"
#include "analyzer/tables/network/layer_sums.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr size_t kMaxAmbiguitiesNoted = 5;
constexpr double kWorthSayingOverlap = 1.02;  // what GPU times add up to, as a part of the time in which GPUs were busy
constexpr size_t kMaxStepSets = 16;           // sorts of steps with rows of their own
constexpr char kTitle[] = "What each layer costs, forward and backward, in a mean step";

// What all layers of the group have in common; "" if they differ.
std::string Common(const Attribution& attribution, const LayerGroup& group, std::string Layer::*field) {
  if (group.layers.empty()) return "";
  const std::string& first = attribution.layers[group.layers.front()].*field;
  for (LayerIndex layer : group.layers) {
    if (attribution.layers[layer].*field != first) return "";
  }
  return first;
}

// A row. A value that is zero in all steps is shown as unknown, not as zero: a pooling layer has no weight gradient.
struct LayerRow {
  const LayerGroup& group;
  const LayerSums::Group& sums;
  const LayerSums& all;
  const Attribution& attribution;
  const std::string& step;

  Cell PerStep(int64_t sum_ns) const { return sum_ns == 0 ? Cell() : Mean(sum_ns, all.steps()); }
  Cell PerGpuStep(int64_t sum_ns) const { return sum_ns == 0 ? Cell() : Mean(sum_ns, all.gpu_steps()); }
  Cell RealPerStep(double sum) const { return sum == 0 ? Cell() : Cell(sum / static_cast<double>(all.steps())); }

  Cell Rate() const {
    if (sums.flops == 0 || !sums.has_rate || sums.share_ns <= 0) return std::monostate();
    return sums.flops / static_cast<double>(sums.share_ns);
  }

  Cell MatchedBy() const {
    Evidence weakest = Evidence::kNone;
    if (group.is_sampled) weakest = Evidence::kFunction;
    for (LayerIndex layer : group.layers) weakest = std::max(weakest, attribution.layers[layer].evidence);
    return KnownText(EvidenceName(weakest));
  }
};

TypedColumn<LayerRow> TimeColumn(std::string name, std::string explanation, auto sum_of) {
  return {tables::TimeColumn(std::move(name), std::move(explanation)),
          [sum_of](const LayerRow& row) { return row.PerStep(std::invoke(sum_of, row.sums)); }};
}

TypedColumn<LayerRow> TimeColumn(std::string name, std::string explanation, LayerDirection direction) {
  return TimeColumn(std::move(name), std::move(explanation),
                    [direction](const LayerSums::Group& sums) { return sums.Of(direction); });
}

TypedColumn<LayerRow> GpuTimeColumn(std::string name, std::string explanation, auto sum_of) {
  return {tables::TimeColumn(std::move(name), std::move(explanation)),
          [sum_of](const LayerRow& row) { return row.PerGpuStep(std::invoke(sum_of, row.sums)); }};
}

TypedColumn<LayerRow> GpuTimeColumn(std::string name, std::string explanation, LayerDirection direction) {
  return GpuTimeColumn(std::move(name), std::move(explanation),
                       [direction](const LayerSums::Group& sums) { return sums.GpuOf(direction); });
}

TypedColumn<LayerRow> MeanColumn(std::string name, std::string unit, Better better, std::string explanation,
                                 auto LayerSums::Group::*sum) {
  return Detail(TypedColumn<LayerRow>(
      RealColumn(std::move(name), std::move(unit), better, std::move(explanation)),
      [sum](const LayerRow& row) { return row.RealPerStep(static_cast<double>(row.sums.*sum)); }));
}

TypedColumn<LayerRow> PeakColumn(std::string name, std::string explanation, auto peak_ns_of) {
  return Detail(TypedColumn<LayerRow>(
      PercentColumn(std::move(name), Better::kHigher, std::move(explanation)), [peak_ns_of](const LayerRow& row) {
        const double peak_ns = std::invoke(peak_ns_of, row.sums);
        return peak_ns > 0 && row.sums.gpu_ns > 0 ? Cell(100 * peak_ns / static_cast<double>(row.sums.gpu_ns)) : Cell();
      }));
}

// GPU times, if the run has them.
TypedColumns<LayerRow> GpuColumns() {
  return {
      As(Role::kPart,
         GpuTimeColumn("gpu_forward", "How long GPUs worked for its forward pass in a mean step: sum of durations.",
                       LayerDirection::kForward)),
      As(Role::kPart, GpuTimeColumn("gpu_backward", "For its backward pass: data, weights and bias together.",
                                    &LayerSums::Group::gpu_backward_ns)),
      {PercentColumn("gpu_percent", Better::kLower),
       "Its part of the GPUs' time in the steps: each instant of a GPU divided equally among the work in it.",
       [](const LayerRow& row) {
         return row.sums.gpu_share_ns == 0 ? Cell() : Percent(row.sums.gpu_share_ns, row.all.gpu_total_ns);
       }},
      {RealColumn("gpu_rate", "GFLOP/s", Better::kHigher),
       "FLOPs of its library calls, as executed, over all its GPU time.",
       [](const LayerRow& row) {
         const bool is_known = row.sums.gpu_flops > 0 && row.sums.gpu_ns > 0;
         return is_known ? Cell(row.sums.gpu_flops / static_cast<double>(row.sums.gpu_ns)) : Cell();
       }},
      PeakColumn("mfu",
                 "Model FLOPs utilization while its GPU work runs: the least time of its products, convolutions and "
                 "attention, at the GPU's peak for their types, as a part of all its GPU time.",
                 [](const LayerSums::Group& sums) { return sums.gpu_peak_ns - sums.gpu_recompute_peak_ns; }),
      PeakColumn("hfu", "The same with forward passes done again (hardware FLOPs utilization).",
                 &LayerSums::Group::gpu_peak_ns),
      {RealColumn("kernels", "", Better::kLower), "Kernels in a mean step.",
       [](const LayerRow& row) {
         const auto kernels = static_cast<double>(row.sums.gpu_kernels);
         return row.sums.gpu_kernels == 0 ? Cell() : Cell(kernels / static_cast<double>(row.all.gpu_steps()));
       }},
  };
}

TypedColumns<LayerRow> GpuDetailColumns() {
  return {
      Detail(GpuTimeColumn("gpu_time",
                           "Sum of all durations on GPUs in a mean step, of the work that the steps launched.",
                           &LayerSums::Group::gpu_ns)),
      As(Role::kPart,
         Detail(GpuTimeColumn("gpu_recompute", "Of gpu_time: forward pass done again.", LayerDirection::kRecompute))),
      As(Role::kPart,
         Detail(GpuTimeColumn("gpu_update", "Of gpu_time: the optimizer's work.", LayerDirection::kUpdate))),
      Detail(GpuTimeColumn("gpu_backward_data", "Of gpu_backward: gradient of the layer's input.",
                           LayerDirection::kBackwardData)),
      Detail(GpuTimeColumn("gpu_backward_weights", "Of gpu_backward: gradient of the weights.",
                           LayerDirection::kBackwardWeights)),
      {As(Role::kWeight,
          Detail(tables::TimeColumn("gpu_total", "Sum of all durations on GPUs of all steps together."))),
       [](const LayerRow& row) { return row.sums.gpu_ns; }},
      {Detail(tables::TimeColumn("gpu_share",
                                 "Part of the GPUs' time of all steps together: the rows add up to it exactly.")),
       [](const LayerRow& row) { return row.sums.gpu_share_ns; }},
  };
}

// Hidden by default if there are GPU times, which fill the line.
constexpr const char* kSecondRankBesideGpu[] = {"time_percent", "rate", "layout", "matched_by", "recompute", "time"};

// If the program waits for GPUs, their time is the cost of a layer; host time is shown next to it.
void AddGpuColumns(TypedColumns<LayerRow>* columns) {
  for (AnyColumn& typed : columns->all()) {
    if (typed.column.role == Role::kWeight || typed.column.role == Role::kPart) typed.column.role = Role::kNone;
  }
  for (const char* name : kSecondRankBesideGpu) columns->Find(name)->detail = true;
  columns->InsertAfter("model", GpuColumns());
  columns->InsertAfter("time", GpuDetailColumns());
}

TypedColumn<LayerRow> LayerColumn(std::string name, std::string explanation, std::string Layer::*field) {
  return {Detail(TextColumn(std::move(name), std::move(explanation))),
          [field](const LayerRow& row) { return KnownText(Common(row.attribution, row.group, field)); }};
}

// Text output shows `model` and `recompute` as columns only if they say something.
TypedColumns<LayerRow> Columns(LayersBy by, bool has_models, bool has_recompute, bool has_gpu) {
  TypedColumns<LayerRow> columns = {
      {Detail(TextColumn("step")),
       "The steps of the mean: their kind; in brackets, if there are several of a kind, range, network or batch. "
       "Without known steps: the whole run.",
       [](const LayerRow& row) { return KnownText(row.step); }},
      {As(Role::kName, TextColumn(kLayersByNames[static_cast<size_t>(by)])),
       "As the program names it, in the order of the first forward pass.",
       [](const LayerRow& row) { return row.group.label; }},
      {As(Role::kKey, TextColumn("model")), "The network, if there are several.",
       [has_models](const LayerRow& row) { return KnownText(has_models ? row.group.model : ""); }},
      As(Role::kPart,
         TimeColumn("forward", "Wall share of its forward pass in a mean step.", LayerDirection::kForward)),
      As(Role::kPart, TimeColumn("backward", "Of its backward pass: data, weights and bias together.",
                                 &LayerSums::Group::backward_ns)),
      As(Role::kPart, TimeColumn("recompute", "Forward pass done again for the backward pass (checkpointing).",
                                 LayerDirection::kRecompute)),
      {PercentColumn("time_percent", Better::kLower), "All its time as a part of the steps' time.",
       [](const LayerRow& row) { return Percent(row.sums.share_ns, row.all.total_ns); }},
      {RealColumn("rate", "GFLOP/s", Better::kHigher), "FLOPs of its library calls over all its time.",
       &LayerRow::Rate},
      As(Role::kPart, TimeColumn("layout", "Part of its time spent converting tensors to another memory format.",
                                 &LayerSums::Group::layout_ns)),
      {TextColumn("matched_by"),
       "Weakest evidence that was needed: framework, module, function, pointers, shapes, order.", &LayerRow::MatchedBy},
      TimeColumn("time", "Wall share of all its activity in a mean step.", &LayerSums::Group::share_ns),
      Detail(TimeColumn("backward_data", "Of backward: gradient of the layer's input.", LayerDirection::kBackwardData)),
      Detail(TimeColumn("backward_weights", "Of backward: gradient of the weights.", LayerDirection::kBackwardWeights)),
      Detail(TimeColumn("backward_bias", "Of backward: gradient of the bias.", LayerDirection::kBackwardBias)),
      As(Role::kPart, Detail(TimeColumn("update", "The optimizer's work.", LayerDirection::kUpdate))),
      MeanColumn("calls", "", Better::kLower, "Library calls in a mean step.", &LayerSums::Group::calls),
      MeanColumn("flops", "flops", Better::kNeither, "Of its library calls in a mean step.", &LayerSums::Group::flops),
      MeanColumn("bytes", "bytes", Better::kNeither, "Operands of its library calls in a mean step.",
                 &LayerSums::Group::bytes),
      Detail(TimeColumn("thread_time", "Durations over all threads in a mean step, with what other layers do inside.",
                        &LayerSums::Group::thread_ns)),
      Detail(TimeColumn("self_time", "The same without what other layers do inside.", &LayerSums::Group::self_ns)),
      {As(Role::kWeight,
          Detail(tables::TimeColumn("wall_share", "Of all steps together: the rows add up to them exactly."))),
       [](const LayerRow& row) { return row.sums.share_ns; }},
  };
  if (by != LayersBy::kType) columns.Add(LayerColumn("type", "Kind of work.", &Layer::type));
  if (by != LayersBy::kModule) columns.Add(LayerColumn("module", "Innermost module around it.", &Layer::module));
  columns.Add(LayerColumn("module_type", "Its class.", &Layer::module_type));
  if (by != LayersBy::kLine) {
    columns.Add(LayerColumn("line", "Innermost line that is not a framework's.", &Layer::line));
  }
  columns.Add(LayerColumn("ambiguity", "What had to be chosen to tell the layer from others.", &Layer::ambiguity));
  columns.Find("model")->detail = !has_models;
  columns.Find("recompute")->detail = !has_recompute;
  columns.Find("layout")->detail = has_recompute;
  if (has_gpu) AddGpuColumns(&columns);
  return columns;
}

// Of a row's time, in percent.
TypedColumn<LayerRow> ErrorColumn(std::string name, std::string explanation, double LayerSums::Group::*error_ns,
                                  int64_t LayerSums::Group::*sum_ns, int64_t (LayerSums::*steps)() const) {
  return Detail(TypedColumn<LayerRow>(
      PercentColumn(std::move(name), Better::kNeither, std::move(explanation)), [=](const LayerRow& row) {
        const double ns = static_cast<double>(row.sums.*sum_ns) / static_cast<double>((row.all.*steps)());
        return ns > 0 ? Cell(100 * row.sums.*error_ns / ns) : Cell();
      }));
}

// Of a run recorded in windows.
void InsertErrors(bool has_gpu, TypedColumns<LayerRow>* columns) {
  columns->InsertAfter("time",
                       {ErrorColumn("time_error",
                                    "Standard error of `time` as the mean of all steps, by how much the recorded "
                                    "steps differ; too small where other programs interrupt a few steps for long.",
                                    &LayerSums::Group::error_ns, &LayerSums::Group::share_ns, &LayerSums::steps)});
  if (!has_gpu) return;
  columns->InsertAfter("gpu_time", {ErrorColumn("gpu_error", "The same of gpu_time.", &LayerSums::Group::gpu_error_ns,
                                                &LayerSums::Group::gpu_ns, &LayerSums::gpu_steps)});
}

void InsertBounds(const TableOptions& options, int64_t steps, TypedColumns<LayerRow>* columns) {
  const auto bounds_of = [](const LayerRow& row) -> const BoundSums& { return row.sums.bounds; };
  columns->InsertAfter("bytes", BoundColumns(options, steps).Of<LayerRow>(bounds_of));
}

// For one set of steps.
class LayersReport {
 public:
  LayersReport(const TraceModel& model, const TableOptions& options, const StepSet& set)
      : attribution_(options.analysis->attribution()),
        step_(set.steps.empty() ? "" : StepName(set.kind, set.sort)),
        has_gpu_(GpuTimesOf(model, options) != GpuTimes::kNone),
        has_windows_(!model.scope_windows.empty()),
        by_(options.layers_depth > 0 && options.layers_by == LayersBy::kLayer ? LayersBy::kModule : options.layers_by),
        groups_(model, attribution_, by_, options.layers_depth),
        sums_(SumLayers(model, *options.analysis, groups_, *options.totals, set, options.peaks)),
        options_(options) {}

  Table Make() {
    TypedColumns<LayerRow> columns = Columns(by_, HasSeveralModels(), HasRecompute(), has_gpu_);
    InsertBounds(options_, sums_.steps(), &columns);
    if (has_windows_) InsertErrors(has_gpu_, &columns);
    Table table = NewTable("layers", kTitle, columns);
    for (GroupIndex group : Order()) {
      const LayerSums::Group& sums = sums_.groups[group];
      if (IsListed(sums)) AddRow(columns, {groups_.groups()[group], sums, sums_, attribution_, step_}, &table);
    }
    AddNotes(&table);
    AddBoundNotes(options_, &table);
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
    absl::c_sort(models);
    return !models.empty() && models.front() != models.back();
  }

  bool HasRecompute() const {
    return absl::c_any_of(sums_.groups,
                          [](const LayerSums::Group& group) { return group.Of(LayerDirection::kRecompute) != 0; });
  }

  // Layers in network order; kinds of work, ops and lines by time; rows without a layer last.
  std::vector<GroupIndex> Order() const {
    std::vector<GroupIndex> order(groups_.groups().size());
    for (GroupIndex i = 0; i < order.size(); ++i) order[i] = i;
    if (by_ == LayersBy::kLayer || by_ == LayersBy::kModule) return order;
    absl::c_stable_sort(order, [&](GroupIndex a, GroupIndex b) {
      const bool of_layer = groups_.IsLayerGroup(a), other_of_layer = groups_.IsLayerGroup(b);
      if (of_layer != other_of_layer) return of_layer;
      return of_layer && WeightOf(a) > WeightOf(b);
    });
    return order;
  }

  std::pair<int64_t, int64_t> WeightOf(GroupIndex group) const {
    return {has_gpu_ ? sums_.groups[group].gpu_share_ns : 0, sums_.groups[group].share_ns};
  }

  void AddNotes(Table* table) const {
    table->notes.push_back(sums_.sentence);
    AddSampleNotes(table);
    if (has_gpu_) AddGpuNotes(table);
    const bool calls_differ =
        absl::c_any_of(sums_.groups, [&](const LayerSums::Group& group) { return group.calls % sums_.steps() != 0; });
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

  void AddSampleNotes(Table* table) const {
    const std::vector<LayerGroup>& groups = groups_.groups();
    bool is_sampled = false;
    for (GroupIndex group = 0; group < groups.size(); ++group) {
      is_sampled |= groups[group].is_sampled && sums_.groups[group].share_ns > 0;
    }
    if (is_sampled) {
      table->notes.emplace_back(
          "Layers without calls that dlhook records are found in samples of CPU time, by the functions that compute "
          "them: all layers that one function computes share a row.");
    }
    if (by_ != LayersBy::kLayer && by_ != LayersBy::kModule && by_ != LayersBy::kType) return;
    for (const auto& [library, sum] : groups_.nameless()) {
      if (sum.samples < kFewestOfRow) continue;
      table->notes.push_back(
          absl::StrCat("Samples: ", HumanTime(sum.cpu_ns), " of CPU time in ", library,
                       ", whose functions have no names: the layers that it computed are not known."));
    }
  }

  // Of the steps: FLOPs of what is not a call (kernels of the framework) are not known.
  std::string UtilizationNote(int64_t gpu_ns) const {
    const std::string unknown = "MFU (model FLOPs utilization) is not known, because ";
    if (!sums_.gpu_types_without_peak.empty()) {
      return absl::StrCat(unknown, "no peak of the GPU is known for ",
                          absl::StrJoin(sums_.gpu_types_without_peak, ", "), ".");
    }
    if (sums_.gpu_peaks.empty()) return absl::StrCat(unknown, "the FLOPs of no call on the GPU are.");
    const LayerSums::Utilization used = *sums_.GpuUtilization();
    std::string note = absl::StrFormat("MFU of the step (model FLOPs utilization) is at least %.2g %%, of %s. ",
                                       used.model_percent, used.peaks);
    if (used.hardware_percent > used.model_percent) {
      absl::StrAppendFormat(&note, "HFU, with forward passes done again: at least %.2g %%. ", used.hardware_percent);
    }
    absl::StrAppendFormat(&note,
                          "It counts the products, convolutions and attention whose FLOPs are known: %.4g GFLOP, %.0f "
                          "%% of the GPU work's time.",
                          sums_.gpu_rated_flops / 1e9 / static_cast<double>(sums_.gpu_steps()),
                          100 * static_cast<double>(sums_.gpu_rated_ns) / static_cast<double>(gpu_ns));
    return note;
  }

  void AddGpuNotes(Table* table) const {
    const int64_t idle_ns = sums_.groups[groups_.gpu_idle()].gpu_share_ns;
    const int64_t blind_ns = sums_.groups[groups_.gpu_blind()].gpu_share_ns;
    const int64_t measured_ns = sums_.gpu_total_ns - blind_ns;
    if (measured_ns == 0) return;
    table->notes.push_back(absl::StrFormat("GPUs were idle for %.1f %% of the steps' time%s: see the table gpu_idle.",
                                           100.0 * static_cast<double>(idle_ns) / static_cast<double>(measured_ns),
                                           blind_ns > 0 ? " in which they were measured" : ""));
    int64_t gpu_ns = 0;
    for (const LayerSums::Group& group : sums_.groups) gpu_ns += group.gpu_ns;
    if (options_.peaks != nullptr && gpu_ns > 0) table->notes.push_back(UtilizationNote(gpu_ns));
    if (static_cast<double>(gpu_ns) > kWorthSayingOverlap * static_cast<double>(sums_.gpu_busy_ns)) {
      table->notes.push_back(absl::StrCat(
          "GPU work overlaps (streams, programmatic launches), and each counts with all its time: GPU times add up to ",
          HumanTime(gpu_ns / sums_.gpu_steps()), ", in ", HumanTime(sums_.gpu_busy_ns / sums_.gpu_steps()),
          " in which GPUs were busy. The column gpu_share divides it."));
    }
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
  const bool has_windows_;
  const LayersBy by_;
  const LayerGroups groups_;
  const LayerSums sums_;
  const TableOptions& options_;
};

// Text output shows the evidence only if it is weaker for some layers than for others.
void HideUsualEvidence(Table* table) {
  const std::optional<size_t> column = FindColumn(*table, "matched_by");
  if (!column) return;
  const auto is_usual = [&](const Row& row) {
    const auto* text = std::get_if<CellString>(&row[*column]);
    return text == nullptr || *text == EvidenceName(Evidence::kFramework) || *text == EvidenceName(Evidence::kModule);
  };
  table->columns[*column].detail |= absl::c_all_of(table->rows, is_usual);
}

// Validation is a question of its own, so that the rows of a training say only what training costs.
void NoteValidation(const std::vector<StepTrack>& tracks, Table* table) {
  int64_t steps = 0, time_ns = 0;
  for (const StepTrack& track : tracks) {
    for (const Step& step : track.steps) {
      if (step.kind != StepKind::kValidation) continue;
      ++steps;
      time_ns += step.end_ns - step.start_ns;
    }
  }
  if (steps == 0) return;
  table->notes.push_back(absl::StrFormat("%d validation %s of %s in all %s not in these rows: --step validation.",
                                         steps, steps == 1 ? "step" : "steps", HumanTime(static_cast<double>(time_ns)),
                                         steps == 1 ? "is" : "are"));
}

absl::Status NoSuchSteps(const std::vector<StepTrack>& tracks, StepKind wanted) {
  std::map<StepKind, int64_t> counts;
  for (const StepTrack& track : tracks) {
    for (const Step& step : track.steps) ++counts[step.kind];
  }
  std::vector<std::string> found;
  for (const auto& [kind, count] : counts) found.push_back(absl::StrCat(StepKindName(kind), " (", count, ")"));
  return absl::InvalidArgumentError(
      absl::StrCat("no steady ", StepKindName(wanted),
                   " step in this run; it has steps of: ", found.empty() ? "no kind" : absl::StrJoin(found, ", ")));
}

}  // namespace

absl::StatusOr<Table> LayersTable(const TraceModel& model, const TableOptions& options) {
  const bool has_lines = options.layers_by == LayersBy::kLine && !model.python_stacks.empty();
  const bool needs_layers = !has_lines && model.samples.empty() && options.layers_by != LayersBy::kFunction &&
                            options.layers_by != LayersBy::kStack;
  if (needs_layers && options.analysis->attribution().layers.empty()) {
    TypedColumns<LayerRow> columns =
        Columns(options.layers_by, false, false, GpuTimesOf(model, options) != GpuTimes::kNone);
    InsertBounds(options, 1, &columns);
    Table table = NewTable("layers", kTitle, columns);
    table.notes.push_back("No layers were found.");
    return table;
  }
  std::vector<StepSet> sets = StepSetsOf(options.analysis->steps(), options.layers_of);
  if (sets.empty() && options.layers_of) return NoSuchSteps(options.analysis->steps(), *options.layers_of);
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
  HideUsualEvidence(&table);
  if (!options.layers_of && !sets.front().steps.empty() && sets.front().kind == StepKind::kTraining) {
    NoteValidation(options.analysis->steps(), &table);
  }
  if (sets.size() > 1) table.columns.front() = As(Role::kKey, TextColumn("step", table.columns.front().explanation));
  if (found > sets.size()) {
    table.notes.push_back(
        absl::StrCat(found - sets.size(), " more kinds of steps are not in these rows: see the table phases."));
  }
  return table;
}

}  // namespace dlhook::analyzer::tables
