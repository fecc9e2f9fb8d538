// The facts that rules judge: what a run's mean steady step consists of.
#pragma once

#include "analyzer/calls/python_places.h"
#include "analyzer/calls/scope_names.h"
#include "analyzer/steps/compared_steps.h"
#include "analyzer/tables/tables.h"
#include "analyzer/time/sample_split.h"
#include "analyzer/time/thread_states.h"
#include "analyzer/work/done_work.h"
#include "analyzer/work/machine_load.h"
#include "analyzer/work/step_work.h"

namespace dlhook::analyzer::inline work {

// One kind of activity in one place, per mean step.
struct WorkItem {
  Doing doing;
  double ns = 0;     // wall share; all items add up to the step
  double calls = 0;  // library calls
  double begun = 0;  // framework's ops
  const LayerGroup* group = nullptr;
  const Op* op = nullptr;            // for calls and waits; else null
  const ScopeName* scope = nullptr;  // for framework ops; else null

  bool IsCall() const { return doing.activity == ActivityKind::kCall; }
  // Calls that compute on the CPU: their wall share is the work's own time.
  bool IsHostCompute() const { return IsCall() && op != nullptr && !op->on_gpu && !op->is_creation; }
};

class StepFacts {
 public:
  // `options`: for the whole run. Both must outlive this object.
  StepFacts(const TraceModel& model, const TableOptions& options);
  StepFacts(const StepFacts&) = delete;
  StepFacts& operator=(const StepFacts&) = delete;

  const TraceModel& model() const { return model_; }
  const TableOptions& options() const { return options_; }            // for the whole run
  const TableOptions& step_options() const { return step_options_; }  // for tables over the steps
  const Attribution& attribution() const { return options_.analysis->attribution(); }
  const std::vector<ScopeName>& scope_names() const { return scope_names_; }  // by name
  const std::vector<PythonPlace>& places() const;                             // by Python stack
  // What is derived of the whole run: SamplePlaces, StateLooks …
  template <typename T>
  const T& Derived() const {
    return options_.analysis->Derived<T>(model_);
  }

  // The steady steps of the kind that takes most time; if there are none, the whole run as one step.
  const ComparedSteps& steps() const { return steps_; }
  bool HasSteps() const { return steps_.count() > 0; }
  double count() const { return count_; }
  double step_ns() const { return step_ns_; }
  std::string StepNoun() const;  // "training step", "request", "run"
  // The track that the steps of the first process are from, with all that was left out of them; null: none.
  const StepTrack* WholeTrack() const;

  const std::vector<WorkItem>& items() const { return items_; }  // the longest first
  const DoneWork& counted() const { return counted_; }
  double TimesOf(const std::string& scope) const;  // how often scopes of this name begin in a step
  const MachineLoad& load() const { return load_; }
  double PhaseNs(PhaseKind phase) const;  // per mean step
  // The steady step of the process in which this time is: its number; kNone: none. Cheap if it is often the same as before.
  size_t StepAt(ProcessIndex process, int64_t time_ns) const;
  // The same of the beginning of a scope, a call.
  size_t StepOfScope(ScopeIndex scope) const;
  size_t StepOfCall(CallIndex call) const;
  // An operation of the framework; not so for kNone. The outermost ones are in no other one.
  bool IsOp(ScopeIndex scope) const {
    return scope != kNone && model_.scopes.look[scope].kind == ScopeKind::kFrameworkOp;
  }
  bool IsOutermostOp(ScopeIndex scope) const { return IsOp(scope) && !IsOp(model_.scopes.parent[scope]); }
  // Lower quartile of the durations of these ops' calls in steps, which other programs hardly reach.
  double UndisturbedNs(const std::set<OpIndex>& ops) const;
  // Framework ops that are in no other, and calls outside of any: thread, start, duration.
  void ForEachOperation(const std::function<void(ThreadIndex, int64_t, int64_t)>& visit) const;
  // By Python stack: whether one of its functions, given their file and name, is such.
  std::vector<bool> StacksWith(const std::function<bool(const std::string&, const std::string&)>& is_such) const;
  // What threads were found doing in the steps; without steps, in the run.
  void ForEachLook(const std::function<void(ProcessIndex, const StateLook&)>& visit) const;
  // Whose code computed in time that is not seen, by samples: by kind of activity and SamplePlaces' owners.
  std::map<ActivityKind, SampleSums> SamplesByKind() const;
  bool HasGpuTimes() const { return GpuTimesOf(model_) != GpuTimes::kNone; }
  // Frameworks whose libraries the program loaded: "PyTorch", "TensorFlow" …; always in the same order.
  const std::vector<std::string>& frameworks() const { return frameworks_; }
  bool Uses(absl::string_view framework) const;
  bool UsesTorch() const { return Uses("PyTorch"); }
  // Value of a recorded environment variable in the first process that has it; empty: not set.
  std::string Setting(absl::string_view variable) const;
  // Processors that the run's processes may use; 0: not known.
  uint32_t processors() const;
  // All that is recorded runs in threads whose processor time is known.
  bool FirstThreadsWorkAlone() const;
  // Mean number of the run's running threads during its steps, over all its processes: a loader's workers belong to the
  // program.
  double RunningThreads() const { return load_.own.running; }
  // How many other threads than the first must have run during `ns` of a step, on average: they used more processor time
  // than fits into the rest of it. For what, is not known. 0: they need not have run.
  double ThreadsBeside(double ns) const;

  // Sum over the items for which `is_in` holds.
  double Sum(const std::function<bool(const WorkItem&)>& is_in) const;
  // The layers of these items, most time first: "conv1, conv2 and 3 more".
  std::string LayersOf(const std::function<bool(const WorkItem&)>& is_in, size_t most = 3) const;
  // "train.py:42", the program's line on a stack or that of an item's layer; empty: not known.
  std::string LineOfStack(StackIndex stack) const;
  // Null: it has none, or several.
  const Layer* OnlyLayerOf(const WorkItem& item) const {
    return item.group->layers.size() == 1 ? &attribution().layers[item.group->layers.front()] : nullptr;
  }
  std::string LineOf(const WorkItem& item) const;
  // Of these items the first, most time first, whose line is known.
  std::string LineOfLongest(const std::function<bool(const WorkItem&)>& is_in) const;
  // "0.48 ms of a 5.27 ms training step (9.1 %)".
  std::string PartOfStep(double ns) const;
  bool IsAtLeast(double ns, double percent) const { return ns >= percent / 100 * step_ns_ && ns > 0; }

 private:
  const TraceModel& model_;
  const TableOptions options_;
  const MainWork& main_;
  const ComparedSteps& steps_;
  const StepWork& work_;
  const double count_;
  const double step_ns_;
  const TableOptions step_options_;
  const std::vector<ScopeName> scope_names_;
  const DoneWork counted_;
  const MachineLoad load_;
  mutable size_t last_step_ = 0;  // found by StepAt
  std::vector<std::string> frameworks_;
  std::vector<WorkItem> items_;
};

// How long that process ran outside of its steady steps.
struct TimeAround {
  double before_ns = 0;   // the first step
  double warm_up_ns = 0;  // all steps of the warm-up
  double after_ns = 0;    // the last step; -1: it is not known when the process ended
  double run_ns = 0;      // the process in all; 0: not known, without steps or where the run was read in parts

  void Add(const TimeAround& other, double share);
};

TimeAround TimeAroundSteps(const StepFacts& facts);

// Steps in and outside of windows in which operations were recorded. Where they are recorded in windows only (DLHOOK_BUDGET, light
// mode), the run itself shows what recording adds to a step; where the trace keeps less of the others (DLHOOK_MAX_BYTES), it adds
// the same to all.
struct WindowCost {
  std::vector<int64_t>
      outside_ns;            // durations of steady steps between windows; of all, unless the cost is told. Without
                             // much longer ones
  int64_t recorded = 0;      // steps of this kind in windows, warm-up included
  int64_t slow = 0;          // of these, kept because they were slow
  int64_t all = 0;           // of this kind
  double added_ns = 0;       // to a step in a window: the difference of the medians
  double error_ns = 0;       // of that: one standard error
  bool is_cost_told = true;  // false: the trace keeps less of the steps between windows
  // GPU times are recorded between windows, too: their cost is not in added_ns. Not all releases of CUPTI can be paused.
  bool has_gpu_times_throughout = false;

  double outside_mean_ns() const;
  // Whether the difference is more than chance.
  bool IsSeen() const { return added_ns > 2 * error_ns; }
};

// Nothing if there are no windows, or too few steps inside or outside.
std::optional<WindowCost> CostOfWindows(const StepFacts& facts);

}  // namespace dlhook::analyzer::work
