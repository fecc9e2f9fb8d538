// Adds calls to the tree of stacks: see profile_builder.h.
#include "analyzer/export/profile_builder.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/export/call_label.h"
#include "analyzer/export/framework_stacks.h"
#include "analyzer/export/native_stacks.h"
#include "analyzer/export/phase_finder.h"
#include "analyzer/model/same_work.h"

namespace dlhook::analyzer::inline exports {
namespace {

constexpr char kNoStackKept[] = "[no stack kept]";
constexpr char kNoLayer[] = "[no layer]";

std::string ProcessTitle(const ProcessInfo& process) {
  return absl::StrCat(process.program, process.script.empty() ? "" : " ", process.script, " (process ", process.pid,
                      ")");
}

std::string ThreadTitle(const ThreadData& thread) { return absl::StrCat(thread.name, " (thread ", thread.tid, ")"); }

class ProfileBuilder {
 public:
  ProfileBuilder(const TraceModel& model, const LayerAnalysis& analysis, const ProfileOptions& options)
      : model_(model),
        attribution_(analysis.attribution()),
        options_(options),
        profile_(model),
        framework_({.with_python = options.frames.python, .with_scopes = options.frames.scopes}, &profile_),
        native_({.with_python = options.frames.python, .with_plumbing = options.frames.plumbing}, &profile_),
        phases_(model, analysis.steps()),
        same_work_(model),
        op_frames_(model.ops.size(), kNone) {}

  Profile Build() {
    AddCalls();
    for (const AggregateRow& row : model_.aggregates) AddAggregate(row);
    return std::move(profile_);
  }

 private:
  void AddCalls() {
    const CallColumns& calls = model_.calls;
    is_chosen_.resize(calls.size());
    node_of_call_.resize(calls.size());
    for (CallIndex call = 0; call < calls.size(); ++call) {  // parents precede their children
      const CallIndex parent = calls.parent[call];
      is_chosen_[call] =
          (parent != kNone && is_chosen_[parent]) || IsChosen(calls.op[call], attribution_.of_call[call].layer);
      if (!is_chosen_[call]) continue;
      const bool has_parent = parent != kNone && is_chosen_[parent];
      const NodeIndex outer = has_parent ? node_of_call_[parent] : Outer(call);
      node_of_call_[call] = profile_.Child(StackUnder(outer, has_parent, call), OpFrame(calls.op[call]));
      profile_.Add(node_of_call_[call], LabelsOf(call), WeightsOf(call));
    }
  }

  // A nested call has the same Python code and operator as the outer one.
  NodeIndex StackUnder(NodeIndex outer, bool has_parent, CallIndex call) {
    const bool has_native = options_.frames.native && model_.calls.NativeStackOf(call) != kNone;
    if (has_native) return native_.Under(outer, call);
    return has_parent ? outer : framework_.Under(outer, call);
  }

  // An aggregate does not say inside which calls its nested ones ran: see ComputeTotals.
  void AddAggregate(const AggregateRow& row) {
    if (!IsChosen(row.op, kNone)) return;
    const Op& op = model_.ops[row.op];
    NodeIndex node = Outer(row.thread, {});
    node = profile_.Child(node, FrameNamed(FrameKind::kNote, kNoStackKept));
    node = profile_.Child(node, OpFrame(row.op));
    const int64_t outer_calls = row.count - row.nested_count;
    profile_.Add(node, Labels(row.thread, {}, PhaseKind::kUnknown, row.op),
                 {row.sum_ns - row.nested_sum_ns, row.count, SaturatedProduct(outer_calls, op.flops.value_or(0)),
                  SaturatedProduct(outer_calls, op.bytes.value_or(0))});
  }

  bool IsChosen(OpIndex op, LayerIndex layer) const {
    if (!options_.function.empty() && model_.ops[op].function != options_.function) return false;
    return options_.layer.empty() || (layer != kNone && attribution_.layers[layer].name == options_.layer);
  }

  Weights WeightsOf(CallIndex call) const {
    const Op& op = model_.ops[model_.calls.op[call]];
    const bool counts = !same_work_.IsNested(call);
    return {model_.calls.self_ns[call], 1, counts ? op.flops.value_or(0) : 0, counts ? op.bytes.value_or(0) : 0};
  }

  // The frames around all stacks.
  NodeIndex Outer(CallIndex call) { return Outer(model_.calls.thread[call], attribution_.of_call[call]); }
  NodeIndex Outer(ThreadIndex thread, Place place) {
    const FrameChoice& choice = options_.frames;
    NodeIndex node = kRoot;
    if (choice.process) {
      node = profile_.Child(
          node, FrameNamed(FrameKind::kProcess, ProcessTitle(model_.processes[model_.threads[thread].process])));
    }
    if (choice.thread) node = profile_.Child(node, FrameNamed(FrameKind::kThread, ThreadTitle(model_.threads[thread])));
    if (choice.layer) node = profile_.Child(node, FrameNamed(FrameKind::kLayer, LayerTitle(place)));
    return node;
  }

  std::string LayerTitle(Place place) const {
    if (place.layer == kNone) return kNoLayer;
    const Layer& layer = attribution_.layers[place.layer];
    const bool has_direction = place.direction != LayerDirection::kUnknown;
    return absl::StrCat(layer.model, layer.model.empty() ? "" : ": ", layer.name, has_direction ? " " : "",
                        has_direction ? LayerDirectionName(place.direction) : "");
  }

  ProfileFrameIndex FrameNamed(FrameKind kind, const std::string& name) {
    return profile_.Frame({.function = profile_.Function({.kind = kind, .name = name})});
  }

  ProfileFrameIndex OpFrame(OpIndex index) {
    if (op_frames_[index] == kNone) {
      const Op& op = model_.ops[index];
      op_frames_[index] = profile_.Frame(
          {.function = profile_.Function(
               {.kind = FrameKind::kCall, .name = CallLabel(op), .object = absl::StrCat("[", op.family, "]")})});
    }
    return op_frames_[index];
  }

  LabelsIndex LabelsOf(CallIndex call) {
    return Labels(model_.calls.thread[call], attribution_.of_call[call], phases_.Of(call), model_.calls.op[call]);
  }
  LabelsIndex Labels(ThreadIndex thread, Place place, PhaseKind phase, OpIndex op) {
    const auto [at, is_new] = labels_.try_emplace({thread, place.layer, place.direction, phase, op}, 0);
    if (is_new) at->second = profile_.AddLabels(MakeLabels(thread, place, phase, op));
    return at->second;
  }
  ProfileLabels MakeLabels(ThreadIndex thread, Place place, PhaseKind phase, OpIndex op) const {
    const bool has_direction = place.direction != LayerDirection::kUnknown;
    return {.process = ProcessTitle(model_.processes[model_.threads[thread].process]),
            .thread = ThreadTitle(model_.threads[thread]),
            .layer = place.layer == kNone ? "" : attribution_.layers[place.layer].name,
            .direction = has_direction ? LayerDirectionName(place.direction) : "",
            .phase = phase == PhaseKind::kUnknown ? "" : PhaseKindName(phase),
            .op = KindLabel(model_.ops[op])};
  }

  const TraceModel& model_;
  const Attribution& attribution_;
  const ProfileOptions& options_;
  Profile profile_;
  FrameworkStacks framework_;
  NativeStacks native_;
  const PhaseFinder phases_;
  const SameWork same_work_;
  std::vector<ProfileFrameIndex> op_frames_;
  std::vector<bool> is_chosen_;
  std::vector<NodeIndex> node_of_call_;
  std::map<std::tuple<ThreadIndex, LayerIndex, LayerDirection, PhaseKind, OpIndex>, LabelsIndex> labels_;
};

}  // namespace

const std::vector<FrameWord>& FrameWords() {
  static const auto& kFrameWords = *new std::vector<FrameWord>{
      {"process", "one frame around all of a process", &FrameChoice::process},
      {"thread", "one around all of a thread", &FrameChoice::thread},
      {"layer", "one around all of a layer in one direction", &FrameChoice::layer},
      {"native", "functions of libraries, where the run has native stacks (DLHOOK_STACKS)", &FrameChoice::native},
      {"python", "functions of Python", &FrameChoice::python},
      {"scopes", "the framework's operators, of calls without native stack", &FrameChoice::scopes},
      {"plumbing", "native functions that only pass a call on, too", &FrameChoice::plumbing},
  };
  return kFrameWords;
}

Profile BuildProfile(const TraceModel& model, const LayerAnalysis& analysis, const ProfileOptions& options) {
  return ProfileBuilder(model, analysis, options).Build();
}

std::vector<std::string> LayerNames(const Attribution& attribution) {
  std::vector<std::string> names;
  for (const Layer& layer : attribution.layers) {
    if (std::find(names.begin(), names.end(), layer.name) == names.end()) names.push_back(layer.name);
  }
  return names;
}

std::vector<std::string> FunctionNames(const TraceModel& model) {
  std::set<std::string> names;
  for (const Op& op : model.ops) names.insert(op.function);
  return {names.begin(), names.end()};
}

}  // namespace dlhook::analyzer::exports
