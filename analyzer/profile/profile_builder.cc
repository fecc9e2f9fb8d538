#include "analyzer/profile/profile_builder.h"

#include "analyzer/analysis/folded_time.h"
#include "analyzer/calls/op_labels.h"
#include "analyzer/gpu/gpu_division.h"
#include "analyzer/model/same_work.h"
#include "analyzer/profile/profile_nodes.h"
#include "analyzer/steps/step_groups.h"
#include "analyzer/steps/step_index.h"
#include "analyzer/time/sample_split.h"
#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline profiles {
namespace {

Weights WorkOf(const TraceModel& model, const SameWork& same_work, CallIndex call) {
  const Op& op = model.ops[model.calls.op[call]];
  const bool counts = !same_work.IsNested(call);
  return {0, 1, counts ? op.flops.value_or(0) : 0, counts ? op.bytes.value_or(0) : 0};
}

// Library calls alone, over the whole run, by thread time.
class LibraryProfile {
 public:
  LibraryProfile(const TraceModel& model, const LayerAnalysis& analysis, const ProfileOptions& options)
      : model_(model),
        attribution_(analysis.attribution()),
        profile_(model),
        nodes_(model, attribution_, options, /*with_kinds=*/false, &profile_),
        steps_(model, analysis.steps()),
        same_work_(model) {}

  Profile Build() {
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      if (nodes_.IsChosen(call)) AddCall(call);
    }
    for (const AggregateRow& row : model_.aggregates) AddAggregate(row);
    return std::move(profile_);
  }

 private:
  void AddCall(CallIndex call) {
    Weights weights = WorkOf(model_, same_work_, call);
    weights[static_cast<size_t>(Weight::kTime)] = model_.calls.self_ns[call];
    const ThreadIndex thread = model_.calls.thread[call];
    SampleLabels labels = {.process = model_.threads[thread].process,
                           .thread = thread,
                           .phase = steps_.PhaseAt(steps_.OfCall(call), model_.calls.start_ns[call]),
                           .op = model_.calls.op[call]};
    labels.Set(attribution_.of_call[call]);
    profile_.Add(nodes_.OfCall(call), nodes_.Labels(labels), weights);
  }

  void AddAggregate(const AggregateRow& row) {
    if (!nodes_.IsChosen(row.op, kNone)) return;
    const Op& op = model_.ops[row.op];
    const int64_t outer_calls = row.count - row.nested_count;
    profile_.Add(nodes_.OfTotals(row.thread, row.op),
                 nodes_.Labels({.process = model_.threads[row.thread].process, .thread = row.thread, .op = row.op}),
                 {row.sum_ns - row.nested_sum_ns, row.count, SaturatedProduct(outer_calls, op.flops.value_or(0)),
                  SaturatedProduct(outer_calls, op.bytes.value_or(0))});
  }

  const TraceModel& model_;
  const Attribution& attribution_;
  Profile profile_;
  ProfileNodes nodes_;
  StepIndex steps_;
  const SameWork same_work_;
};

// Everything that the steps' time went to, by the division that the table `accounting` shows.
class StepProfile {
 public:
  StepProfile(const TraceModel& model, const LayerAnalysis& analysis, const ProfileOptions& options)
      : model_(model),
        analysis_(analysis),
        with_samples_(options.frames.native && !model.samples.empty()),
        attribution_(analysis.attribution()),
        time_(FoldedTime::Of(model, analysis)),
        profile_(model),
        nodes_(model, attribution_, options, options.with_kinds, &profile_),
        groups_(GroupSteps(analysis.steps())) {
    for (const StepGroup& group : groups_) names_.push_back(StepName(group.kind, group.sort));
    if (groups_.empty()) {
      groups_ = WholeRun(model, &processes_);
      names_.resize(groups_.size());
    }
  }

  Profile Build() {
    const StepDivision division(model_, time_, groups_);
    if (with_samples_) FindSampled(division);
    division.Divide([&](size_t group, PhaseKind phase, const TimePiece& piece) { AddPiece(group, phase, piece); });
    AddSampled();
    AddWork(division);
    const std::vector<Place> places = GpuPlaces(model_, attribution_);
    for (size_t group = 0; group < groups_.size(); ++group) AddGpus(group, IntervalSet(division.TimeOf(group)), places);
    return std::move(profile_);
  }

 private:
  struct Row {
    NodeIndex node;
    SampleLabels labels;
  };
  struct SampledRow {
    SampleLabels labels;
    NodeIndex outer = kRoot;
    int64_t wall_ns = 0;
    SampleSums by_stack;
  };

  SampleLabels LabelsOf(size_t group, PhaseKind phase, const char* kind) const {
    return {.process = groups_[group].process, .phase = phase, .kind = kind, .step = &names_[group]};
  }

  // Where a piece of time goes; nothing: it was not chosen.
  std::optional<Row> RowOf(size_t group, PhaseKind phase, const TimePiece& piece) {
    SampleLabels labels = LabelsOf(group, phase, ActivityName(piece.kind));
    labels.thread = piece.thread;
    labels.Set(PlaceOf(attribution_, piece));
    const bool is_call = piece.kind == ActivityKind::kCall || piece.kind == ActivityKind::kWaiting;
    if (is_call ? !nodes_.IsChosen(CallIndex{piece.index}) : !nodes_.IsChosenLayer(labels.layer)) return std::nullopt;
    NodeIndex node = kRoot;
    switch (piece.kind) {
      case ActivityKind::kCall:
      case ActivityKind::kWaiting:
        labels.op = model_.calls.op[piece.index];
        node = nodes_.OfCall(piece.index);
        break;
      case ActivityKind::kScope:
      case ActivityKind::kDataLoading:
        labels.scope = model_.scopes.look[piece.index].name;
        node = nodes_.OfScope(piece.index);
        break;
      case ActivityKind::kNotSeen:
        node = nodes_.OfGap(labels.process, piece.thread, piece.gap);
        break;
      case ActivityKind::kUnattributed:
        node = nodes_.OfNote(labels.process, ActivityName(piece.kind));
    }
    return Row{node, labels};
  }

  void AddPiece(size_t group, PhaseKind phase, const TimePiece& piece) {
    const std::optional<Row> row = RowOf(group, phase, piece);
    if (!row) return;
    const LabelsIndex labels = nodes_.Labels(row->labels);
    if (const auto sampled = sampled_.find({row->node, labels}); sampled != sampled_.end()) {
      sampled->second.wall_ns += piece.share_ns;
    } else {
      profile_.Add(row->node, labels, {piece.share_ns});
    }
  }

  // Finds the rows that samples may divide.
  void FindSampled(const StepDivision& division) {
    const auto& samples = analysis_.Derived<GapSamples>(model_);
    for (size_t group = 0; group < groups_.size(); ++group) {
      for (const GapSample& at : samples.Of(groups_[group].process)) {
        const std::optional<PhaseKind> phase = division.PhaseAt(group, at.piece.start_ns);
        const std::optional<Row> row = phase ? RowOf(group, *phase, at.piece) : std::nullopt;
        if (!row) continue;
        SampledRow& sampled = sampled_[{row->node, nodes_.Labels(row->labels)}];
        sampled.labels = row->labels;
        sampled.outer =
            nodes_.Outer(row->labels.process, row->labels.thread, {row->labels.layer, row->labels.direction});
        sampled.by_stack[nodes_.OfSample(sampled.outer, at.sample)].Add(SumOfOne(model_.samples.cpu_ns[at.sample]));
      }
    }
  }

  // Stacks of too few samples end where enough of them agree. Inner nodes have larger numbers.
  SampleSums StacksOf(const SampledRow& row, NodeIndex otherwise) const {
    SampleSums open = row.by_stack, stacks;
    while (!open.empty()) {
      const auto innermost = std::prev(open.end());
      const auto [node, sum] = *innermost;
      open.erase(innermost);
      const bool is_outermost = node == row.outer || node == otherwise;
      if (is_outermost || sum.samples >= kFewestOfPlace) {
        stacks[is_outermost ? otherwise : node].Add(sum);
      } else {
        open[profile_.nodes()[node].parent].Add(sum);
      }
    }
    return stacks;
  }

  void AddSampled() {
    for (auto& [at, row] : sampled_) {
      const SampleSplit split = SplitBySamples(row.wall_ns, StacksOf(row, at.first));
      row.labels.kind = kSampledKind;
      for (const SamplePart& part : split.parts) profile_.Add(part.place, nodes_.Labels(row.labels), {part.ns});
      if (split.rest_ns > 0) profile_.Add(at.first, at.second, {split.rest_ns});
    }
  }

  // Calls, FLOPs and bytes of the calls that began in the steps.
  void AddWork(const StepDivision& division) {
    const SameWork same_work(model_);
    std::vector<std::vector<size_t>> groups_of(model_.processes.size());
    for (size_t group = 0; group < groups_.size(); ++group) groups_of[groups_[group].process].push_back(group);
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      if (!nodes_.IsChosen(call)) continue;
      const int64_t start_ns = model_.calls.start_ns[call];
      for (size_t group : groups_of[model_.threads[model_.calls.thread[call]].process]) {
        const std::optional<PhaseKind> phase = division.PhaseAt(group, start_ns);
        if (!phase) continue;
        const bool waits = WaitsForGpu(model_.ops[model_.calls.op[call]]);
        SampleLabels labels =
            LabelsOf(group, *phase, ActivityName(waits ? ActivityKind::kWaiting : ActivityKind::kCall));
        labels.thread = model_.calls.thread[call];
        labels.Set(attribution_.of_call[call]);
        labels.op = model_.calls.op[call];
        profile_.Add(nodes_.OfCall(call), nodes_.Labels(labels), WorkOf(model_, same_work, call));
      }
    }
  }

  void AddGpus(size_t group, const IntervalSet& time, const std::vector<Place>& places) {
    for (GpuDeviceIndex device = 0; device < model_.gpu_devices.size(); ++device) {
      if (model_.gpu_devices[device].process != groups_[group].process) continue;
      const auto [first, end] = GpuRangeOf(model_, device);
      if (first == end) continue;  // the process does not use it
      const IntervalSet blind = GpuBlindTime(model_, groups_[group].process);
      DivideGpuTime(model_, device, time, [&](const GpuTimePiece& piece) {
        if (piece.activity != kNone) {
          AddGpuPiece(group, piece, places[piece.activity]);
        } else if (nodes_.IsChosenLayer(kNone)) {
          const int64_t blind_ns = blind.CoveredNs(piece.start_ns, piece.end_ns);
          AddGpuNote(group, device, "[idle]", piece.share_ns - blind_ns);
          AddGpuNote(group, device, "[not measured]", blind_ns);
        }
      });
    }
  }

  void AddGpuPiece(size_t group, const GpuTimePiece& piece, Place place) {
    if (!nodes_.IsChosenLayer(place.layer)) return;
    SampleLabels labels = LabelsOf(group, PhaseKind::kUnknown, kGpuKind);
    labels.Set(place);
    profile_.Add(nodes_.OfGpu(piece.activity, place), nodes_.Labels(labels), {0, 0, 0, 0, piece.share_ns});
  }

  void AddGpuNote(size_t group, GpuDeviceIndex device, const std::string& note, int64_t share_ns) {
    if (share_ns == 0) return;
    profile_.Add(nodes_.OfGpuNote(device, note), nodes_.Labels(LabelsOf(group, PhaseKind::kUnknown, kGpuKind)),
                 {0, 0, 0, 0, share_ns});
  }

  const TraceModel& model_;
  const LayerAnalysis& analysis_;
  const bool with_samples_;
  const Attribution& attribution_;
  const FoldedTime& time_;
  Profile profile_;
  ProfileNodes nodes_;
  std::vector<StepGroup> groups_;
  std::vector<std::string> names_;  // of the groups' steps
  std::vector<Step> processes_;     // if the run has no steps
  std::map<std::pair<NodeIndex, LabelsIndex>, SampledRow> sampled_;
};

}  // namespace

const std::vector<FrameWord>& FrameWords() {
  static const auto& kFrameWords = *new std::vector<FrameWord>{
      {"process", "a frame for each process", &FrameChoice::process},
      {"thread", "a frame for each thread", &FrameChoice::thread},
      {"layer", "a frame for each layer and direction", &FrameChoice::layer},
      {"native", "functions of libraries, where the run has native stacks (DLHOOK_STACKS)", &FrameChoice::native},
      {"python", "functions of Python", &FrameChoice::python},
      {"scopes", "the framework's operators, of calls without native stack", &FrameChoice::scopes},
      {"plumbing", "native functions that only pass a call on, too", &FrameChoice::plumbing},
  };
  return kFrameWords;
}

Profile BuildProfile(const TraceModel& model, const LayerAnalysis& analysis, const ProfileOptions& options) {
  if (options.library_only) return LibraryProfile(model, analysis, options).Build();
  return StepProfile(model, analysis, options).Build();
}

std::vector<std::string> LayerNames(const Attribution& attribution) {
  std::vector<std::string> names;
  for (const Layer& layer : attribution.layers) {
    if (!absl::c_linear_search(names, layer.name)) names.push_back(layer.name);
  }
  return names;
}

std::vector<std::string> FunctionNames(const TraceModel& model) {
  std::set<std::string> names;
  for (const Op& op : model.ops) names.insert(op.function);
  return {names.begin(), names.end()};
}

}  // namespace dlhook::analyzer::profiles
