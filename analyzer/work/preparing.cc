#include "analyzer/work/preparing.h"

namespace dlhook::analyzer::inline work {
namespace {

IntervalSet InputTimes(const StepTrack& track) {
  std::vector<Interval> times;
  for (const Step& step : track.steps) {
    for (const PhaseInterval& phase : step.phases) {
      if (phase.kind == PhaseKind::kInput) times.push_back({phase.start_ns, phase.end_ns});
    }
  }
  return IntervalSet(std::move(times));
}

}  // namespace

std::string LooksText(const LookSums& looks, const char* verb) {
  const std::optional<int64_t> blocked = looks.BlockedOf(100), queued = looks.QueuedOf(100);
  if (!blocked) return "";
  const std::string in = BlockedInText(looks.found_ns);
  return absl::StrFormat("computed %d %%, waited for a processor %d %%, %s blocked %d %%%s", 100 - *blocked - *queued,
                         *queued, verb, *blocked, in.empty() ? "" : absl::StrCat(" (in ", in, ")"));
}

std::string Preparing::Text() const {
  const bool many = preparer == Preparer::kPipeline || threads > 1;
  const std::string did = LooksText(looks, preparer != Preparer::kProgram && many ? "were" : "was");
  if (did.empty()) return "";
  if (preparer == Preparer::kProgram) return absl::StrCat("its thread ", did);
  if (preparer == Preparer::kWorkers)
    return absl::StrCat(many ? absl::StrCat("its ", threads, " workers ") : "its worker ", did);
  return absl::StrCat("the pipeline's operations (", op.empty() ? "" : absl::StrCat("mostly ", op, ", "), "in ",
                      threads, threads == 1 ? " thread) " : " threads) ", did);
}

void Preparing::Add(const Preparing& other) {
  looks.Add(other.looks);
  threads = std::max(threads, other.threads);
  preparer = std::max(preparer, other.preparer);
  if (op.empty()) op = other.op;
}

namespace {

// While the program waits, nodes of graphs that run are the pipeline's. Where none does, its datasets themselves read: those that are
// not waiting for each other.
Preparing OfPipeline(const TraceModel& model, const StateLooks& looks, ProcessIndex process, const IntervalSet& times) {
  IntervalFinder finder(times.intervals());
  std::map<std::string, LookSums> by_op;
  Preparing nodes{.preparer = Preparer::kPipeline}, readers{.preparer = Preparer::kPipeline};
  std::set<ThreadIndex> in_nodes, in_readers;
  for (const StateLook& look : looks.Of(process)) {
    if (!finder.Has(look.piece.start_ns)) continue;
    if (look.piece.kind == ActivityKind::kDataLoading &&
        look.sums.found_ns[static_cast<size_t>(BlockedIn::kLock)] == 0) {
      readers.looks.Add(look.sums);
      in_readers.insert(look.piece.thread);
    }
    if (look.piece.kind != ActivityKind::kScope) continue;
    const ScopeLook& scope = model.scopes.look[look.piece.index];
    if (scope.kind != ScopeKind::kGraphNode) continue;
    const std::string& name = model.names[scope.name];
    by_op[name.substr(name.rfind(':') + 1)].Add(look.sums);
    nodes.looks.Add(look.sums);
    in_nodes.insert(look.piece.thread);
  }
  nodes.threads = std::ssize(in_nodes);
  readers.threads = std::ssize(in_readers);
  for (const auto& [op, sums] : by_op) {
    if (2 * sums.looks > nodes.looks.looks) nodes.op = op;
  }
  return nodes.looks.looks > 0 ? nodes : readers;
}

// A loader starts others for each epoch, unless they persist.
int64_t MostAtOnce(const std::vector<Interval>& lives) {
  std::vector<std::pair<int64_t, int>> changes;
  for (const Interval& life : lives) {
    changes.emplace_back(life.start_ns, 1);
    changes.emplace_back(life.end_ns, -1);
  }
  absl::c_sort(changes);
  int64_t now = 0, most = 0;
  for (const auto& [time_ns, change] : changes) most = std::max(most, now += change);
  return most;
}

Preparing OfFirstThreads(const TraceModel& model, const std::vector<ThreadStates>& threads, uint32_t pid,
                         const IntervalSet& times, Preparer preparer) {
  Preparing own{.preparer = preparer};
  std::vector<Interval> lives;
  for (const ThreadStates& states : threads) {
    const ProcessInfo& process = model.processes[states.process];
    if (states.tid != process.pid || (preparer == Preparer::kWorkers ? process.parent_pid : process.pid) != pid)
      continue;
    const LookSums looks = LooksIn(states, times);
    own.looks.Add(looks);
    if (looks.looks > 0) lives.push_back({states.time_ns.front(), states.time_ns.back()});
  }
  own.threads = MostAtOnce(lives);
  return own;
}

}  // namespace

Preparing WhoPrepares(const TraceModel& model, const LayerAnalysis& analysis, const ComparedSteps& steps,
                      Preparer preparer) {
  Preparing preparing{.preparer = preparer};
  if (model.states.empty()) return preparing;
  const std::vector<ThreadStates> threads = ReadThreadStates(model);
  for (const StepTrack& track : steps.tracks) {
    const IntervalSet times = InputTimes(track);
    preparing.Add(preparer == Preparer::kPipeline
                      ? OfPipeline(model, analysis.Derived<StateLooks>(model), track.process, times)
                      : OfFirstThreads(model, threads, model.processes[track.process].pid, times, preparer));
  }
  return preparing;
}

}  // namespace dlhook::analyzer::work
