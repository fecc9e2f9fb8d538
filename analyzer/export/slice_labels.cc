#include "analyzer/export/slice_labels.h"

#include "analyzer/calls/op_labels.h"
#include "analyzer/profile/profile_nodes.h"

namespace dlhook::analyzer::inline exports {
namespace {

std::string Words(absl::string_view enumerator) { return absl::StrReplaceAll(enumerator, {{"_", " "}}); }
std::string SizeText(const uint32_t (&size)[3]) { return absl::StrJoin(size, " x "); }

}  // namespace

SliceLabels::SliceLabels(const TraceModel& model, const Attribution& attribution, TimelineTexts& texts)
    : model_(model),
      attribution_(attribution),
      texts_(texts),
      rules_(model),
      gpu_places_(GpuPlaces(model, attribution)),
      keys_{texts.Of("layer"), texts.Of("direction"), texts.Of("line"), texts.Of("status"), texts.Of("scope_kind")},
      ops_(model.ops.size()),
      scope_names_(model.names.size(), kNoText),
      kernels_(model.gpu_kernels.size(), kNoText) {
  for (const PythonPlace& place : ReadPythonPlaces(model)) lines_.push_back(texts.Of(LineLabel(model, place)));
  for (LayerIndex layer = 0; layer < attribution.layers.size(); ++layer) {
    layers_.push_back(texts.Of(PlaceTitle(attribution.layers, {.layer = layer})));
  }
}

void SliceLabels::Add(absl::string_view key, absl::string_view text) {
  if (!text.empty()) label_.args.push_back({texts_.Of(key), texts_.Of(text)});
}
void SliceLabels::Add(absl::string_view key, int64_t value) { label_.args.push_back({texts_.Of(key), value}); }

void SliceLabels::AddText(Key key, TextIndex text) {
  if (text != kNoText) label_.args.push_back({keys_[key], text});
}

void SliceLabels::AddPlace(Place place) {
  if (place.layer == kNone) return;
  AddText(kLayer, layers_[place.layer]);
  if (place.direction != LayerDirection::kUnknown) Add("direction", LayerDirectionName(place.direction));
}

void SliceLabels::AddLine(StackIndex stack) {
  if (stack != kNone) AddText(kLine, lines_[stack]);
}

SliceLabel SliceLabels::LabelOfOp(const Op& op) {
  SliceLabel last = std::exchange(label_, {.name = texts_.Of(CallLabel(op)), .kind = kNoText, .args = {}});
  Add("function", op.function);
  Add("family", op.family);
  Add("op", KindLabel(op));
  Add("op_direction", op.direction == Direction::kUnknown ? "" : DirectionName(op.direction));
  Add("problem", op.problem);
  Add("row_major_problem", op.row_major_problem);
  Add("types", op.types);
  Add("formats", FormatsLabel(op));
  Add("algorithm", op.algorithm);
  Add("implementation", op.implementation);
  Add("post_ops", absl::StrJoin(op.post_ops, ", "));
  Add("compute_type", op.compute_type);
  Add("math_mode", op.math_mode);
  Add("chosen_by", ChooserName(op.chooser));
  Add("kernel", op.kernel_name);
  if (op.flops) Add("flops", *op.flops);
  if (op.bytes) Add("bytes", *op.bytes);
  return std::exchange(label_, std::move(last));
}

const SliceLabel& SliceLabels::OfOp(OpIndex op) {
  if (ops_[op].name == kNoText) ops_[op] = LabelOfOp(model_.ops[op]);
  return ops_[op];
}

const SliceLabel& SliceLabels::OfCall(CallIndex call) {
  const OpIndex op = model_.calls.op[call];
  label_ = OfOp(op);
  label_.kind = texts_.Of(ActivityName(rules_.Waits(call) ? ActivityKind::kWaiting : ActivityKind::kCall));
  AddPlace(attribution_.of_call[call]);
  AddLine(model_.PythonStackOf(call));
  if (const int32_t status = model_.StatusOf(call); status != 0)
    label_.args.push_back({keys_[kStatus], int64_t{status}});
  return label_;
}

const SliceLabel& SliceLabels::OfScope(ScopeIndex scope) {
  const ScopeColumns& scopes = model_.scopes;
  TextIndex& name = scope_names_[scopes.look[scope].name];
  if (name == kNoText) name = texts_.Of(model_.names[scopes.look[scope].name]);
  label_.name = name;
  label_.kind = texts_.Of(ActivityName(rules_.IsInput(scope) ? ActivityKind::kDataLoading : ActivityKind::kScope));
  label_.args.clear();
  AddText(kOperator, texts_.Of(Words(EnumName(scopes.look[scope].kind))));
  AddPlace(attribution_.PlaceOfScope(scope));
  AddLine(scopes.look[scope].stack);
  return label_;
}

const SliceLabel& SliceLabels::OfGpu(GpuIndex activity) {
  const GpuActivityColumns& gpu = model_.gpu;
  const GpuKernelIndex index = gpu.kernel[activity];
  label_ = {.name = kNoText, .kind = texts_.Of(kGpuKind), .args = {}};
  if (index != kNone && model_.gpu_kernels[index].name != kNone) {
    const GpuKernel& kernel = model_.gpu_kernels[index];
    if (kernels_[index] == kNoText) kernels_[index] = texts_.Of(model_.names[kernel.short_name]);
    label_.name = kernels_[index];
    Add("kernel", model_.names[kernel.name]);
    Add("grid", SizeText(kernel.grid));
    Add("block", SizeText(kernel.block));
    Add("registers_per_thread", int64_t{kernel.registers_per_thread});
    Add("shared_bytes", int64_t{kernel.static_shared_bytes} + kernel.dynamic_shared_bytes);
  }
  if (gpu.bytes[activity] > 0) Add("bytes", static_cast<int64_t>(gpu.bytes[activity]));
  const std::string direction =
      gpu.direction[activity] == CopyDirection::kUnknown ? "" : Words(EnumName(gpu.direction[activity]));
  Add("copy_direction", direction);
  if (label_.name == kNoText) {
    const CallIndex call = gpu.call[activity];
    if (gpu.kind[activity] == GpuActivityKind::kOp && call != kNone) {
      label_.name = OfOp(model_.calls.op[call]).name;
    } else if (gpu.kind[activity] == GpuActivityKind::kCopy) {
      label_.name = texts_.Of(direction.empty() ? "copy" : absl::StrCat("copy ", direction));
    } else {
      label_.name =
          texts_.Of(gpu.kind[activity] == GpuActivityKind::kSet ? "memset" : Words(EnumName(gpu.kind[activity])));
    }
  }
  AddPlace(gpu_places_[activity]);
  Add("time_source", gpu.source[activity] == GpuTimeSource::kEvents ? "events" : "CUPTI");
  if (gpu.graph[activity] != 0) Add("graph", int64_t{gpu.graph[activity]});
  return label_;
}

const SliceLabel& SliceLabels::OfAggregate(const AggregateRow& row) {
  label_ = OfOp(row.op);
  Add("calls", row.count);
  Add("total_ns", row.sum_ns - row.nested_sum_ns);
  Add("window_ns", row.window_end_ns - row.window_start_ns);
  return label_;
}

}  // namespace dlhook::analyzer::exports
