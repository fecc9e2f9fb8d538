// Rule python-bound: Python, and the framework's overhead between Python and the computation, take a large part of the
// step. Between operations a program may also wait, for a lock, a file or another thread: the time in which the thread had
// nothing to run is left out, and what collective operations of Gloo take: they wait for other ranks.
// Numbers that are taken out of tensors one by one are a sure cause: they count with what the framework does for them, and
// on a busy machine as part of the time that ran: short gaps have hardly any wait for a processor, the step has.
// Samples tell whether Python computed there or native code (generated, or of a library without hooks), which is left out.
// Python's time decides. If the operations are tiny, their time is mostly overhead, too, and counts as gain (64
// examples one by one, then as one batch: a step went from 3.04 ms to 0.08 ms, torch 2.13).

#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kPythonBoundPercent = 20;
constexpr double kTinyPercent = 10;          // least part of Python if the operations are tiny …
constexpr double kTinyWholePercent = 50;     // … and of Python and the operations together, if no cause is sure
constexpr double kAsleepPercent = 1;         // is said
constexpr double kPythonBoundLeastOps = 20;  // framework ops per step
constexpr double kShortOpNs = 100'000;       // mean time from one op to the next: longer gaps are not overhead
constexpr std::array<absl::string_view, 8> kFrameworkCode = {"torch",         "libtorch", "libc10", "tensorflow",
                                                             "libtensorflow", "jax",      "libjax", "libmxnet"};
constexpr double kLeastNumbers = 64;  // taken out of tensors in a step …
constexpr double kNumbersPart = 0.1;  // … of all operations
constexpr double kLeastCollectives = 8;
constexpr double kLeastRowCalls = 8;
constexpr double kTinyOpNs = 5'000;  // mean time in the framework, per op that computes next to nothing
constexpr double kLargeOpNs = 20'000;
constexpr double kManyOps = 1'000;  // of a step: then tiny ones are a loss without Python's part …
constexpr double kLeastCalledPart =
    0.02;  // … if Python calls so many of them; others are in these, or in their gradients

// Recording a scope takes time around it: between operations, or, of a scope in another one, in the framework.
double OwnCost(const StepFacts& facts, bool with_inner_scopes) {
  const ScopeColumns& scopes = facts.model().scopes;
  return CostOfScopes(facts, [&](ScopeIndex scope) {
    const ScopeIndex outer = scopes.parent[scope];
    const bool is_outer = outer == kNone || scopes.look[outer].kind == ScopeKind::kUserRange;
    return (is_outer || with_inner_scopes) && facts.attribution().of_scope[scope].direction != LayerDirection::kUpdate;
  });
}

// Time of a step in which the thread neither ran nor wanted to, except where it is known to wait. Its processor time, if
// it is the first one; else that of all threads, which is more. Some of it may have passed in operations.
double AsleepNs(const StepFacts& facts) {
  const MachineLoad& load = facts.load();
  if (!load.is_known) return 0;
  const bool is_first = load.first_thread_cpu_ns > 0 && facts.FirstThreadsWorkAlone();
  const double known_ns = facts.Sum([](const WorkItem& item) {
    return item.doing.activity == ActivityKind::kWaiting || item.doing.activity == ActivityKind::kDataLoading ||
           IsCommunication(item);
  });
  const double cpu_ns = is_first ? load.first_thread_cpu_ns : load.cpu_ns;
  return std::max(facts.step_ns() - cpu_ns - load.waiting_ns - known_ns, 0.0);
}

// Operations that Python calls in the steps: in no other one, and not by a backward pass, whose nodes have the line of the call. One
// of a recurrent network has thousands in it.
void ForEachCalled(const StepFacts& facts, const std::function<void(const std::string&)>& visit) {
  const ScopeColumns& scopes = facts.model().scopes;
  const auto& places = facts.places();
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    const auto& [name, kind, stack] = scopes.look[scope];
    if (!facts.IsOutermostOp(scope) || stack == kNone || places[stack].is_in_backward) continue;
    if (!IsInBackward(facts.model(), scope) && facts.StepOfScope(scope) != kNone) visit(facts.model().names[name]);
  }
}

double CalledByPython(const StepFacts& facts) {
  double called = 0;
  ForEachCalled(facts, [&](const std::string&) { called += 1 / facts.count(); });
  return called;
}

// Of the time between operations: that of Python and of the framework's own libraries, by samples; empty: there are none.
std::optional<double> PythonsShare(const StepFacts& facts) {
  int64_t samples = 0;
  double python_ns = 0, all_ns = 0;
  std::map<ActivityKind, SampleSums> by_kind = facts.SamplesByKind();
  for (const auto& [place, sum] : by_kind[ActivityKind::kNotSeen]) {
    const std::string& owner = facts.Derived<SamplePlaces>().name(place);
    const bool is_frameworks =
        absl::c_any_of(kFrameworkCode, [&](absl::string_view begin) { return absl::StartsWith(owner, begin); });
    samples += sum.samples;
    all_ns += static_cast<double>(sum.cpu_ns);
    if (owner == "Python" || is_frameworks) python_ns += static_cast<double>(sum.cpu_ns);
  }
  if (samples < kFewestOfRow || all_ns <= 0) return std::nullopt;
  return python_ns / all_ns;
}

// Where most of the short gaps between operations lie.
struct Between {
  const GapLines* longest = nullptr;
  bool is_in_model = false;
  double undisturbed = 1;  // part of the time in which hardly any program interrupted it
};

Between WhereBetween(const StepFacts& facts) {
  Between between;
  double in_model_ns = 0, all_ns = 0;
  double longest_ns = 0, short_ns = 0, gaps_ns = 0;
  for (const GapLines& lines : GapLinesOf(facts)) {
    const double ns = lines.ns - lines.stretch_ns - lines.update_ns;
    if (ns > longest_ns) {
      longest_ns = ns;
      between.longest = &lines;
    }
    all_ns += ns;
    short_ns += lines.short_ns;
    gaps_ns += lines.ns;
    in_model_ns += lines.module.empty() ? 0 : ns;
  }
  between.is_in_model = facts.model().python_stacks.empty() || (all_ns > 0 && 2 * in_model_ns >= all_ns);
  if (gaps_ns > 0) between.undisturbed = short_ns / gaps_ns;
  return between;
}

// Numbers that Python takes out of tensors one by one, not an operation of the framework, if they are many.
double NumbersOneByOne(const StepFacts& facts, double ops) {
  double numbers = 0;
  if (facts.TimesOf("aten::item") >= kLeastNumbers) {
    ForEachCalled(facts, [&](const std::string& name) {
      numbers += name == "aten::item" || name == "aten::is_nonzero" ? 1 / facts.count() : 0;
    });
  }
  return numbers >= std::max(kLeastNumbers, kNumbersPart * ops) ? numbers : 0;
}

// `line`: where it is known better.
std::string AdviceFor(const StepFacts& facts, double ops, bool is_in_model, std::string& line) {
  const auto find_line = [&](const char* name) {
    const auto found = SumNamedOperations(
        facts, [&](const std::string& op) { return op == name ? 1 : 0; }, [](int kind, auto, auto) { return kind; });
    if (!found.contains(1)) return;
    NamedOperations named = found.at(1);
    named.by_layer.clear();  // that of a layer is where the layer was called
    if (const std::string own = named.Line(facts); !own.empty()) line = own;
  };
  const std::string step = facts.StepNoun();
  if (const double numbers = NumbersOneByOne(facts, ops); numbers > 0) {
    find_line("item");
    return absl::StrFormat(
        "Numbers are taken out of tensors one by one, %.0f times a %s (item(), float(), a loop over a tensor, printing "
        "one): compute on the whole tensor, or tensor.tolist() once.",
        numbers, step);
  }
  if (const double reductions = facts.TimesOf("c10d::allreduce_");
      reductions >= kLeastCollectives && !Wraps(facts.model(), "DistributedDataParallel")) {
    find_line("allreduce_");
    return absl::StrFormat(
        "Tensors are reduced over the ranks one by one, %.0f times a %s: DistributedDataParallel joins gradients in "
        "buckets; else one all_reduce of all of them (torch.cat, or _coalescing_manager).",
        reductions, step);
  }
  if (const double calls = CallsOfOneRow(facts); facts.UsesTorch() && calls >= kLeastRowCalls) {
    return absl::StrFormat(
        "The model runs %.0f times a %s, for one row each: if they do not depend on each other, call it once with all "
        "(torch.stack), a batch.",
        calls, step);
  }
  if (facts.UsesTorch() && !FindOpByOp(facts).empty()) return "";  // that rule tells it
  return facts.UsesTorch() && is_in_model
             ? "Use a larger batch or torch.compile(model): fewer and larger operations."
             : "Do more per call: a larger batch, whole arrays instead of loops over elements.";
}

}  // namespace

std::vector<Finding> FindPythonBound(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.HasGpuTimes()) return {};
  const double ops = facts.counted().AllOps() - facts.counted().graph_ops;  // which Python does not start
  // Python in the optimizer belongs to optimizer-per-tensor.
  const auto is_python = [](const WorkItem& item) {
    return item.doing.activity == ActivityKind::kNotSeen && item.doing.direction != LayerDirection::kUpdate &&
           !IsCommunication(item);
  };
  // Time waiting for a processor, which is part of all intervals, doesn't count.
  const double running = 1 - std::clamp(facts.load().waiting_ns / facts.step_ns(), 0.0, 0.95);
  // A few large operations are no overhead, whatever the mean.
  const auto is_framework = [&](const WorkItem& item) {
    const bool is_large = item.begun > 0 && running * item.ns / item.begun > kLargeOpNs;
    return item.scope != nullptr && item.doing.direction != LayerDirection::kUpdate && !is_large;
  };
  const double asleep_ns = AsleepNs(facts), stretches_ns = StretchesNs(facts);
  const std::optional<double> share = PythonsShare(facts);
  const double ns = std::max(facts.Sum(is_python) - std::max(asleep_ns, stretches_ns), 0.0) * share.value_or(1),
               framework_ns = facts.Sum(is_framework);
  if (ops < kPythonBoundLeastOps || running * ns / ops > kShortOpNs) return {};
  const Between between = WhereBetween(facts);
  const bool is_sure = NumbersOneByOne(facts, ops) > 0;
  const auto is_at_least = [&](double part_ns, double percent) {
    return facts.IsAtLeast(part_ns * (is_sure ? std::max(between.undisturbed / running, 1.0) : 1), percent);
  };
  const double whole_percent = is_sure ? kPythonBoundPercent : kTinyWholePercent;
  const bool are_tiny = running * framework_ns / ops <= kTinyOpNs;
  const bool are_pythons = ops >= kManyOps && CalledByPython(facts) >= kLeastCalledPart * ops;
  const bool tiny_ops_are_all =
      are_tiny && (are_pythons || is_at_least(ns, kTinyPercent)) && is_at_least(ns + framework_ns, whole_percent);
  if (!is_at_least(ns, kPythonBoundPercent) && !tiny_ops_are_all) return {};
  Finding finding = {
      .where = between.is_in_model ? facts.LayersOf(is_framework) : "",
      .line = between.longest == nullptr ? "" : between.longest->text,
      .sentence = absl::StrCat(share ? "Python" : "Python or native code",
                               absl::StrFormat(" between %.0f operations takes ", ops), facts.PartOfStep(ns),
                               are_tiny ? absl::StrFormat("; the framework takes %s for them, %s each.",
                                                          HumanTime(framework_ns), HumanTime(framework_ns / ops))
                                        : ".",
                               between.longest == nullptr ? "" : PackageFunctionText(*between.longest)),
      .gain_ns = are_tiny ? ns + framework_ns : ns,
      .evidence =
          share
              ? absl::StrFormat(
                    "table accounting: rows \"sampled\"; %.0f %% of the samples there are Python's and the framework's",
                    100 * *share)
              : "table accounting: rows \"not seen\", with the lines they lie between; whether Python computed there, "
                "dlhook run --sample tells"};
  if (facts.IsAtLeast(asleep_ns, kAsleepPercent)) {
    absl::StrAppend(&finding.evidence, "; ", HumanTime(asleep_ns), " in which the thread slept were left out");
  }
  SubtractOwnCost(OwnCost(facts, are_tiny), finding);
  if (!is_at_least(finding.gain_ns, kPythonBoundPercent)) return {};
  finding.advice = AdviceFor(facts, ops, between.is_in_model, finding.line);
  if (finding.advice.empty()) return {};
  return {finding};
}

}  // namespace dlhook::analyzer::findings
