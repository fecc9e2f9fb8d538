#include "analyzer/profile/profile_nodes.h"

#include "analyzer/calls/op_labels.h"

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
      framework_(options.frames, with_kinds, profile),
      of_gpu_(options.frames, /*with_kinds=*/false, profile),
      native_(options.frames, profile),
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
  if (!options_.function.empty() && (op == kNone || model_.ops[op].function != options_.function)) return false;
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

PathIndex FrameworkStacks::PathOf(ScopeIndex scope) {
  if (scope == kNone || !choice_.scopes) return kNoScopes;
  return paths_.IndexOf({PathOf(model_.scopes.parent[scope]), model_.scopes.look[scope]});  // kMaxOpenScopes at most
}

NodeIndex FrameworkStacks::Under(NodeIndex outer, CallIndex call) {
  return Under(outer, PathOf(model_.calls.ScopeOf(call)), model_.PythonStackOf(call));
}

NodeIndex FrameworkStacks::UnderScope(NodeIndex outer, ScopeIndex scope) {
  ScopeIndex around = scope;
  while (around != kNone && model_.scopes.look[around].stack == kNone) around = model_.scopes.parent[around];
  const NodeIndex node = Under(outer, PathOf(scope), around == kNone ? kNone : model_.scopes.look[around].stack);
  return choice_.scopes ? node : AddScope(node, model_.scopes.look[scope].name);
}

NodeIndex FrameworkStacks::UnderGap(NodeIndex outer, const UnseenGap& gap) {
  const PathIndex path = PathOf(gap.around);
  const size_t frames = choice_.python ? CommonFrames(gap.before, gap.after) : 0;
  if (path == kNoScopes && frames == 0) return outer;
  const auto [place, is_new] = woven_gaps_.try_emplace({outer, path, gap.before, gap.after}, kRoot);
  if (is_new) place->second = Weave(outer, path, frames == 0 ? kNone : gap.after, frames);
  return place->second;
}

NodeIndex FrameworkStacks::Under(NodeIndex outer, PathIndex path, StackIndex stack) {
  if (!choice_.python) stack = kNone;
  if (path == kNoScopes && stack == kNone) return outer;
  const auto [place, is_new] = woven_.try_emplace({outer, uint64_t{path} << 32 | stack}, kRoot);
  if (is_new) place->second = Weave(outer, path, stack, stack == kNone ? 0 : model_.python_stacks[stack].frames.size());
  return place->second;
}

// Of the stack the outermost `count` frames.
NodeIndex FrameworkStacks::Weave(NodeIndex outer, PathIndex path, StackIndex stack, size_t count) {
  std::vector<PathIndex> chain;
  for (; path != kNoScopes; path = paths_[path].parent) chain.push_back(path);
  absl::c_reverse(chain);
  const size_t frames = stack == kNone ? 0 : model_.python_stacks[stack].frames.size();
  size_t done = 0;
  NodeIndex node = outer;
  const auto add_until = [&](size_t end) {
    for (; done < end; ++done) node = AddPython(node, model_.python_stacks[stack].frames[frames - 1 - done]);
  };
  for (PathIndex scope : chain) {
    add_until(std::max(done, std::min(count, CommonFrames(paths_[scope].look.stack, stack))));
    node = AddScope(node, paths_[scope].look.name);
  }
  add_until(count);
  return node;
}

size_t FrameworkStacks::CommonFrames(StackIndex a, StackIndex b) const {
  if (a == kNone || b == kNone) return 0;
  const std::vector<PythonFrame>& one = model_.python_stacks[a].frames;
  const std::vector<PythonFrame>& other = model_.python_stacks[b].frames;
  const auto differ =
      std::mismatch(one.rbegin(), one.rend(), other.rbegin(), other.rend(),
                    [](const auto& x, const auto& y) { return x.file == y.file && x.function == y.function; });
  return static_cast<size_t>(differ.first - one.rbegin());
}

NodeIndex FrameworkStacks::AddPython(NodeIndex node, const PythonFrame& frame) {
  const FunctionIndex function = profile_.Function({.kind = FrameKind::kPython,
                                                    .name = model_.names[frame.function],
                                                    .object = kPythonObject,
                                                    .file = model_.names[frame.file]});
  return profile_.Child(node, profile_.Frame({.function = function, .line = frame.line}));
}

NodeIndex FrameworkStacks::AddScope(NodeIndex node, NameIndex name) {
  const ActivityKind kind = rules_.NamesInput(name) ? ActivityKind::kDataLoading : ActivityKind::kScope;
  const std::string mark = with_kinds_ ? absl::StrCat(" [", ActivityName(kind), "]") : "";
  const FunctionIndex function = profile_.Function(
      {.kind = FrameKind::kScope, .name = absl::StrCat(model_.names[name], mark), .object = "[framework]"});
  return profile_.Child(node, profile_.Frame({.function = function}));
}

NodeIndex NativeStacks::Under(NodeIndex outer, CallIndex call) {
  return UnderSample(outer, model_.calls.NativeStackOf(call), model_.PythonStackOf(call));
}

NodeIndex NativeStacks::UnderSample(NodeIndex outer, FrameIndex frame, StackIndex python) {
  const auto [place, is_new] = known_.try_emplace({outer, frame, python}, kRoot);
  if (!is_new) return place->second;
  const std::vector<ProfileFrameIndex> frames = FramesOf(frame, python);
  steps_.Take(profile_.nodes()[outer].depth);
  NodeIndex node = outer;
  for (size_t i = FramesInCommon(outer, frames); i < frames.size(); ++i) node = profile_.Child(node, frames[i]);
  return place->second = node;
}

// How many of `frames` the stack of `outer` also has: by function, because the line of an active function changes.
size_t NativeStacks::FramesInCommon(NodeIndex outer, const std::vector<ProfileFrameIndex>& frames) const {
  size_t common = 0;
  for (NodeIndex node : profile_.PathTo(outer)) {
    const FunctionIndex function = profile_.FunctionOf(node);
    const FrameKind kind = profile_.functions()[function].kind;
    if (kind != FrameKind::kPython && kind != FrameKind::kNative && kind != FrameKind::kNote) continue;
    if (common == frames.size() || profile_.frames()[frames[common]].function != function) break;
    ++common;
  }
  return common;
}

std::vector<ProfileFrameIndex> NativeStacks::FramesOf(FrameIndex frame, StackIndex python) {
  std::vector<ProfileFrameIndex> frames;
  const absl::Span<const StackEntryIndex> entries = stacks_.OfSample(frame, python);
  const absl::Span<const FrameIndex> native = stacks_.FramesOfSample(frame, python);
  for (size_t i = 0; i < entries.size(); ++i) {
    const StackEntry& entry = stacks_.entry(entries[i]);
    if (entry.kind == StackEntry::Kind::kPython && !choice_.python) continue;
    if (entry.is_plumbing && !choice_.plumbing) continue;
    const bool is_inlined = native[i] != kNone && i + 1 < entries.size() && native[i + 1] == native[i];
    frames.push_back(FrameOf(entry, native[i], is_inlined));
  }
  absl::c_reverse(frames);
  return frames;
}

ProfileFrameIndex NativeStacks::FrameOf(const StackEntry& entry, FrameIndex native, bool is_inlined) {
  const bool is_python = entry.kind == StackEntry::Kind::kPython;
  const bool is_cut = entry.kind == StackEntry::Kind::kCut;
  const FrameKind kind = is_python ? FrameKind::kPython : is_cut ? FrameKind::kNote : FrameKind::kNative;
  const bool is_folded = entry.full_function != entry.function;
  return profile_.Frame({.function = profile_.Function({.kind = kind,
                                                        .name = entry.function,
                                                        .object = is_python ? kPythonObject : entry.object,
                                                        .file = entry.file,
                                                        .full_name = is_folded ? entry.full_function : ""}),
                         .line = entry.line,
                         .native = native,
                         .is_inlined = is_inlined});
}

}  // namespace dlhook::analyzer::profiles
