#include "analyzer/tables/network/layer_groups.h"

#include "analyzer/calls/op_labels.h"
#include "analyzer/calls/python_places.h"
#include "analyzer/calls/scope_names.h"
#include "analyzer/layers/functions/askers.h"
#include "analyzer/layers/functions/layer_functions.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/time/gap_places.h"
#include "analyzer/time/thread_activity.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline tables {
namespace {

// The first `depth` parts after the model's name; all of them if depth is 0.
std::string CutAfter(const std::string& name, const std::string& model, int depth) {
  if (depth == 0) return name;
  size_t at = 0;
  if (!model.empty() && absl::StartsWith(name, model) && name.size() > model.size() && name[model.size()] == '/') {
    at = model.size() + 1;
  }
  for (int part = 0; part < depth; ++part) {
    at = name.find_first_of("./", at);
    if (at == std::string::npos) return name;
    ++at;
  }
  return name.substr(0, at - 1);
}

// Modules without gradients and products (metrics, a loader's transforms) are no models where others have them.
std::set<std::string> NoModels(const TraceModel& model, const Attribution& attribution) {
  std::set<std::string> others, models;
  for (const Layer& layer : attribution.layers) {
    (layer.evidence == Evidence::kFramework ? models : others).insert(layer.model);
  }
  std::erase_if(others, [&](const std::string& name) { return name.empty() || models.contains(name); });
  if (others.empty()) return {};
  bool has_products = false;
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const LayerIndex layer = attribution.of_call[call].layer;
    if (layer == kNone || model.ops[model.calls.op[call]].flops.value_or(0) == 0) continue;
    has_products = true;
    others.erase(attribution.layers[layer].model);
  }
  // Products of kernels that are no calls: quantized ones, the framework's own.
  const std::vector<ScopeName> names = ReadScopeNames(model);
  for (ScopeIndex scope = 0; scope < model.scopes.size() && !others.empty(); ++scope) {
    const LayerIndex layer = attribution.PlaceOfScope(scope).layer;
    const ScopeName& name = names[model.scopes.look[scope].name];
    if (layer != kNone && (name.is_weighted || name.is_product)) others.erase(attribution.layers[layer].model);
  }
  return has_products ? others : std::set<std::string>();
}

// Of collectives, and of operations that ask for them.
std::vector<bool> CommunicationNames(const TraceModel& model) {
  std::vector<bool> names = CollectiveNames(model);
  for (size_t i = 0; i < names.size(); ++i) names[i] = names[i] || IsDistributedOp(model.names[i]);
  return names;
}

}  // namespace

LayerGroups::LayerGroups(const TraceModel& model, const Attribution& attribution, By by, int depth)
    : model_(model), attribution_(attribution), by_(by), depth_(depth), is_collective_(CommunicationNames(model)) {
  if (by_ == By::kOp) {
    GroupOps();
  } else if (by_ == By::kFunction || by_ == By::kStack) {
    GroupCalls();
  } else {
    GroupLayers();
    if (by_ == By::kLine) GroupLines();
  }
  if (!model.samples.empty()) GroupSamples();
  first_rest_ = static_cast<GroupIndex>(groups_.size());
  framework_ = Group("", "[other framework ops]");
  library_ = Group("", "[other library calls]");
  const bool has_profiler = absl::c_any_of(model.ops, [](const Op& op) { return op.family == kProfilerFamily; });
  profiler_ = has_profiler ? Group("", "[the profiler itself]") : library_;
  not_seen_ = Group("", kNotSeen);
  communication_ = Group("", kCommunicationLabel);
  data_loading_ = Group("", "[data loading]");
  waiting_ = Group("", "[waiting]");
  other_threads_ = Group("", "[other threads]");
  unattributed_ = Group("", kUnattributed);
  gpu_unknown_ = Group("", "[GPU work of no known call]");
  gpu_idle_ = Group("", "[GPU idle]");
  gpu_blind_ = Group("", "[GPU not measured]");
}

bool LayerGroups::HasSeveralModels() const {
  std::set<absl::string_view> models;
  for (const LayerGroup& group : groups_) models.insert(group.model);
  models.erase("");
  return models.size() > 1;
}

GroupIndex LayerGroups::Group(const std::string& model, const std::string& label) {
  if (no_models_.contains(model)) return Group("", model);
  const auto [at, is_new] = known_.try_emplace({model, label}, static_cast<GroupIndex>(groups_.size()));
  if (is_new) groups_.push_back({model, label, {}});
  return at->second;
}

std::string LayerGroups::LabelOf(const Layer& layer) const {
  if (by_ == By::kModule) return CutAfter(layer.module.empty() ? layer.name : layer.module, layer.model, depth_);
  if (by_ == By::kType) return layer.type;
  if (by_ == By::kLine) return layer.line.empty() ? "[line not known]" : layer.line;
  return layer.name;
}

void LayerGroups::GroupLayers() {
  if (by_ == By::kLayer || by_ == By::kModule) no_models_ = NoModels(model_, attribution_);
  const bool across_models = by_ == By::kType || by_ == By::kLine;
  for (LayerIndex i = 0; i < attribution_.layers.size(); ++i) {
    const Layer& layer = attribution_.layers[i];
    const GroupIndex group = Group(across_models ? "" : layer.model, LabelOf(layer));
    groups_[group].layers.push_back(i);
    of_layer_.push_back(group);
  }
}

void LayerGroups::GroupLines() {
  for (const PythonPlace& place : ReadPythonPlaces(model_)) {
    const std::string line = LineLabel(model_, place);
    of_stack_.push_back(line.empty() ? kNone : Group("", line));
  }
  for (const auto& [stacks, gap] : attribution_.of_gap) {
    if (!gap.line.empty()) of_gap_[stacks] = Group("", gap.line);
  }
}

void LayerGroups::GroupOps() {
  for (const Op& op : model_.ops) of_op_.push_back(Group("", KindLabel(op)));
  of_name_.assign(model_.names.size(), kNone);
  for (ScopeIndex scope = 0; scope < model_.scopes.size(); ++scope) {
    GroupIndex& group = of_name_[model_.scopes.look[scope].name];
    if (group == kNone) group = Group("", model_.names[model_.scopes.look[scope].name]);
  }
}

void LayerGroups::GroupCalls() {
  Askers askers(model_, attribution_);
  const GroupIndex unknown = Group("", by_ == By::kStack ? "[stack not known]" : "[function not known]");
  for (CallIndex call = 0; call < model_.calls.size(); ++call) {
    const std::string& label = by_ == By::kStack ? askers.PathOf(call) : askers.FunctionOf(call);
    of_call_.push_back(label.empty() ? unknown : Group("", label));
  }
}

void LayerGroups::GroupSamples() {
  Askers askers(model_, attribution_);
  const LayerFunctionPlaces functions(model_);
  const std::vector<PythonPlace> places = ReadPythonPlaces(model_);
  const std::vector<ModuleName> modules = NameModules(model_, places);
  const auto of_module = [&](const PythonPlace& place) {
    if (place.module() == kNone || modules[place.module()].name.empty()) return kNone;
    const ModuleName& module = modules[place.module()];
    return Group(module.model, by_ == By::kModule ? CutAfter(module.name, module.model, depth_)
                                                  : LayerBetweenCalls(attribution_.layers, module));
  };
  const SampleColumns& samples = model_.samples;
  const auto find = [&](size_t sample, const std::string& function) -> GroupPlace {
    if (by_ == By::kFunction) return {function.empty() ? kNone : Group("", function)};
    const StackIndex python = samples.python_stack[sample];
    if (by_ == By::kLine) return {OfStack(python, kNone)};
    if (by_ == By::kOp || by_ == By::kStack) return {};
    const LayerFunctionPlace* const place = functions.OfFrame(samples.frame[sample]);
    if (place == nullptr) return {by_ == By::kType || python == kNone ? kNone : of_module(places[python])};
    const GroupIndex group = Group("", by_ == By::kType && !place->work.empty() ? place->work : place->owner);
    groups_[group].is_sampled = true;
    return {group, place->direction};
  };
  std::map<std::pair<FrameIndex, StackIndex>, std::pair<GroupPlace, std::string>> alike;
  for (size_t sample = 0; sample < samples.size(); ++sample) {
    const auto [at, is_new] = alike.try_emplace({samples.frame[sample], samples.python_stack[sample]});
    if (is_new) {
      at->second.second = askers.FunctionOfSample(sample);
      at->second.first = find(sample, at->second.second);
    }
    const auto& [group, function] = at->second;
    of_sample_.push_back(group);
    const bool has_name = function.empty() || function.front() != '[' || function == "[Python]";
    if (!has_name && samples.call[sample] == kNone) nameless_[function].Add(SumOfOne(samples.cpu_ns[sample]));
  }
}

GroupIndex LayerGroups::OfCall(CallIndex call) const {
  if (!of_call_.empty()) return of_call_[call];
  if (by_ == By::kOp) return of_op_[model_.calls.op[call]];
  const LayerIndex layer = attribution_.of_call[call].layer;
  if (layer != kNone) return of_layer_[layer];
  const bool is_of_profiler = model_.ops[model_.calls.op[call]].family == kProfilerFamily;
  return is_of_profiler ? profiler_ : OfStack(model_.PythonStackOf(call), library_);
}

GroupIndex LayerGroups::OfStack(StackIndex stack, GroupIndex otherwise) const {
  const bool is_known = !of_stack_.empty() && stack != kNone && of_stack_[stack] != kNone;
  return is_known ? of_stack_[stack] : otherwise;
}

GroupIndex LayerGroups::OfGap(const UnseenGap& gap) const {
  if (const auto at = of_gap_.find({gap.before, gap.after}); at != of_gap_.end()) return at->second;
  const LayerIndex layer = attribution_.PlaceOfGap(gap).layer;
  return layer == kNone || of_layer_.empty() ? not_seen_ : of_layer_[layer];
}

GroupPlace LayerGroups::OfPiece(const TimePiece& piece) const {
  const LayerDirection direction = PlaceOf(attribution_, piece).direction;
  switch (piece.kind) {
    case ActivityKind::kCall:
      return {OfCall(piece.index), direction};
    case ActivityKind::kScope:
      return {OfScope(piece.index), direction};
    case ActivityKind::kNotSeen:
      return {OfGap(piece.gap), direction};
    case ActivityKind::kDataLoading:
      return {data_loading_};
    case ActivityKind::kWaiting:
      return {waiting_};
    case ActivityKind::kUnattributed:
      break;
  }
  return {unattributed_};
}

// A launch belongs to the library op around it.
GroupIndex LayerGroups::OfGpuCall(CallIndex call) const {
  if (by_ != By::kOp) return OfCall(call);
  const CallIndex around = IsLibraryOp(model_.ops[model_.calls.op[call]]) ? call : EnclosingLibraryOp(model_, call);
  return OfCall(around == kNone ? call : around);
}

GroupIndex LayerGroups::OfGpu(GpuIndex activity, const Place& place) const {
  if (place.layer != kNone && !of_layer_.empty()) return of_layer_[place.layer];
  if (of_call_.empty() && GpuWorkOf(model_, activity) == GpuWork::kCommunication) return communication_;
  const CallIndex call = model_.gpu.call[activity];
  const ScopeIndex scope = model_.gpu.scope.empty() ? kNone : model_.gpu.scope[activity];
  const bool is_op_of_framework = by_ == By::kOp && call != kNone && scope != kNone &&
                                  OfGpuCall(call) == OfCall(call) && !IsLibraryOp(model_.ops[model_.calls.op[call]]);
  if (call != kNone && !is_op_of_framework) return OfGpuCall(call);
  return scope == kNone ? gpu_unknown_ : OfScope(scope);
}

GroupIndex LayerGroups::OfScope(ScopeIndex scope) const {
  const LayerIndex layer = attribution_.PlaceOfScope(scope).layer;
  const NameIndex name = model_.scopes.look[scope].name;
  if (layer != kNone && !of_layer_.empty() && !is_collective_[name]) return of_layer_[layer];
  const bool is_op = !FactsOf(model_.scopes.look[scope].kind).is_bracket;
  if (by_ == By::kOp && is_op) return of_name_[name];
  if (is_collective_[name]) return communication_;
  StackIndex stack = kNone;
  for (ScopeIndex around = of_stack_.empty() ? kNone : scope; around != kNone && stack == kNone;
       around = model_.scopes.parent[around]) {
    stack = model_.scopes.look[around].stack;
  }
  // Time inside a user range is the program's own code.
  return OfStack(stack, is_op ? framework_ : not_seen_);
}

}  // namespace dlhook::analyzer::tables
