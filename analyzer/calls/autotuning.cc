// Autotuning through cuDNN's graph API: see choices.h.

#include "analyzer/calls/choices.h"
#include "analyzer/calls/op_labels.h"

namespace dlhook::analyzer::inline calls {
namespace {

constexpr uint32_t kNoProblem = 0xffffffff;

bool HasFreshPack(const Op& op) { return !op.cudnn()->pack_seen_before; }

// Identifies a plan within its process; if the tracker could not number it, by what it runs.
std::string PlanIdentity(const Op& op) {
  const uint32_t number = op.plan()->number;
  return number != 0 ? absl::StrCat("#", number) : op.plan()->configuration;
}

// An execution, and what the thread did between it and the next one.
struct Execution {
  CallIndex call = 0;
  int64_t waited_until_ns = -1;  // when waiting for the GPU ended; -1: it did not wait
  int64_t elapsed_ns = -1;       // the time between two events that it queried; -1: none
  bool event_recorded = false;
  bool event_awaited = false;  // it waited for the GPU after recording an event
};

using Executions = absl::Span<const Execution>;

// Executions that form a search by one of the signatures.
using TrialRun = std::vector<Execution>;

// The calls of a run, with numbers for the problems and plans of plan executions; other ops have none.
class PlanCalls {
 public:
  explicit PlanCalls(const TraceModel& run) : model(run), calls(run.calls), problem_(run.ops.size(), kNoProblem) {
    plan_ = problem_;
    std::map<std::string, uint32_t> problems, plans;
    const auto number_of = [](const std::string& key, std::map<std::string, uint32_t>& numbers) {
      return numbers.emplace(key, static_cast<uint32_t>(numbers.size())).first->second;
    };
    for (size_t i = 0; i < run.ops.size(); ++i) {
      if (!IsPlanExecution(run.ops[i])) continue;
      problem_[i] = number_of(ProblemKey(run.ops[i]), problems);
      plan_[i] = number_of(PlanIdentity(run.ops[i]), plans);
    }
  }
  const Op& OpOf(CallIndex call) const { return model.ops[calls.op[call]]; }
  uint32_t ProblemOf(CallIndex call) const { return problem_[calls.op[call]]; }
  uint32_t PlanOf(CallIndex call) const { return plan_[calls.op[call]]; }
  uint32_t PlanOfOp(OpIndex op) const { return plan_[op]; }
  ProcessIndex ProcessOf(CallIndex call) const { return model.threads[calls.thread[call]].process; }

  const TraceModel& model;
  const CallColumns& calls;

 private:
  std::vector<uint32_t> problem_, plan_;  // by op
};

bool HasTwoPlans(const PlanCalls& plans, Executions executions) {
  return absl::c_any_of(executions, [&](const Execution& execution) {
    return plans.PlanOf(execution.call) != plans.PlanOf(executions[0].call);
  });
}

// Finds searches among executions with the same operands, in which each plan was timed by events.
class TimedRuns {
 public:
  TimedRuns(const PlanCalls& plans, Executions executions, std::vector<TrialRun>* runs)
      : plans_(plans), executions_(executions), runs_(runs) {
    is_elapsed_asked_ = absl::c_any_of(executions, [](const Execution& e) { return e.elapsed_ns >= 0; });
  }

  void Add() {
    for (size_t begin = 0, end = 0; begin < executions_.size(); begin = end) {
      const uint32_t plan = plans_.PlanOf(executions_[begin].call);
      for (end = begin + 1; end < executions_.size() && plans_.PlanOf(executions_[end].call) == plan;) ++end;
      AddPlan(begin, end);
    }
    Close(executions_.size());
  }

 private:
  // If the program queries elapsed times, executions without such a query are not timed.
  bool IsTimed(const Execution& execution) const {
    return is_elapsed_asked_ ? execution.elapsed_ns >= 0 : execution.event_awaited;
  }
  bool AreFailed(Executions executions) const {
    return absl::c_all_of(executions,
                          [&](const Execution& execution) { return plans_.model.StatusOf(execution.call) != 0; });
  }

  // Adds the executions of one plan. Those before the last timed one may be warm-up; those after it are trials only if
  // the search continues. A plan that the program cannot execute is not timed.
  void AddPlan(size_t begin, size_t end) {
    size_t tried_end = end;
    while (tried_end > begin && !IsTimed(executions_[tried_end - 1])) --tried_end;
    if (tried_end > begin) {
      timed_plans_.insert(plans_.PlanOf(executions_[begin].call));
      run_end_ = tried_end;
    } else if (AreFailed(executions_.subspan(begin, end - begin))) {
      run_end_ = end;
    } else {
      Close(end);
    }
  }

  void Close(size_t next_begin) {
    if (timed_plans_.size() > 1) runs_->emplace_back(executions_.begin() + run_begin_, executions_.begin() + run_end_);
    timed_plans_.clear();
    run_begin_ = run_end_ = next_begin;
  }

  const PlanCalls& plans_;
  const Executions executions_;
  std::vector<TrialRun>* runs_;
  bool is_elapsed_asked_ = false;
  size_t run_begin_ = 0, run_end_ = 0;
  std::set<uint32_t> timed_plans_;
};

// Goes through the calls of all threads and keeps the executions of one problem until another problem is executed.
class RunFinder {
 public:
  explicit RunFinder(const PlanCalls& plans) : plans_(plans) {}

  std::vector<TrialRun> Run() {
    ThreadIndex thread = kNone;
    for (CallIndex call = 0; call < plans_.calls.size(); ++call) {
      if (plans_.calls.thread[call] != thread) Close();
      thread = plans_.calls.thread[call];
      Visit(call);
    }
    Close();
    return std::move(runs_);
  }

 private:
  void Visit(CallIndex call) {
    const Op& op = plans_.OpOf(call);
    if (plans_.ProblemOf(call) == kNoProblem || op.captured) {
      if (IsOtherWork(op, call)) Close();
      if (!open_.empty()) NoteTime(op, call, open_.back());
      return;
    }
    if (!open_.empty() && plans_.ProblemOf(open_[0].call) != plans_.ProblemOf(call)) Close();
    open_.push_back({.call = call});
  }

  // Work of another library, or of another interface of this one, outside the execution.
  bool IsOtherWork(const Op& op, CallIndex call) const {
    return IsLibraryOp(op) && op.subject.empty() && !op.is_creation && !op.captured &&
           plans_.calls.parent[call] == kNone;
  }

  void NoteTime(const Op& op, CallIndex call, Execution& execution) const {
    execution.event_recorded |= IsEventRecord(op);
    if (WaitsForGpu(op)) {
      execution.event_awaited |= execution.event_recorded;
      if (execution.waited_until_ns < 0) execution.waited_until_ns = plans_.calls.EndOf(call);
    }
    if (execution.elapsed_ns >= 0 || !IsElapsedTime(op)) return;
    const absl::Span<const uint64_t> values = plans_.model.OperandsOf(call);
    const bool is_known = values.size() == 1 && plans_.model.StatusOf(call) == 0;
    if (is_known) execution.elapsed_ns = static_cast<int64_t>(values[0]);
  }

  // Finds searches by their variant pack; between them, searches by operands and times.
  void Close() {
    size_t rest = 0;
    for (size_t begin = 0, end = 0; begin < open_.size(); begin = end) {
      const bool has_begun = HasFreshPack(plans_.OpOf(open_[begin].call));
      for (end = begin + 1; end < open_.size(); ++end) {
        if (HasFreshPack(plans_.OpOf(open_[end].call))) break;
      }
      const Executions with_one_pack = Part(begin, end);
      if (!has_begun || !HasTwoPlans(plans_, with_one_pack)) continue;
      AddTimed(rest, begin);
      runs_.emplace_back(with_one_pack.begin(), with_one_pack.end());
      rest = end;
    }
    AddTimed(rest, open_.size());
    open_.clear();
  }

  void AddTimed(size_t begin, const size_t last) {
    for (size_t end = begin; begin < last; begin = end) {
      const absl::Span<const uint64_t> operands = plans_.model.OperandsOf(open_[begin].call);
      for (end = begin + 1; end < last; ++end) {
        if (plans_.model.OperandsOf(open_[end].call) != operands) break;
      }
      const bool are_known = !operands.empty() && absl::c_count(operands, 0u) == 0;
      if (are_known && end - begin > 1) TimedRuns(plans_, Part(begin, end), &runs_).Add();
    }
  }

  Executions Part(size_t begin, size_t end) const { return Executions(open_).subspan(begin, end - begin); }

  const PlanCalls& plans_;
  std::vector<Execution> open_;
  std::vector<TrialRun> runs_;
};

// Which plans the processes executed, and when, outside searches, for the problems that were searched.
class OtherExecutions {
 public:
  OtherExecutions(const PlanCalls& plans, const std::vector<TrialRun>& runs) : plans_(plans) {
    if (runs.empty()) return;
    std::vector<bool> is_in_search(plans.calls.size());
    for (const TrialRun& run : runs) {
      executions_[KeyOf(run[0].call)];
      for (const Execution& execution : run) is_in_search[execution.call] = true;
    }
    for (CallIndex call = 0; call < plans.calls.size(); ++call) {
      if (plans.ProblemOf(call) == kNoProblem || is_in_search[call]) continue;
      const auto it = executions_.find(KeyOf(call));
      if (it == executions_.end()) continue;
      it->second.emplace_back(plans.calls.start_ns[call], plans.calls.op[call]);
    }
    for (auto& [key, list] : executions_) absl::c_sort(list);
  }

  std::optional<OpIndex> NextAfter(CallIndex call, bool with_fresh_pack) const {
    const auto& list = executions_.at(KeyOf(call));
    auto next = absl::c_upper_bound(list, std::make_pair(plans_.calls.start_ns[call], UINT32_MAX));
    while (with_fresh_pack && next != list.end() && !HasFreshPack(plans_.model.ops[next->second])) ++next;
    if (next == list.end()) return std::nullopt;
    return next->second;
  }

 private:
  using Key = std::pair<ProcessIndex, uint32_t>;  // process, problem
  Key KeyOf(CallIndex call) const { return {plans_.ProcessOf(call), plans_.ProblemOf(call)}; }

  const PlanCalls& plans_;
  std::map<Key, std::vector<std::pair<int64_t, OpIndex>>> executions_;  // start, op
};

// Number of executions at the end with a plan that had been tried before.
size_t CameBack(const PlanCalls& plans, const TrialRun& run) {
  const uint32_t plan = plans.PlanOf(run.back().call);
  const auto is_other = [&](const Execution& e) { return plans.PlanOf(e.call) != plan; };
  const auto block = std::find_if(run.rbegin(), run.rend(), is_other);
  const bool was_tried = !std::all_of(block, run.rend(), is_other);
  return was_tried ? static_cast<size_t>(block - run.rbegin()) : 0;
}

void KeepLess(int64_t time_ns, std::optional<int64_t>& least) { least = std::min(least.value_or(time_ns), time_ns); }

PlanSearch MakeSearch(const PlanCalls& plans, const TrialRun& run, size_t trials) {
  const CallColumns& calls = plans.calls;
  PlanSearch search;
  search.thread = plans.calls.thread[run[0].call];
  search.process = plans.ProcessOf(run[0].call);
  search.start_ns = calls.start_ns[run[0].call];
  std::map<uint32_t, size_t> places;
  for (size_t i = 0; i < trials; ++i) {
    const auto& [call, waited_until_ns, elapsed_ns, recorded, awaited] = run[i];
    const auto [it, is_new] = places.emplace(plans.PlanOf(call), places.size());
    if (is_new) search.candidates.push_back({.op = calls.op[call], .calls = {}, .elapsed_ns = {}, .host_ns = {}});
    PlanCandidate& candidate = search.candidates[it->second];
    candidate.calls.push_back(call);
    search.end_ns = std::max({search.end_ns, calls.EndOf(call), waited_until_ns});
    if (waited_until_ns >= 0) KeepLess(waited_until_ns - calls.start_ns[call], candidate.host_ns);
    if (elapsed_ns >= 0) KeepLess(elapsed_ns, candidate.elapsed_ns);
  }
  return search;
}

// The candidate that is this plan; else the one with its engine and knobs (the winner, built again).
std::optional<size_t> CandidateLike(const PlanCalls& plans, const PlanSearch& search, OpIndex op) {
  const auto find = [&](const auto& is_it) -> std::optional<size_t> {
    const auto it = absl::c_find_if(search.candidates, is_it);
    if (it == search.candidates.end()) return std::nullopt;
    return static_cast<size_t>(it - search.candidates.begin());
  };
  const auto by_number =
      find([&](const PlanCandidate& candidate) { return plans.PlanOfOp(candidate.op) == plans.PlanOfOp(op); });
  if (by_number) return by_number;
  const std::vector<Op>& ops = plans.model.ops;
  return find([&](const PlanCandidate& candidate) {
    return ops[candidate.op].plan()->configuration == ops[op].plan()->configuration;
  });
}

// Formats of the tensors for which the algorithm is chosen: the same for fused and plain convolutions. Bias and
// residual inputs are ignored.
std::string MainFormats(const Op& op) {
  std::string text;
  for (const Tensor& tensor : op.tensors) {
    const bool is_main = absl::StrContains(tensor.role, "src") || absl::StrContains(tensor.role, "wei") ||
                         absl::StrContains(tensor.role, "dst");
    if (is_main && tensor.defined) absl::StrAppend(&text, tensor.format, tensor.strides, " ");
  }
  return text;
}

}  // namespace

std::vector<PlanSearch> FindPlanSearches(const TraceModel& model) {
  const PlanCalls plans(model);
  const std::vector<TrialRun> runs = RunFinder(plans).Run();
  const OtherExecutions others(plans, runs);
  std::vector<PlanSearch> searches;
  for (const TrialRun& run : runs) {
    const CallIndex last = run.back().call;
    const size_t uses = others.NextAfter(last, true) ? 0 : CameBack(plans, run);
    searches.push_back(MakeSearch(plans, run, run.size() - uses));
    const std::optional<OpIndex> next = uses > 0 ? model.calls.op[last] : others.NextAfter(last, false);
    if (next) searches.back().winner = CandidateLike(plans, searches.back(), *next);
  }
  return searches;
}

bool IsPlanExecution(const Op& op) { return op.plan() != nullptr; }

std::string ProblemKey(const Op& op) {
  const std::string& kind = op.subject.empty() ? op.kind : op.subject;
  // A graph is searched for as a whole; a legacy search is for the bare convolution.
  const std::string fused = IsPlanExecution(op) ? absl::StrJoin(op.post_ops, "+") : "";
  return absl::StrCat(kind, "|", DirectionName(op.direction), "|", op.problem, "|", op.types, "|", MainFormats(op), "|",
                      fused);
}

}  // namespace dlhook::analyzer::calls
