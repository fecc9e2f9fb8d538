// Counts what a run does: see done_work.h.
#include "analyzer/work/done_work.h"

#include "analyzer/calls/op_labels.h"
#include "analyzer/calls/scope_names.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/model/same_work.h"
#include "analyzer/model/scope_looks.h"
#include "analyzer/time/intervals.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline work {
namespace {

// False for ops whose number of calls depends on timing (polling), on the contents of a cache, or on the library alone.
bool IsDecidedByProgram(const Op& op) {
  return !op.is_creation && !op.is_trial &&
         !IsKind(op, {OpKind::kCall, OpKind::kAllocation, OpKind::kFree, OpKind::kSearch});
}

// Where the DataLoader of this scope reads its batches; empty: it is no DataLoader's.
constexpr char kInWorkers[] = "in worker processes", kInPipeline[] = "in a pipeline of tf.data";

std::string LoaderOf(absl::string_view name, ScopeRole role) {
  if (role == ScopeRole::kInputPipeline) return kInPipeline;
  if (role != ScopeRole::kInput) return "";
  if (absl::StrContains(name, "_MultiProcessingDataLoaderIter")) return kInWorkers;
  return absl::StrContains(name, "_SingleProcessDataLoaderIter") ? "in the program itself" : "";
}

class Counter {
 public:
  Counter(const TraceModel& model, const ComparedSteps& steps) : model_(model) {
    work_.steps = steps.count();
    std::vector<std::vector<Interval>> intervals(model.processes.size());
    for (const StepTrack& track : steps.tracks) {
      for (const Step& step : track.steps) intervals[track.process].emplace_back(step.start_ns, step.end_ns);
    }
    for (std::vector<Interval>& of_process : intervals) steps_.emplace_back(std::move(of_process));
  }

  void CountCalls() {
    const SameWork same_work(model_);
    std::vector<OpSums> of_op(model_.ops.size());
    for (OpIndex op = 0; op < of_op.size(); ++op) of_op[op].counts = IsDecidedByProgram(model_.ops[op]);
    ThreadIndex last_thread = kNone;
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      const ThreadIndex thread = model_.calls.thread[call];
      if (thread != last_thread) work_.processes.insert(model_.threads[thread].process);
      last_thread = thread;
      OpSums& sums = of_op[model_.calls.op[call]];
      if (!sums.counts || !IsIn(model_.calls, call) || same_work.IsNested(call)) continue;
      if (sums.calls == nullptr) FindSums(model_.ops[model_.calls.op[call]], sums);
      *sums.calls += Share();
      if (sums.types != nullptr) *sums.types += Share();
    }
  }

  void CountScopes() {
    const std::vector<ScopeName> names = ReadScopeNames(model_);
    std::vector<std::string> loaders;  // by name, as `counts`; empty: it is no loader's
    for (NameIndex name = 0; name < model_.names.size(); ++name) {
      loaders.push_back(LoaderOf(model_.names[name], model_.roles[name]));
    }
    std::vector<int64_t> counts(model_.names.size());
    const RecurringKeys<ScopeLook>& looks = model_.scopes.look.values();
    const auto is_update = [&](const ScopeLook& look) { return model_.roles[look.name] == ScopeRole::kOptimizerStep; };
    const auto is_counted = [&](const ScopeLook& look) {
      if (is_update(look)) return true;
      return !IsOptimizer(model_.roles[look.name]) && loaders[look.name].empty() && FactsOf(look.kind).is_compared;
    };
    for (uint32_t look = 0; look < looks.size(); ++look) {
      const NameIndex name = looks[look].name;
      if (IsOptimizer(model_.roles[name]))
        work_.optimizers.insert(names[name].op);
      else if (!loaders[name].empty())
        work_.loaders.insert(loaders[name]);
    }
    ForEachScopeThat(model_.scopes, is_counted, [&](ScopeIndex scope) {
      if (!IsIn(model_.scopes, scope)) return;
      const ScopeLook& look = model_.scopes.look[scope];
      if (is_update(look)) {
        work_.updates += Share();
        return;
      }
      ++counts[look.name];
      if (look.kind == ScopeKind::kGraphNode) work_.graph_ops += Share();
    });
    for (NameIndex name = 0; name < counts.size(); ++name) {
      if (counts[name] > 0) work_.ops[model_.names[name]] = static_cast<double>(counts[name]) * Share();
    }
  }

  void CountSteps(const std::vector<StepTrack>& all, const ComparedSteps& compared) {
    std::map<int64_t, int64_t> micro_steps;
    for (const StepTrack& track : compared.tracks) {
      for (const Step& step : track.steps) ++micro_steps[step.micro_steps];
    }
    int64_t most = 0;
    for (const auto& [count, steps] : micro_steps) {
      if (steps > most) work_.micro_steps = count;
      most = std::max(most, steps);
    }
    for (const StepTrack& track : all) {
      for (const Step& step : track.steps) {
        if (step.kind != compared.kind && work_.steps > 0) work_.other_steps[step.kind] += Share();
      }
    }
  }

  DoneWork Take() { return std::move(work_); }

 private:
  // Where the calls of an op are counted, once there are some.
  struct OpSums {
    bool counts = false;
    double* calls = nullptr;
    double* types = nullptr;
  };

  void FindSums(const Op& op, OpSums& sums) {
    sums.calls = &work_.calls[KindLabel(op)];
    if (!op.types.empty()) sums.types = &work_.types[op.types];
  }

  double Share() const { return 1.0 / static_cast<double>(std::max<int64_t>(work_.steps, 1)); }

  template <typename Columns>
  bool IsIn(const Columns& columns, uint32_t index) {
    if (work_.steps == 0) return true;
    return steps_[model_.threads[columns.thread[index]].process].Has(columns.start_ns[index]);
  }

  const TraceModel& model_;
  std::vector<IntervalFinder> steps_;  // by process
  DoneWork work_;
};

}  // namespace

double DoneWork::OpsThatBegin(absl::string_view prefix) const {
  double sum = 0;
  for (const auto& [name, count] : ops) sum += absl::StartsWith(name, prefix) ? count : 0;
  return sum;
}

Preparer DoneWork::preparer() const {
  if (loaders.contains(kInWorkers)) return Preparer::kWorkers;
  return loaders.contains(kInPipeline) ? Preparer::kPipeline : Preparer::kProgram;
}

DoneWork CountWork(const TraceModel& model, const std::vector<StepTrack>& all, const ComparedSteps& steps) {
  Counter counter(model, steps);
  counter.CountCalls();
  counter.CountScopes();
  counter.CountSteps(all, steps);
  return counter.Take();
}

}  // namespace dlhook::analyzer::work
