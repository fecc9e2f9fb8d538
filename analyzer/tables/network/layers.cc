// Table `layers`: the cost of each layer of the network, forward and backward, in a mean step.

#include "analyzer/steps/phases.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/network/layer_columns.h"

namespace dlhook::analyzer::inline tables {
namespace {

constexpr size_t kMaxAmbiguitiesNoted = 5;
constexpr double kWorthSayingOverlap = 1.02;  // what GPU times add up to, as a part of the time in which GPUs were busy
constexpr size_t kMaxStepSets = 16;           // sorts of steps with rows of their own
constexpr char kTitle[] = "What each layer costs, forward and backward, in a mean step";

// For one set of steps.
class LayersReport {
 public:
  LayersReport(const TraceModel& model, const TableOptions& options, const StepSet& set)
      : attribution_(options.analysis->attribution()),
        step_(set.steps.empty() ? "" : StepName(set.kind, set.sort)),
        has_gpu_(GpuTimesOf(model, options) != GpuTimes::kNone),
        has_windows_(!model.scope_windows.empty()),
        by_(options.RowsOf("layers")),
        groups_(model, attribution_, by_, options.layers_depth),
        sums_(SumLayers(model, *options.analysis, groups_, *options.totals, set, options.peaks)),
        options_(options) {}

  Table Make() {
    const LayerColumnsShown shown = {groups_.HasSeveralModels(), HasRecompute(), has_gpu_, has_windows_};
    const TypedColumns<LayerRow> columns = LayerColumns(by_, shown, options_, sums_.steps());
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

  bool HasRecompute() const {
    return absl::c_any_of(sums_.groups,
                          [](const LayerSums::Group& group) { return group.Of(LayerDirection::kRecompute) != 0; });
  }

  // Layers in network order; kinds of work, ops and lines by time; rows without a layer last.
  std::vector<GroupIndex> Order() const {
    std::vector<GroupIndex> order(groups_.groups().size());
    for (GroupIndex i = 0; i < order.size(); ++i) order[i] = i;
    if (by_ == By::kLayer || by_ == By::kModule) return order;
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
    if (calls_differ) table->Note("Not all these steps make the same library calls: numbers of calls are means.");
    size_t noted = 0, ambiguous = 0;
    for (const Layer& layer : attribution_.layers) {
      if (layer.ambiguity.empty()) continue;
      if (++ambiguous <= kMaxAmbiguitiesNoted) table->Note(layer.name, ": ", layer.ambiguity);
      noted = std::min(ambiguous, kMaxAmbiguitiesNoted);
    }
    if (ambiguous > noted) table->Note(ambiguous - noted, " more layers are ambiguous.");
    for (const auto& [sentence, count] : attribution_.oddities) {
      table->Note(count, " x ", sentence, ".");
    }
  }

  void AddSampleNotes(Table* table) const {
    const std::vector<LayerGroup>& groups = groups_.groups();
    bool is_sampled = false;
    for (GroupIndex group = 0; group < groups.size(); ++group) {
      is_sampled |= groups[group].is_sampled && sums_.groups[group].share_ns > 0;
    }
    if (is_sampled) {
      table->Note(
          "Layers without calls that dlhook records are found in samples of CPU time, by the functions that compute "
          "them: all layers that one function computes share a row.");
    }
    if (by_ != By::kLayer && by_ != By::kModule && by_ != By::kType) return;
    for (const auto& [library, sum] : groups_.nameless()) {
      if (sum.samples < kFewestOfRow) continue;
      table->Note("Samples: ", HumanTime(sum.cpu_ns), " of CPU time in ", library,
                  ", whose functions have no names: the layers that it computed are not known.");
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
      table->Note(
          "GPU work overlaps (streams, programmatic launches), and each counts with all its time: GPU times add up to ",
          HumanTime(gpu_ns / sums_.gpu_steps()), ", in ", HumanTime(sums_.gpu_busy_ns / sums_.gpu_steps()),
          " in which GPUs were busy. The column gpu_share divides it.");
    }
    if (blind_ns > 0) {
      table->Note("Of ", HumanTime(blind_ns), " of the steps it is not known what GPUs did.");
    }
    if (sums_.gpu_step_count < sums_.step_count) {
      table->Note("Means of GPU times are of the ", sums_.gpu_step_count,
                  " steps all through which GPUs were measured.");
    }
  }

  const Attribution& attribution_;
  const std::string step_;
  const bool has_gpu_;
  const bool has_windows_;
  const By by_;
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
  const By by = options.RowsOf("layers");
  const bool has_lines = by == By::kLine && !model.python_stacks.empty();
  const bool needs_layers = !has_lines && model.samples.empty() && by != By::kFunction && by != By::kStack;
  if (needs_layers && options.analysis->attribution().layers.empty()) {
    const LayerColumnsShown shown = {.gpu = GpuTimesOf(model, options) != GpuTimes::kNone};
    Table table = NewTable("layers", kTitle, LayerColumns(by, shown, options, 1));
    table.Note("No layers were found.");
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
    table.Note(found - sets.size(), " more kinds of steps are not in these rows: see the table phases.");
  }
  return table;
}

}  // namespace dlhook::analyzer::tables
