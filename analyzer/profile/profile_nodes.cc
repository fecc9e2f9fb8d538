// Frames around what took time: see profile_nodes.h.
#include "analyzer/profile/profile_nodes.h"

#include "absl/strings/str_cat.h"
#include "analyzer/calls/call_context.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/time/activity_labels.h"

namespace dlhook::analyzer::inline profiles {
namespace {

constexpr char kNoStackKept[] = "[no stack kept]";
constexpr char kNoLayer[] = "[no layer]";

std::string ProcessTitle(const ProcessInfo& process) {
  return absl::StrCat(process.program, process.script.empty() ? "" : " ", process.script, " (process ", process.pid,
                      ")");
}

std::string ThreadTitle(const ThreadData& thread) { return absl::StrCat(thread.name, " (thread ", thread.tid, ")"); }

std::string Marked(absl::string_view name, absl::string_view kind) { return absl::StrCat(name, " [", kind, "]"); }

}  // namespace

ProfileNodes::ProfileNodes(const TraceModel& model, const Attribution& attribution, const ProfileOptions& options,
                           bool with_kinds, Profile* profile)
    : model_(model),
      attribution_(attribution),
      options_(options),
      with_kinds_(with_kinds),
      profile_(*profile),
      framework_({.with_python = options.frames.python, .with_scopes = options.frames.scopes, .with_kinds = with_kinds},
                 profile),
      of_gpu_({.with_python = options.frames.python, .with_scopes = options.frames.scopes}, profile),
      native_({.with_python = options.frames.python, .with_plumbing = options.frames.plumbing}, profile),
      op_frames_(model.ops.size(), kNone),
      is_chosen_(model.calls.size()),
      node_of_call_(model.calls.size(), kRoot) {
  for (CallIndex call = 0; call < model.calls.size(); ++call) {  // parents precede their children
    const CallIndex parent = model.calls.parent[call];
    is_chosen_[call] =
        (parent != kNone && is_chosen_[parent]) || IsChosen(model.calls.op[call], attribution_.of_call[call].layer);
  }
}

bool ProfileNodes::IsChosen(OpIndex op, LayerIndex layer) const {
  if (!options_.function.empty() && model_.ops[op].function != options_.function) return false;
  return options_.layer.empty() || (layer != kNone && attribution_.layers[layer].name == options_.layer);
}

bool ProfileNodes::IsChosenLayer(LayerIndex layer) const {
  if (!options_.function.empty()) return false;
  return options_.layer.empty() || (layer != kNone && attribution_.layers[layer].name == options_.layer);
}

NodeIndex ProfileNodes::OfCall(CallIndex call) {
  NodeIndex node = node_of_call_[call];
  if (node != kRoot) return node;
  const CallIndex parent = model_.calls.parent[call];
  const bool has_parent = parent != kNone && is_chosen_[parent];
  const ThreadIndex thread = model_.calls.thread[call];
  const NodeIndex outer =
      has_parent ? OfCall(parent) : Outer(model_.threads[thread].process, thread, attribution_.of_call[call]);
  node = profile_.Child(StackUnder(outer, has_parent, call, framework_), OpFrame(model_.calls.op[call]));
  return node_of_call_[call] = node;
}

NodeIndex ProfileNodes::CallIn(NodeIndex outer, CallIndex call) {
  const CallIndex parent = model_.calls.parent[call];
  if (parent != kNone) outer = CallIn(outer, parent);
  return profile_.Child(StackUnder(outer, parent != kNone, call, of_gpu_),
                        FrameOfOp(model_.calls.op[call], /*with_kind=*/false));
}

// A nested call has the same Python code and operator as the outer one.
NodeIndex ProfileNodes::StackUnder(NodeIndex outer, bool has_parent, CallIndex call, FrameworkStacks& framework) {
  const bool has_native = options_.frames.native && model_.calls.NativeStackOf(call) != kNone;
  if (has_native) return native_.Under(outer, call);
  return has_parent ? outer : framework.Under(outer, call);
}

NodeIndex ProfileNodes::OfScope(ScopeIndex scope) {
  const ThreadIndex thread = model_.scopes.thread[scope];
  const Place place = attribution_.PlaceOfScope(scope);
  return framework_.UnderScope(Outer(model_.threads[thread].process, thread, place), scope);
}

NodeIndex ProfileNodes::OfGap(ProcessIndex process, ThreadIndex thread, const UnseenGap& gap) {
  const NodeIndex outer = framework_.UnderGap(Outer(process, thread, attribution_.PlaceOfGap(gap)), gap);
  const auto [at, is_new] = gap_frames_.try_emplace({gap.before, gap.after}, 0);
  if (is_new) {
    const std::string& line = attribution_.LineOfGap(gap);
    at->second = NamedFrame(FrameKind::kNote,
                            absl::StrCat(line, line.empty() ? "[" : " [", ActivityName(ActivityKind::kNotSeen), "]"));
  }
  return profile_.Child(outer, at->second);
}

NodeIndex ProfileNodes::OfSample(NodeIndex outer, size_t sample) {
  return native_.UnderSample(outer, model_.samples.frame[sample], model_.samples.python_stack[sample]);
}

NodeIndex ProfileNodes::OfGpu(GpuIndex activity, Place place) {
  const GpuActivityColumns& gpu = model_.gpu;
  NodeIndex node = UnderGpu(gpu.device[activity], place);
  if (gpu.call[activity] != kNone) {
    node = CallIn(node, gpu.call[activity]);
  } else if (!gpu.scope.empty() && gpu.scope[activity] != kNone) {
    node = of_gpu_.UnderScope(node, gpu.scope[activity]);
  }
  const GpuKernelIndex kernel = gpu.kernel[activity];
  const bool has_name = kernel != kNone && model_.gpu_kernels[kernel].name != kNone;
  const std::string name =
      has_name ? model_.names[model_.gpu_kernels[kernel].short_name] : std::string(EnumName(gpu.kind[activity]));
  return Named(node, FrameKind::kGpu, Marked(name, kGpuKind));
}

NodeIndex ProfileNodes::OfGpuNote(GpuDeviceIndex device, const std::string& note) {
  return Named(UnderGpu(device, {}), FrameKind::kNote, note);
}

NodeIndex ProfileNodes::UnderGpu(GpuDeviceIndex device, Place place) {
  const GpuDevice& info = model_.gpu_devices[device];
  return Named(Outer(info.process, kNone, place), FrameKind::kGpu, absl::StrCat("GPU ", info.ordinal));
}

// An aggregate does not say inside which calls its nested ones ran: see ComputeTotals.
NodeIndex ProfileNodes::OfTotals(ThreadIndex thread, OpIndex op) {
  const NodeIndex outer = Outer(model_.threads[thread].process, thread, {});
  return profile_.Child(Named(outer, FrameKind::kNote, kNoStackKept), OpFrame(op));
}

NodeIndex ProfileNodes::OfNote(ProcessIndex process, const std::string& note) {
  return Named(Outer(process, kNone, {}), FrameKind::kNote, note);
}

// The frames around all stacks.
NodeIndex ProfileNodes::Outer(ProcessIndex process, ThreadIndex thread, Place place) {
  const FrameChoice& choice = options_.frames;
  NodeIndex node = kRoot;
  if (choice.process) node = Named(node, FrameKind::kProcess, ProcessTitle(model_.processes[process]));
  if (choice.thread && thread != kNone) node = Named(node, FrameKind::kThread, ThreadTitle(model_.threads[thread]));
  if (choice.layer) {
    const bool is_known = place.layer != kNone;
    node = Named(node, FrameKind::kLayer, is_known ? PlaceTitle(attribution_.layers, place) : kNoLayer);
  }
  return node;
}

NodeIndex ProfileNodes::Named(NodeIndex outer, FrameKind kind, const std::string& name) {
  return profile_.Child(outer, NamedFrame(kind, name));
}

ProfileFrameIndex ProfileNodes::NamedFrame(FrameKind kind, const std::string& name) {
  return profile_.Frame({.function = profile_.Function({.kind = kind, .name = name})});
}

ProfileFrameIndex ProfileNodes::OpFrame(OpIndex index) {
  if (op_frames_[index] == kNone) op_frames_[index] = FrameOfOp(index, with_kinds_);
  return op_frames_[index];
}

ProfileFrameIndex ProfileNodes::FrameOfOp(OpIndex index, bool with_kind) {
  const Op& op = model_.ops[index];
  const ActivityKind kind = WaitsForGpu(op) ? ActivityKind::kWaiting : ActivityKind::kCall;
  return profile_.Frame(
      {.function = profile_.Function({.kind = FrameKind::kCall,
                                      .name = with_kind ? Marked(CallLabel(op), ActivityName(kind)) : CallLabel(op),
                                      .object = absl::StrCat("[", op.family, "]")})});
}

LabelsIndex ProfileNodes::Labels(const SampleLabels& labels) {
  const auto [at, is_new] = labels_.try_emplace(labels, 0);
  if (is_new) at->second = profile_.AddLabels(MakeLabels(labels));
  return at->second;
}

ProfileLabels ProfileNodes::MakeLabels(const SampleLabels& labels) const {
  ProfileLabels made = {.process = ProcessTitle(model_.processes[labels.process]),
                        .layer = labels.layer == kNone ? "" : attribution_.layers[labels.layer].name,
                        .kind = labels.kind,
                        .step = labels.step == nullptr ? "" : *labels.step};
  if (labels.thread != kNone) made.thread = ThreadTitle(model_.threads[labels.thread]);
  if (labels.direction != LayerDirection::kUnknown) made.direction = LayerDirectionName(labels.direction);
  if (labels.phase != PhaseKind::kUnknown) made.phase = PhaseKindName(labels.phase);
  if (labels.op != kNone) made.op = KindLabel(model_.ops[labels.op]);
  if (labels.scope != kNone) made.op = model_.names[labels.scope];
  return made;
}

}  // namespace dlhook::analyzer::profiles
