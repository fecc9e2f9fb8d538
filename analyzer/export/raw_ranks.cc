// What ranks are compared by: their collective operations, and sums of their work. See raw_tables.h.

#include "analyzer/calls/op_labels.h"
#include "analyzer/calls/scope_names.h"
#include "analyzer/export/raw_tables.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/model/same_work.h"
#include "analyzer/steps/step_index.h"
#include "analyzer/tables/op_groups.h"
#include "analyzer/tables/ranks/collective_arrivals.h"
#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline exports {
namespace {

constexpr int64_t kWindowSteps = 50;

std::string KindWords(CollectiveKind kind) { return absl::StrReplaceAll(EnumName(kind), {{"_", " "}}); }

class WorkRows {
 public:
  explicit WorkRows(const Timeline& run)
      : model_(run.model), attribution_(run.analysis.attribution()), steps_(run.model, run.analysis.steps()) {
    std::map<std::tuple<ProcessIndex, int64_t, std::string>, uint32_t> known;
    for (const NumberedStep& step : steps_.steps()) {
      window_of_.push_back(kNone);
      if (!step.is_steady) continue;
      const int64_t first = step.number / kWindowSteps * kWindowSteps;
      const std::string kind = StepName(step.step->kind, step.step->sort);
      const auto [window, is_new] = known.try_emplace({step.process, first, kind}, windows_.size());
      if (is_new) windows_.push_back({step.process, first, 0, kind});
      ++windows_[window->second].steps;
      window_of_.back() = window->second;
    }
  }

  void Fill(TableRows& rows) {
    AddCalls();
    AddScopes();
    AddGpu();
    std::map<std::tuple<uint32_t, std::string, LayerDirection, Words>, Sums> sums_of;
    for (const auto& [key, sums] : sums_) {
      const auto& [window, layer, direction, what, index, kernel] = key;
      const std::string& name = layer == kNone ? "" : attribution_.layers[layer].name;
      sums_of[{window, name, direction, WordsOf(what, index, kernel, sums.first)}].Add(sums);
    }
    for (const auto& [key, sums] : sums_of) {
      const auto& [index, layer, direction, words] = key;
      const Window& window = windows_[index];
      rows.Integer(window.process).Integer(window.first).Integer(window.steps).Text(window.kind).Text(layer);
      rows.Text(DirectionWord(direction)).Text(words.op);
      rows.Text(words.implementation).Integer(words.on_gpu).Integer(sums.count).Integer(sums.sum_ns);
      rows.Integer(sums.min_ns).Integer(sums.max_ns).End();
    }
  }

 private:
  struct Window {
    ProcessIndex process;
    int64_t first;
    int64_t steps;
    std::string kind;
  };
  enum class What : uint8_t { kCall, kScope, kGpu };
  struct Words {
    std::string op, implementation;
    bool on_gpu;
    auto operator<=>(const Words&) const = default;
  };
  struct Sums {
    uint32_t first = kNone;  // call, scope or activity
    int64_t count = 0, sum_ns = 0, min_ns = INT64_MAX, max_ns = 0;
    void Add(const Sums& other) {
      count += other.count;
      sum_ns += other.sum_ns;
      min_ns = std::min(min_ns, other.min_ns);
      max_ns = std::max(max_ns, other.max_ns);
    }
  };
  // Window, layer, direction; of a call or GPU work its op, of a scope its name; the kernel.
  using Key = std::tuple<uint32_t, LayerIndex, LayerDirection, What, uint32_t, GpuKernelIndex>;

  void Add(uint32_t step, Place place, What what, uint32_t index, GpuKernelIndex kernel, uint32_t one, int64_t ns) {
    if (step == kNone || window_of_[step] == kNone) return;
    Sums& sums = sums_[{window_of_[step], place.layer, place.direction, what, index, kernel}];
    if (sums.count == 0) sums.first = one;
    sums.Add({one, 1, ns, ns, ns});
  }

  // A call inside another view of the same work is a part of that.
  void AddCalls() {
    const CallColumns& calls = model_.calls;
    const SameWork same_work(model_);
    const ActivityRules rules(model_);
    std::vector<int64_t> own_ns = calls.self_ns;
    for (CallIndex call = 0; call < calls.size(); ++call) {
      if (const CallIndex outermost = same_work.Outermost(call); outermost != call) own_ns[outermost] += own_ns[call];
    }
    for (CallIndex call = 0; call < calls.size(); ++call) {
      if (same_work.Outermost(call) != call || rules.Waits(call) || model_.ops[calls.op[call]].collective()) continue;
      const uint32_t step =
          steps_.At(model_.threads[calls.thread[call]].process, calls.thread[call], calls.start_ns[call]);
      Add(step, attribution_.of_call[call], What::kCall, calls.op[call], kNone, call, own_ns[call]);
    }
  }

  void AddScopes() {
    const ScopeColumns& scopes = model_.scopes;
    std::vector<int64_t> inside_ns(scopes.size());
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      const ScopeIndex scope = model_.calls.ScopeOf(call);
      if (scope != kNone && model_.calls.parent[call] == kNone) inside_ns[scope] += model_.calls.duration_ns[call];
    }
    for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
      if (scopes.parent[scope] != kNone) inside_ns[scopes.parent[scope]] += scopes.duration_ns[scope];
    }
    for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
      const ScopeLook look = scopes.look[scope];
      const bool is_op = look.kind == ScopeKind::kFrameworkOp || look.kind == ScopeKind::kBackwardNode ||
                         look.kind == ScopeKind::kXlaOp;
      if (!is_op || IsDistributedOp(model_.names[look.name])) continue;  // it waits for other ranks
      const ThreadIndex thread = scopes.thread[scope];
      const Place place = attribution_.PlaceOfScope(scope);
      Add(steps_.At(model_.threads[thread].process, thread, scopes.start_ns[scope]), place, What::kScope, look.name,
          kNone, scope, std::max<int64_t>(scopes.duration_ns[scope] - inside_ns[scope], 0));
    }
  }

  void AddGpu() {
    const GpuActivityColumns& gpu = model_.gpu;
    const std::vector<Place> places = GpuPlaces(model_, attribution_);
    for (GpuIndex activity = 0; activity < gpu.size(); ++activity) {
      if (GpuWorkOf(model_, activity) == GpuWork::kCommunication) continue;
      CallIndex call = gpu.call[activity];
      const auto says_nothing = [&](const Op& op) { return op.launch() != nullptr || IsKind(op, OpKind::kCall); };
      while (call != kNone && says_nothing(model_.ops[model_.calls.op[call]])) call = model_.calls.parent[call];
      const uint32_t step = steps_.At(model_.gpu_devices[gpu.device[activity]].process, gpu.thread[activity],
                                      GpuAskedNs(model_, activity));
      Add(step, places[activity], What::kGpu, call == kNone ? kNone : model_.calls.op[call], gpu.kernel[activity],
          activity, gpu.DurationNs(activity));
    }
  }

  Words WordsOf(What what, uint32_t index, GpuKernelIndex kernel, uint32_t first) const {
    if (what == What::kScope) return {ScopeLabel(model_, first), "", false};
    const Op* const op = index == kNone ? nullptr : &model_.ops[index];
    if (what == What::kCall) return {KindLabel(*op), ChosenLabel(*op), false};
    const NameIndex name = kernel == kNone ? kNone : model_.gpu_kernels[kernel].short_name;
    std::string chosen = op == nullptr ? "" : ChosenLabel(*op);
    if (chosen.empty() && name != kNone) chosen = model_.names[name];
    return {op == nullptr ? EnumName(model_.gpu.kind[first]) : KindLabel(*op), chosen, true};
  }

  const TraceModel& model_;
  const Attribution& attribution_;
  StepIndex steps_;
  std::vector<Window> windows_;
  std::vector<uint32_t> window_of_;  // by step
  absl::flat_hash_map<Key, Sums> sums_;
};

}  // namespace

void FillCollectives(const Timeline& run, TableRows& rows) {
  const TraceModel& model = run.model;
  StepIndex steps(model, run.analysis.steps());
  const std::vector<int64_t> until_ns = OrderKnownUntil(model);
  const auto begin = [&](ProcessIndex process, ThreadIndex thread, int64_t start_ns) {
    const uint32_t step = steps.At(process, thread, start_ns);
    rows.Integer(process).Known(step == kNone ? std::nullopt : std::optional(steps.steps()[step].number));
  };
  const auto order = [&](size_t sequence, ProcessIndex process, int64_t start_ns) {
    return start_ns < until_ns[process] ? std::optional(static_cast<int64_t>(sequence)) : std::nullopt;
  };
  const auto spans = CollectivesOnGpu(model);
  for (const auto& [communicator, members] : FindCommunicators(model)) {
    const auto& [family, ranks, index] = communicator;
    for (const CollectiveMember& member : members) {
      const bool are_all = RankCountOf(model.processes[member.process]) == absl::StrCat(ranks);
      const std::string library = absl::AsciiStrToUpper(family);
      for (size_t i = 0; i < member.calls.size(); ++i) {
        const CallIndex call = member.calls[i];
        const Op& op = model.ops[model.calls.op[call]];
        const CollectiveCall& collective = *op.collective();
        int64_t start_ns = model.calls.start_ns[call], end_ns = start_ns + model.calls.duration_ns[call];
        begin(member.process, model.calls.thread[call], start_ns);
        rows.Text(are_all ? absl::StrCat(library, ", all ", ranks, " ranks, ", index + 1) : "");
        rows.Integer(static_cast<int64_t>(collective.communicator))
            .Integer(ranks)
            .Known(order(i, member.process, start_ns));
        const auto span = spans.find(call);
        if (span != spans.end()) std::tie(start_ns, end_ns) = span->second;
        rows.Text(KindWords(collective.kind));
        const bool knows_size = collective.bytes > 0 || collective.kind == CollectiveKind::kBarrier;
        rows.Known(knows_size ? std::optional(static_cast<int64_t>(collective.bytes)) : std::nullopt);
        const bool knows_end = span != spans.end() || !op.is_asynchronous;
        rows.Text(library).Integer(start_ns - model.start_ns);
        rows.Known(knows_end ? std::optional(end_ns - model.start_ns) : std::nullopt).End();
      }
    }
  }
  for (const auto& [kind, members] : FindCollectiveRanges(model)) {
    for (const CollectiveMember& member : members) {
      for (size_t i = 0; i < member.ranges.size(); ++i) {
        const ScopeIndex range = member.ranges[i];
        const int64_t bytes = RangeKindOf(model, range).bytes;
        begin(member.process, model.scopes.thread[range], model.scopes.start_ns[range]);
        rows.Null()
            .Null()
            .Null()
            .Known(order(i, member.process, model.scopes.start_ns[range]))
            .Text(KindWords(*CollectiveOf(kind.name)))
            .Known(bytes < 0 ? std::nullopt : std::optional(bytes))
            .Text(kind.name.substr(0, kind.name.find(':')));
        rows.Integer(model.scopes.start_ns[range] - model.start_ns)
            .Integer(model.scopes.EndOf(range) - model.start_ns)
            .End();
      }
    }
  }
}

void FillWork(const Timeline& run, TableRows& rows) { WorkRows(run).Fill(rows); }

}  // namespace dlhook::analyzer::exports
