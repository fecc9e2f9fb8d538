// Rule op-by-op: the operations of a step run one by one in a framework that would compile them together: TensorFlow outside
// of tf.function, JAX outside of jit, where each costs a call from Python, a look-up and a start; and small ones in
// TensorFlow's executor (30 time steps of two recurrent layers, 5 190 operations a step: with jit_compile=True a step took
// 6 ms instead of 10, TensorFlow 2.21).
//
// Evidence: TensorFlow names the operations that Python calls; of JAX each operation runs as a program of its own, and functions
// that are differentiated are traced again each time. Keras's run_eagerly is debug-switch's. The gain is at most what is no
// operation's own time; in the executor, what no library computes.
//
// A short program of JAX that Python calls again and again is a loop that JAX could compile, too (lax.scan, vmap), with or
// without steps: from one run to the next, a good part of the time passes outside of its operations.

#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kOpByOpPercent = 20;
constexpr double kFewestOps = 20;         // of a step of TensorFlow
constexpr double kFewestPrograms = 8;     // of a step of JAX, which may be a part of the program's
constexpr int64_t kOpsOfProgram = 8;      // at most, those in a loop not counted: random numbers take some
constexpr double kFewestNodes = 1'000;    // of a step of TensorFlow's executor
constexpr double kLongestNodeNs = 5'000;  // in the mean, without calls of libraries
constexpr double kNodesPercent = 50;
constexpr double kLongestOpNs = 400'000;      // mean time from one to the next: a step of longer ones has other causes
constexpr int64_t kFewestCalls = 500;         // of one program, one behind the other
constexpr double kLongestOfLoopNs = 2'000;    // an operation, in the mean: steps of larger ones are a usual training
constexpr double kLoopOutsidePart = 0.3;      // of that time
constexpr double kLongestCallNs = 1'000'000;  // mean time from one to the next
constexpr double kLoopPercent = 5;            // windows of recording hold a part of the run

bool IsWaiting(const WorkItem& item) {
  return item.doing.activity == ActivityKind::kDataLoading || item.doing.activity == ActivityKind::kWaiting;
}

// Of a mean step: without waiting for a processor.
double RunningNs(const StepFacts& facts) { return std::max(facts.step_ns() - facts.load().waiting_ns, 0.0); }

// An execution of a compiled program of JAX.
struct ProgramRun {
  int64_t start_ns = INT64_MAX;
  uint32_t first = 0;  // its first operation, of model.compiled_ops
  double ops = 0;
  int64_t outer_ops = 0;  // in no other one
  double slices = 0;      // of these: they take elements or rows of an array
  double own_ns = 0;      // in operations; of a loop: in those inside
};
using ProgramRuns = std::map<std::pair<ProcessIndex, int64_t>, ProgramRun>;  // in the order in which they begin

// "jit_dynamic_slice", "jit_squeeze": programs of JAX's own for x[i].
bool TakesElements(absl::string_view program) {
  return program == "jit_dynamic_slice" || program == "jit_squeeze" || program == "jit_gather";
}

ProgramRuns RunsOf(const TraceModel& model) {
  const ScopeColumns& scopes = model.scopes;
  ProgramRuns runs;
  std::vector<bool> has_inner(scopes.size());
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    if (scopes.look[scope].kind != ScopeKind::kXlaOp) continue;
    const CompiledLink link = CompiledLink::Of(scopes.link[scope]);
    if (link.run == 0 || link.op >= model.compiled_ops.size()) continue;
    ProgramRun& run = runs[{model.threads[scopes.thread[scope]].process, link.run}];
    if (scopes.start_ns[scope] < run.start_ns) {
      run.start_ns = scopes.start_ns[scope];
      run.first = link.op;
    }
    ++run.ops;
    run.slices += TakesElements(model.compiled_ops[link.op].program) ? 1 : 0;
    run.own_ns += static_cast<double>(scopes.duration_ns[scope]);
    const ScopeIndex parent = scopes.parent[scope];
    const bool is_inner = parent != kNone && scopes.look[parent].kind == ScopeKind::kXlaOp;
    run.outer_ops += is_inner ? 0 : 1;
    if (!is_inner || has_inner[parent]) continue;
    has_inner[parent] = true;
    run.own_ns -= static_cast<double>(scopes.duration_ns[parent]);
  }
  return runs;
}

// Programs of JAX of few operations that ran in the steps.
struct Programs {
  double runs = 0, ops = 0, slices = 0;
  std::string line;  // of the one with most runs
};

Programs ProgramsOf(const StepFacts& facts) {
  std::map<std::string, int64_t> lines;
  Programs programs;
  for (const auto& [key, run] : RunsOf(facts.model())) {
    if (run.outer_ops > kOpsOfProgram || facts.StepAt(key.first, run.start_ns) == kNone) continue;
    ++programs.runs;
    programs.ops += static_cast<double>(run.outer_ops);
    programs.slices += run.slices;
    ++lines[facts.model().compiled_ops[run.first].line];
  }
  lines.erase("");
  const auto most = MostOf(lines);
  if (most != lines.end()) programs.line = most->first;
  return programs;
}

// Runs of one program, each directly behind another one of it: from one's begin to the next one's.
struct Loop {
  std::string line;
  int64_t calls = 0;
  double ns = 0, own_ns = 0, ops = 0;  // own_ns: in operations
};

// By program.
std::map<std::string, Loop> LoopsOf(const StepFacts& facts, const ProgramRuns& runs) {
  const TraceModel& model = facts.model();
  std::map<std::string, Loop> loops;
  for (auto run = runs.begin(); run != runs.end(); ++run) {
    const auto next = std::next(run);
    if (next == runs.end() || next->first.first != run->first.first) continue;
    const CompiledOp& op = model.compiled_ops[run->second.first];
    const bool is_again = model.compiled_ops[next->second.first].program == op.program;
    if (!is_again || next->second.start_ns <= run->second.start_ns) continue;
    if (facts.HasSteps() && facts.StepAt(run->first.first, run->second.start_ns) == kNone) continue;
    Loop& loop = loops[op.program];
    if (loop.line.empty()) loop.line = op.line;
    ++loop.calls;
    loop.ns += static_cast<double>(next->second.start_ns - run->second.start_ns);
    loop.own_ns += run->second.own_ns;
    loop.ops += run->second.ops;
  }
  return loops;
}

constexpr char kElementsAdvice[] =
    "single elements of an array (x[i], a loop over it): for Python np.asarray(x) once (jax.device_get), then its "
    "elements; else compute on the whole array, in jax.jit.";

Finding OpByOp(double gain_ns, std::string sentence, std::string advice) {
  return {.sentence = std::move(sentence), .gain_ns = gain_ns, .advice = std::move(advice)};
}

// Whether most operations run within a call of a tf.function, which then makes no graph.
bool RunsFunctionsEagerly(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const std::vector<bool> of_function = facts.StacksWith(
      [](const std::string& file, const std::string&) { return absl::EndsWith(file, "/polymorphic_function.py"); });
  int64_t inside = 0, all = 0;
  for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
    const ScopeLook& look = model.scopes.look[scope];
    if (look.stack == kNone || !absl::StartsWith(model.names[look.name], kEagerOp)) continue;
    inside += of_function[look.stack] ? 1 : 0;
    ++all;
  }
  return 2 * inside > all;
}

std::vector<Finding> InTensorFlow(const StepFacts& facts) {
  const EagerOps eager = EagerOpsOf(facts);
  if (eager.count < kFewestOps || eager.of_keras || RunningNs(facts) / eager.count > kLongestOpNs) return {};
  const double ns = facts.Sum([](const WorkItem& item) {
    const bool computes =
        item.IsCall() || (item.scope != nullptr && item.scope->op == "Run");  // KernelAndDeviceFunc::Run
    return !computes && !IsWaiting(item);
  });
  if (!facts.IsAtLeast(ns, kOpByOpPercent)) return {};
  Finding finding =
      OpByOp(ns,
             absl::StrFormat(
                 "Python calls %.0f operations of TensorFlow one by one in each %s: all but computing them takes %s.",
                 eager.count, facts.StepNoun(), facts.PartOfStep(ns)),
             RunsFunctionsEagerly(facts)
                 ? "It is called as a tf.function, but these run eagerly: take out "
                   "tf.config.run_functions_eagerly(True), and TensorFlow runs it as one graph."
                 : "Put @tf.function on the function that computes a step: TensorFlow then runs it as one graph.");
  const std::vector<GapLines>& gaps = GapLinesOf(facts);
  if (!gaps.empty()) finding.line = gaps.front().text;
  if (!gaps.empty() && !gaps.front().function.empty()) finding.where = gaps.front().function;
  finding.evidence = "table work: EagerLocalExecute in each step";
  return {finding};
}

// tf.map_fn: its loop is named so.
std::vector<Finding> InMapLoop(const StepFacts& facts) {
  constexpr double kManyTimes = 64;
  double times = 0;
  for (const auto& [name, count] : facts.counted().ops)
    times = absl::StrContains(name, "map/while/body") ? std::max(times, count) : times;
  const double ns = facts.Sum([](const WorkItem& item) {
    return (item.scope != nullptr || item.group->label == "map" || absl::EndsWith(item.group->label, "/map")) &&
           !IsWaiting(item);
  });
  if (times < kManyTimes || !facts.IsAtLeast(ns, kNodesPercent)) return {};
  Finding finding = OpByOp(
      ns,
      absl::StrFormat(
          "tf.map_fn runs its function %.0f times in each %s: with what TensorFlow's executor does for it, at "
          "most %s.",
          times, facts.StepNoun(), facts.PartOfStep(ns)),
      "Compute on the whole batch at once (operations broadcast), or tf.vectorized_map, which does so by itself.");
  finding.where = "map";
  finding.evidence = "table work: operations of map/while/body";
  return {finding};
}

std::vector<Finding> InExecutor(const StepFacts& facts) {
  if (std::vector<Finding> map = InMapLoop(facts); !map.empty()) return map;
  const double ops = facts.counted().graph_ops;
  const double ns = std::min(facts.Sum([](const WorkItem& item) { return item.scope != nullptr && !IsWaiting(item); }),
                             RunningNs(facts));
  if (ops < kFewestNodes || ns / ops > kLongestNodeNs) return {};
  if (!facts.IsAtLeast(ns, kNodesPercent)) return {};
  Finding finding = OpByOp(
      ns,
      absl::StrFormat("TensorFlow's executor starts %.0f small operations one by one in each %s: all but calls of "
                      "libraries takes %s, %s each.",
                      ops, facts.StepNoun(), facts.PartOfStep(ns), HumanTime(ns / ops)),
      "Have XLA join them: jit_compile=True in model.compile or tf.function; or do more in each, with a larger batch.");
  finding.where = facts.LayersOf([](const WorkItem& item) { return item.scope != nullptr; });
  finding.evidence = "table work: operations of the graph; table accounting";
  return {finding};
}

std::vector<Finding> InJax(const StepFacts& facts) {
  const Programs programs = ProgramsOf(facts);
  if (programs.runs < kFewestPrograms * facts.count()) return {};
  if (RunningNs(facts) * facts.count() / programs.runs > kLongestOpNs) return {};
  const double ns =
      facts.Sum([](const WorkItem& item) { return !item.IsCall() && item.scope == nullptr && !IsWaiting(item); });
  if (!facts.IsAtLeast(ns, kOpByOpPercent)) return {};
  Finding finding =
      OpByOp(ns,
             absl::StrFormat("JAX runs %.0f compiled programs of %.1f operations each in a %s, one for each call from "
                             "Python: what lies between them takes %s.",
                             programs.runs / facts.count(), programs.ops / programs.runs, facts.StepNoun(),
                             facts.PartOfStep(ns)),
             2 * programs.slices > programs.ops
                 ? absl::StrCat("Most of them take ", kElementsAdvice)
                 : "Put @jax.jit on the function that computes a step (around value_and_grad and the update, too): it "
                   "is then traced once, and runs as one program.");
  finding.line = programs.line;
  finding.evidence = "table work: operations of programs like jit_mul; table accounting: unattributed";
  return {finding};
}

std::vector<Finding> InJaxLoop(const StepFacts& facts) {
  const ProgramRuns runs = RunsOf(facts.model());
  const std::map<std::string, Loop> loops = LoopsOf(facts, runs);
  const auto longest = MostOf(loops, [](const auto& of) { return of.ns; });
  if (longest == loops.end()) return {};
  const auto& [program, loop] = *longest;
  const auto calls = static_cast<double>(loop.calls);
  if (loop.own_ns > kLongestOfLoopNs * loop.ops || loop.calls < kFewestCalls || loop.ns > kLongestCallNs * calls ||
      loop.ns - loop.own_ns < kLoopOutsidePart * loop.ns)
    return {};
  const bool takes_elements =
      2 * absl::c_count_if(runs, [](const auto& run) { return run.second.slices > 0; }) > loop.calls;
  const double gain_ns = std::min((loop.ns - loop.own_ns) / std::max(facts.count(), 1.0), facts.step_ns());
  if (!facts.IsAtLeast(gain_ns, kLoopPercent)) return {};
  Finding finding =
      OpByOp(gain_ns,
             absl::StrFormat("Python calls the compiled %s %d times one behind the other, as far as it was recorded: "
                             "%s from one call to the next, %s of it in its operations.",
                             program, loop.calls, HumanTime(loop.ns / calls), HumanTime(loop.own_ns / calls)),
             takes_elements ? absl::StrCat("Beside them others take ", kElementsAdvice)
                            : "Have one compiled call do many, in jax.jit: jax.lax.scan or fori_loop in place of "
                              "Python's loop over steps, jax.vmap in place of one over samples.");
  finding.where = program;
  finding.line = loop.line;
  finding.evidence = "table work: operations of that program; when its runs begin";
  return {finding};
}

}  // namespace

std::vector<Finding> FindOpByOp(const StepFacts& facts) {
  if (facts.HasGpuTimes()) return {};
  if (facts.Uses("TensorFlow")) {
    if (!facts.HasSteps()) return {};
    std::vector<Finding> findings = InTensorFlow(facts);
    return findings.empty() ? InExecutor(facts) : findings;
  }
  if (facts.UsesTorch() && facts.HasSteps()) return LoopsInTorch(facts);
  if (facts.model().compiled_ops.empty()) return {};
  std::vector<Finding> findings = facts.HasSteps() ? InJax(facts) : std::vector<Finding>();
  return findings.empty() ? InJaxLoop(facts) : findings;
}

}  // namespace dlhook::analyzer::findings
