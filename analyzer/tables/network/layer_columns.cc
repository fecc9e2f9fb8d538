#include "analyzer/tables/network/layer_columns.h"

#include "analyzer/tables/columns.h"

namespace dlhook::analyzer::inline tables {
namespace {

// What all layers of the group have in common; "" if they differ.
std::string Common(const Attribution& attribution, const LayerGroup& group, std::string Layer::*field) {
  if (group.layers.empty()) return "";
  const std::string& first = attribution.layers[group.layers.front()].*field;
  for (LayerIndex layer : group.layers) {
    if (attribution.layers[layer].*field != first) return "";
  }
  return first;
}

Cell PerStep(const LayerRow& row, int64_t sum_ns) { return sum_ns == 0 ? Cell() : Mean(sum_ns, row.all.steps()); }

Cell PerGpuStep(const LayerRow& row, int64_t sum_ns) {
  return sum_ns == 0 ? Cell() : Mean(sum_ns, row.all.gpu_steps());
}

Cell Rate(const LayerRow& row) {
  if (row.sums.flops == 0 || !row.sums.has_rate || row.sums.share_ns <= 0) return std::monostate();
  return row.sums.flops / static_cast<double>(row.sums.share_ns);
}

Cell MatchedBy(const LayerRow& row) {
  Evidence weakest = row.group.is_sampled ? Evidence::kFunction : Evidence::kNone;
  for (LayerIndex layer : row.group.layers) {
    weakest = std::max(weakest, row.attribution.layers[layer].evidence);
  }
  return KnownText(EvidenceName(weakest));
}

TypedColumn<LayerRow> TimeColumn(std::string name, std::string explanation, auto sum_of) {
  return {tables::TimeColumn(std::move(name), std::move(explanation)),
          [sum_of](const LayerRow& row) { return PerStep(row, std::invoke(sum_of, row.sums)); }};
}

TypedColumn<LayerRow> TimeColumn(std::string name, std::string explanation, LayerDirection direction) {
  return TimeColumn(std::move(name), std::move(explanation),
                    [direction](const LayerSums::Group& sums) { return sums.Of(direction); });
}

TypedColumn<LayerRow> GpuTimeColumn(std::string name, std::string explanation, auto sum_of) {
  return {tables::TimeColumn(std::move(name), std::move(explanation)),
          [sum_of](const LayerRow& row) { return PerGpuStep(row, std::invoke(sum_of, row.sums)); }};
}

TypedColumn<LayerRow> GpuTimeColumn(std::string name, std::string explanation, LayerDirection direction) {
  return GpuTimeColumn(std::move(name), std::move(explanation),
                       [direction](const LayerSums::Group& sums) { return sums.GpuOf(direction); });
}

TypedColumn<LayerRow> MeanColumn(std::string name, std::string unit, Better better, std::string explanation,
                                 auto LayerSums::Group::*sum) {
  return Detail(TypedColumn<LayerRow>(RealColumn(std::move(name), std::move(unit), better, std::move(explanation)),
                                      [sum](const LayerRow& row) {
                                        const auto total = static_cast<double>(row.sums.*sum);
                                        return total == 0 ? Cell() : Cell(total / static_cast<double>(row.all.steps()));
                                      }));
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

TypedColumns<LayerRow> Columns(By by, const LayerColumnsShown& shown) {
  TypedColumns<LayerRow> columns = {
      {Detail(TextColumn("step")),
       "The steps of the mean: their kind; in brackets, if there are several of a kind, range, network or batch. "
       "Without known steps: the whole run.",
       [](const LayerRow& row) { return KnownText(row.step); }},
      {As(Role::kName, TextColumn(kByNames[static_cast<size_t>(by)])),
       "As the program names it, in the order of the first forward pass.",
       [](const LayerRow& row) { return row.group.label; }},
      {As(Role::kKey, TextColumn("model")), "The network, if there are several.",
       [has_models = shown.models](const LayerRow& row) { return KnownText(has_models ? row.group.model : ""); }},
      As(Role::kPart,
         TimeColumn("forward", "Wall share of its forward pass in a mean step.", LayerDirection::kForward)),
      As(Role::kPart, TimeColumn("backward", "Of its backward pass: data, weights and bias together.",
                                 &LayerSums::Group::backward_ns)),
      As(Role::kPart, TimeColumn("recompute", "Forward pass done again for the backward pass (checkpointing).",
                                 LayerDirection::kRecompute)),
      {PercentColumn("time_percent", Better::kLower), "All its time as a part of the steps' time.",
       [](const LayerRow& row) { return Percent(row.sums.share_ns, row.all.total_ns); }},
      {RealColumn("rate", "GFLOP/s", Better::kHigher), "FLOPs of its library calls over all its time.", Rate},
      As(Role::kPart, TimeColumn("layout", "Part of its time spent converting tensors to another memory format.",
                                 &LayerSums::Group::layout_ns)),
      {TextColumn("matched_by"),
       "Weakest evidence that was needed: framework, module, function, pointers, shapes, order.", MatchedBy},
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
  if (by != By::kType) columns.Add(LayerColumn("type", "Kind of work.", &Layer::type));
  if (by != By::kModule) columns.Add(LayerColumn("module", "Innermost module around it.", &Layer::module));
  columns.Add(LayerColumn("module_type", "Its class.", &Layer::module_type));
  if (by != By::kLine) {
    columns.Add(LayerColumn("line", "Innermost line that is not a framework's.", &Layer::line));
  }
  columns.Add(LayerColumn("ambiguity", "What had to be chosen to tell the layer from others.", &Layer::ambiguity));
  columns.Find("model")->detail = !shown.models;
  columns.Find("recompute")->detail = !shown.recompute;
  columns.Find("layout")->detail = shown.recompute;
  if (shown.gpu) AddGpuColumns(&columns);
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

}  // namespace

TypedColumns<LayerRow> LayerColumns(By by, const LayerColumnsShown& shown, const TableOptions& options, int64_t steps) {
  TypedColumns<LayerRow> columns = Columns(by, shown);
  const auto bounds_of = [](const LayerRow& row) -> const BoundSums& { return row.sums.bounds; };
  columns.InsertAfter("bytes", BoundColumns(options, steps).Of<LayerRow>(bounds_of));
  if (shown.windows) InsertErrors(shown.gpu, &columns);
  return columns;
}

}  // namespace dlhook::analyzer::tables
