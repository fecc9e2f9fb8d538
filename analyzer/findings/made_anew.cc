// Rule made-anew: in each step the program makes a pipeline of tf.data, as Keras's predict, evaluate and fit do in each call,
// for what may be a single batch.
//
// A pipeline's iterator is made once, after the pipeline's own operations: the time from the first of these to the end of
// MakeIterator would not be spent with one pipeline, or none. What else such a call does before and after is not in it.
//
// The same of PyTorch's modules: operations that fill their parameters (torch/nn/init.py, reset_parameters, load_state_dict), or
// copy them (copy.deepcopy), with what Python does between those.

#include "analyzer/findings/rules.h"
#include "analyzer/model/scope_looks.h"
#include "analyzer/time/intervals.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr int64_t kBetweenCopiesNs = 1'000'000;  // of deepcopy's own Python; longer is the program's
constexpr double kLeastPart = 0.05;
constexpr double kEachStep = 0.5;   // pipelines a step
constexpr double kOftenInRun = 10;  // where there are no steps
constexpr char kMakeIterator[] = "MakeIterator";

struct Pipelines {
  double count = 0;          // of a step, or in the run
  double ns = 0;             // to make them
  double whole_ns = 0;       // from one step to the next, or the run
  StackIndex stack = kNone;  // in which the last one was made
};

// Of the main steps from the first one's beginning to the last one's end, also between them: a request may end before its
// call does.
Pipelines PipelinesIn(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const ScopeColumns& scopes = model.scopes;
  std::vector<bool> makes(model.names.size());  // by name
  for (NameIndex name = 0; name < model.names.size(); ++name) {
    absl::string_view op = model.names[name];
    makes[name] = absl::ConsumePrefix(&op, kEagerOp) && (op == kMakeIterator || absl::StrContains(op, "Dataset"));
  }
  if (!absl::c_linear_search(makes, true)) return {};
  std::vector<Interval> times(model.processes.size());
  Pipelines pipelines;
  for (const StepTrack& track : facts.steps().tracks) {
    if (track.steps.empty()) continue;
    times[track.process] = {track.steps.front().start_ns, track.steps.back().end_ns};
    pipelines.whole_ns += static_cast<double>(track.steps.back().end_ns - track.steps.front().start_ns) / facts.count();
  }
  if (!facts.HasSteps()) {
    times.assign(times.size(), {model.start_ns, model.end_ns});
    pipelines.whole_ns = facts.step_ns();
  }
  ScopeIndex first = kNone;  // of the pipeline that is being made
  ForEachScopeThat(
      scopes, [&](const ScopeLook& look) { return makes[look.name]; },
      [&](ScopeIndex scope) {
        if (first == kNone || scopes.thread[first] != scopes.thread[scope]) first = scope;
        if (!absl::EndsWith(model.names[scopes.look[scope].name], kMakeIterator)) return;
        const Interval& time = times[model.threads[scopes.thread[scope]].process];
        if (time.start_ns <= scopes.start_ns[first] && scopes.EndOf(scope) <= time.end_ns) {
          pipelines.count += 1 / facts.count();
          pipelines.ns += static_cast<double>(scopes.EndOf(scope) - scopes.start_ns[first]) / facts.count();
          pipelines.stack = scopes.look[scope].stack;
        }
        first = kNone;
      });
  return pipelines;
}

bool AreMany(const StepFacts& facts, const Pipelines& pipelines) {
  return pipelines.count >= (facts.HasSteps() ? kEachStep : kOftenInRun);
}

// "fit", the library's function that the program's own line calls, without what is put around it; empty: not known.
std::string CalledBy(const TraceModel& model, StackIndex stack, const PythonPlace& place) {
  std::string called;
  for (const PythonFrame& frame : model.python_stacks[stack].frames) {
    if (frame.file == place.file && frame.line == place.line) return called.substr(called.rfind('.') + 1);
    const std::string& function = model.names[frame.function];
    const bool is_wrapper = absl::EndsWith(function, "error_handler") || absl::StrContains(function, "wrap");
    if (!is_wrapper) called = function;
  }
  return "";
}

}  // namespace

bool MakesPipelinesAnew(const StepFacts& facts) {
  return AreMany(facts, PipelinesIn(facts)) || !FindIteratorsMadeAnew(facts).empty();
}

std::vector<Finding> FindIteratorsMadeAnew(const StepFacts& facts) {
  if (!facts.HasSteps() || !facts.UsesTorch() || facts.HasGpuTimes()) return {};
  const ScopeColumns& scopes = facts.model().scopes;
  const std::vector<bool> makes = facts.StacksWith([](const std::string& file, const std::string& function) {
    return function == "_BaseDataLoaderIter.__init__" && absl::EndsWith(file, "/torch/utils/data/dataloader.py");
  });
  std::set<std::pair<ThreadIndex, size_t>> steps;
  StackIndex made = kNone;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    const StackIndex stack = scopes.look[scope].stack;
    const size_t step = stack != kNone && makes[stack] ? facts.StepOfScope(scope) : kNone;
    if (step == kNone) continue;
    steps.insert({scopes.thread[scope], step});
    made = stack;
  }
  const double ns = InputNs(facts);
  if (static_cast<double>(steps.size()) < kEachStep * facts.count() || !facts.IsAtLeast(ns, 100 * kLeastPart))
    return {};
  return {
      {.where = "input",
       .line = facts.LineOfStack(made),
       .sentence = absl::StrFormat("A new iterator of a DataLoader is made in each %s (it shuffles all indices, and "
                                   "starts workers, where these are asked for): the program waits for input for %s.",
                                   facts.StepNoun(), facts.PartOfStep(ns)),
       .gain_ns = ns,
       .evidence = "operations that _BaseDataLoaderIter.__init__ calls; table phases: input",
       .advice = "Make it once and take one batch after the other: for x, y in loader, or batches = iter(loader) "
                 "before the loop and next(batches) in it, not next(iter(loader))."}};
}

// In each step, modules or their parameters.
std::vector<Finding> FindModulesMadeAnew(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const ScopeColumns& scopes = model.scopes;
  enum class Makes : uint8_t { kNothing, kFills, kCopies };
  std::vector<Makes> makes;  // by stack
  for (const PythonStack& stack : model.python_stacks) {
    makes.push_back(Makes::kNothing);
    for (const PythonFrame& frame : stack.frames) {
      const std::string &file = model.names[frame.file], &function = model.names[frame.function];
      if (absl::EndsWith(file, "/copy.py") && function == "deepcopy") makes.back() = Makes::kCopies;
      if (absl::EndsWith(file, "/torch/nn/init.py") || absl::EndsWith(function, "reset_parameters") ||
          absl::EndsWith(function, "load_state_dict"))
        makes.back() = Makes::kFills;
    }
  }
  const auto makes_of = [&](ScopeIndex scope) {
    return scopes.look[scope].stack == kNone ? Makes::kNothing : makes[scopes.look[scope].stack];
  };
  struct Made {
    double ns = 0;
    std::map<StackIndex, double> by_stack;
    std::set<std::pair<ProcessIndex, size_t>> steps;
  };
  std::map<Makes, Made> all;
  ScopeIndex last = kNone;  // by the same thread
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    if (!facts.IsOutermostOp(scope)) continue;
    const bool is_next = last != kNone && scopes.thread[last] == scopes.thread[scope];
    const int64_t before_ns = is_next ? scopes.start_ns[scope] - scopes.EndOf(last) : 0;
    const Makes kind = makes_of(scope);
    const bool goes_on = is_next && kind == Makes::kCopies && makes_of(last) == kind && before_ns < kBetweenCopiesNs;
    last = scope;
    const size_t step = kind == Makes::kNothing ? kNone : facts.StepOfScope(scope);
    if (step == kNone) continue;
    const auto own_ns = static_cast<double>(scopes.duration_ns[scope] + (goes_on ? before_ns : 0));
    Made& made = all[kind];
    made.ns += own_ns / facts.count();
    made.by_stack[scopes.look[scope].stack] += own_ns;
    made.steps.insert({model.threads[scopes.thread[scope]].process, step});
  }
  std::vector<Finding> findings;
  for (const auto& [kind, made] : all) {
    if (static_cast<double>(made.steps.size()) < kEachStep * facts.count() ||
        !facts.IsAtLeast(made.ns, 100 * kLeastPart))
      continue;
    const bool copies = kind == Makes::kCopies;
    const double gain_ns = std::min(made.ns, facts.step_ns());
    findings.push_back(
        {.line = facts.LineOfStack(MostOf(made.by_stack)->first),
         .sentence = absl::StrCat(copies ? "copy.deepcopy copies tensors, as of a module or its state_dict, in each "
                                         : "Parameters are filled or loaded, as where a network is made, in each ",
                                  facts.StepNoun(), ": ", facts.PartOfStep(gain_ns),
                                  copies ? "." : ", besides what Python does for it."),
         .gain_ns = gain_ns,
         .evidence = copies ? "operations that copy.deepcopy calls, and the time between them"
                            : "operations that torch/nn/init.py, reset_parameters or load_state_dict call",
         .advice = copies ? "Copy more rarely (once an epoch, or only what is better), or into tensors that are there: "
                            "torch._foreach_copy_(kept, list(model.parameters()))."
                          : "Make the network once, before the loop, and use it again; weights that change can be "
                            "copied into it."});
  }
  return findings;
}

// TensorFlow's graphs of sessions (TensorFlow 1): steps run operations of names that no step before has run.
std::vector<Finding> FindGrowingGraph(const StepFacts& facts) {
  constexpr double kMostSteps = 0.8, kLeastPercentOutside = 10;
  const TraceModel& model = facts.model();
  if (!facts.HasSteps() || !facts.Uses("TensorFlow")) return {};
  std::set<NameIndex> known;
  std::map<size_t, std::string> first;  // by step: a new operation
  bool has_sessions = false;
  for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
    const ScopeLook& look = model.scopes.look[scope];
    has_sessions |= model.names[look.name] == "SessionRun";
    if (look.kind != ScopeKind::kGraphNode || !known.insert(look.name).second) continue;
    if (const size_t step = facts.StepOfScope(scope); step != kNone) first.try_emplace(step, model.names[look.name]);
  }
  if (!has_sessions || static_cast<double>(first.size()) < kMostSteps * facts.count()) return {};
  const double ns = facts.Sum([](const WorkItem& item) { return item.doing.activity == ActivityKind::kNotSeen; });
  if (!facts.IsAtLeast(ns, kLeastPercentOutside)) return {};
  const std::vector<GapLines>& gaps = GapLinesOf(facts);
  return {
      {.where = "graph",
       .line = gaps.empty() ? "" : gaps.front().text,
       .sentence = absl::StrFormat(
           "The program adds operations to TensorFlow's graph in each %s (%d of %.0f run a new one, as %s), and the "
           "session prepares the graph again: Python and the session take %s.",
           facts.StepNoun(), first.size(), facts.count(), first.rbegin()->second, facts.PartOfStep(ns)),
       .gain_ns = ns,
       .evidence = "operations of the graph whose names no step before has; time that is not seen",
       .advice = "Build the graph before the loop: what changes is a placeholder (feed_dict) or a variable, tf.assign "
                 "and all operations are made once; graph.finalize() raises where one is added."}};
}

// Processes of one program that begin one behind the other: each imports, opens and loads again before it computes.
std::vector<Finding> FindProcessesMadeAnew(const StepFacts& facts) {
  constexpr size_t kLeastProcesses = 6;
  constexpr double kLeastOfRun = 0.2;
  const TraceModel& model = facts.model();
  std::map<ProcessIndex, Interval> recorded;  // from the first call or operation to the last one
  const auto note = [&](ThreadIndex thread, int64_t start_ns, int64_t duration_ns) {
    Interval& interval = recorded.try_emplace(model.threads[thread].process, Interval{INT64_MAX, 0}).first->second;
    interval.start_ns = std::min(interval.start_ns, start_ns);
    interval.end_ns = std::max(interval.end_ns, start_ns + duration_ns);
  };
  const CallColumns& calls = model.calls;
  const ScopeColumns& scopes = model.scopes;
  for (CallIndex call = 0; call < calls.size(); ++call)
    note(calls.thread[call], calls.start_ns[call], calls.duration_ns[call]);
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope)
    note(scopes.thread[scope], scopes.start_ns[scope], scopes.duration_ns[scope]);
  std::map<uint32_t, std::vector<Interval>> by_parent;  // from a child's beginning to its last call
  std::map<uint32_t, double> before_ns;
  for (const auto& [process, interval] : recorded) {
    const ProcessInfo& info = model.processes[process];
    by_parent[info.parent_pid].push_back({info.start_ns, interval.end_ns});
    before_ns[info.parent_pid] += static_cast<double>(interval.start_ns - info.start_ns);
  }
  const auto most = MostOf(by_parent, [](const auto& children) { return children.size(); });
  if (most == by_parent.end() || most->second.size() < kLeastProcesses) return {};
  // A program that computes itself tells by slow-lines and longer-steps what its children cost.
  for (const auto& [process, interval] : recorded) {
    if (model.processes[process].pid == most->first) return {};
  }
  const std::vector<Interval>& children = most->second;
  double alive_ns = 0;
  int64_t start_ns = INT64_MAX, end_ns = 0;
  int64_t at_once = 0;
  for (const Interval& child : children) {
    alive_ns += static_cast<double>(child.end_ns - child.start_ns);
    start_ns = std::min(start_ns, child.start_ns);
    end_ns = std::max(end_ns, child.end_ns);
    at_once = std::max(at_once, static_cast<int64_t>(absl::c_count_if(children, [&](const Interval& other) {
                         return other.start_ns <= child.start_ns && child.start_ns < other.end_ns;
                       })));
  }
  const auto count = static_cast<double>(children.size()), first_ns = before_ns[most->first];
  if (2 * static_cast<double>(at_once) > count || first_ns < kLeastOfRun * alive_ns) return {};
  const auto whole_ns = static_cast<double>(end_ns - start_ns);
  return {
      {.where = "processes",
       .sentence = absl::StrFormat(
           "%d processes begin one behind the other, %d at a time at most: each takes %s until its last recorded call, "
           "%s of it until the first one (imports, loading).",
           children.size(), at_once, HumanTime(alive_ns / count), HumanTime(first_ns / count)),
       .gain_ns = first_ns * whole_ns / std::max(alive_ns, whole_ns) / facts.count(),
       .evidence = "the processes' traces: when they begin, call first and last",
       .advice = "Start processes once and keep them (one Pool or ProcessPoolExecutor for all tasks, without "
                 "maxtasksperchild); fork, or forkserver with set_forkserver_preload, does not import again.",
       .whole_ns = whole_ns / facts.count(),
       .whole = "the time from the first to the last"}};
}

std::vector<Finding> FindMadeAnew(const StepFacts& facts) {
  if (std::vector<Finding> graph = FindGrowingGraph(facts); !graph.empty()) return graph;
  if (std::vector<Finding> processes = FindProcessesMadeAnew(facts); !processes.empty()) return processes;
  if (std::vector<Finding> iterators = FindIteratorsMadeAnew(facts); !iterators.empty()) return iterators;
  if (facts.HasSteps() && facts.UsesTorch() && !facts.HasGpuTimes()) {
    if (std::vector<Finding> modules = FindModulesMadeAnew(facts); !modules.empty()) return modules;
  }
  const Pipelines pipelines = PipelinesIn(facts);
  if (!AreMany(facts, pipelines) || pipelines.ns < kLeastPart * pipelines.whole_ns) return {};
  std::string called;
  if (pipelines.stack != kNone) called = CalledBy(facts.model(), pipelines.stack, facts.places()[pipelines.stack]);
  const std::string step = facts.StepNoun();
  return {{.where = "input",
           .line = facts.LineOfStack(pipelines.stack),
           .sentence = absl::StrFormat("%s makes a new pipeline of tf.data %.2g times a %s, %s each from its first "
                                       "operation until its iterator is there: %s of %s%s (%.0f %%).",
                                       called.empty() ? "The program" : called, pipelines.count, step,
                                       HumanTime(pipelines.ns / pipelines.count), HumanTime(pipelines.ns),
                                       HumanTime(pipelines.whole_ns),
                                       facts.HasSteps() ? absl::StrCat(" from one ", step, " to the next") : "",
                                       100 * pipelines.ns / pipelines.whole_ns),
           .gain_ns = pipelines.ns,
           .basis = GainBasis::kMeasured,
           .confidence = Confidence::kHigh,
           .evidence = "scopes \"EagerLocalExecute: …Dataset\" to \"EagerLocalExecute: MakeIterator\"",
           .advice = "Call the model itself (model(x), in a tf.function; train_on_batch, test_on_batch) instead of "
                     "predict, evaluate or fit for each batch, or give one such call many rows at once; make a tf.data "
                     "pipeline once, before the loop.",
           .whole_ns = pipelines.whole_ns}};
}

}  // namespace dlhook::analyzer::findings
