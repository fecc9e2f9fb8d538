// Rule debug-switch: a switch for finding errors is on, and makes each operation do more.
//
// PyTorch's anomaly detection stores a stack for each operation in the forward pass and looks for NaN in each gradient in the
// backward pass: its `isnan` and `_is_any_true` follow the nodes of the graph. Keras with run_eagerly calls each operation
// of a step from Python: of its compiled step only the graph is run. Profilers and debuggers of Python run the program: theirs are
// the outermost frames. Others are variables of the environment.
// The gain: at most all that is not in a library's call.
//
// torch.distributions checks the arguments of each distribution and each value, unless Python runs with -O: its operations are told
// by the functions that call them, the gain is their time.

#include "analyzer/findings/rules.h"
#include "analyzer/io/byte_source.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kDebugSwitchPercent = 3;
constexpr double kLeastChecks = 3;     // of gradients, in a step
constexpr double kLeastEagerOps = 20;  // in a step
constexpr double kChecksPercent = 5;
constexpr double kPassedOnPercent = 10;
constexpr int64_t kBetweenChecksNs = 100'000;
constexpr absl::string_view kKerasTrainer = "keras/src/backend/tensorflow/trainer.py";
constexpr std::array<absl::string_view, 4> kKerasSteps = {".train_step", ".test_step", ".predict_step",
                                                          ".one_step_on_data"};

struct DebugSetting {
  const char* variable;
  const char* does;
  bool of_gpu;
  const char* only = "";  // if it has this value, and there are collective operations
};
constexpr std::array<DebugSetting, 11> kDebugSettings = {
    {{"CUDA_LAUNCH_BLOCKING", "the host waits for each kernel that it launches", true},
     {"PYTORCH_NO_CUDA_MEMORY_CACHING", "each tensor on the GPU is allocated by the driver", true},
     {"JAX_DISABLE_JIT", "JAX runs each operation by itself", false},
     {"JAX_DEBUG_NANS", "JAX waits for each result and looks for NaN in it", false},
     {"JAX_ENABLE_CHECKS", "JAX checks what it traces", false},
     {"TORCH_DISTRIBUTED_DEBUG", "the ranks compare each collective before it begins", false, "DETAIL"},
     {"NCCL_DEBUG", "NCCL prints what it does for each collective", true, "TRACE"},
     {"TORCHDYNAMO_DISABLE", "torch.compile leaves all as it is", false},
     {"PYTHONDEVMODE", "Python checks its memory and warns", false},
     {"MKL_VERBOSE", "MKL prints a line for each call", false},
     {"PYTHONTRACEMALLOC", "Python stores a stack for each of its allocations", false}}};

struct PythonTool {
  absl::string_view file;  // its end
  const char* name;
};
constexpr std::array<PythonTool, 7> kPythonTools = {{{"/cProfile.py", "cProfile"},
                                                     {"/profile.py", "profile"},
                                                     {"/trace.py", "trace"},
                                                     {"/pdb.py", "pdb"},
                                                     {"/kernprof.py", "line_profiler"},
                                                     {"/coverage/execfile.py", "coverage"},
                                                     {"/pydevd.py", "a debugger (pydevd)"}}};

// That runs the program; empty: none.
std::string PythonToolOf(const TraceModel& model) {
  for (const PythonStack& stack : model.python_stacks) {
    if (stack.is_cut) continue;
    for (auto frame = stack.frames.rbegin(); frame != stack.frames.rend(); ++frame) {
      const std::string& file = model.names[frame->file];
      if (!IsFrameworkFile(file)) break;  // the program begins
      for (const PythonTool& tool : kPythonTools) {
        if (absl::EndsWith(file, tool.file)) return tool.name;
      }
    }
  }
  return "";
}

// A function of torch.distributions that checks arguments or values.
bool IsCheck(const std::string& file, const std::string& function) {
  return absl::EndsWith(file, "torch/distributions/constraints.py") ||
         (absl::EndsWith(file, "torch/distributions/distribution.py") &&
          (absl::EndsWith(function, "__init__") || absl::EndsWith(function, "_validate_sample")));
}

std::vector<Finding> FindDistributionChecks(const StepFacts& facts) {
  const ScopeColumns& scopes = facts.model().scopes;
  const std::vector<bool> checks = facts.StacksWith(IsCheck);
  double ns = 0, times = 0;
  std::map<StackIndex, double> by_stack;
  int64_t last_end_ns = 0;  // of a check; 0: something else came last
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    if (!facts.IsOutermostOp(scope)) continue;
    const StackIndex stack = scopes.look[scope].stack;
    const bool is_next = last_end_ns > 0 && scopes.start_ns[scope] - last_end_ns < kBetweenChecksNs;
    const int64_t start_ns = is_next ? last_end_ns : scopes.start_ns[scope];  // Python between two is theirs
    last_end_ns = stack != kNone && checks[stack] ? scopes.EndOf(scope) : 0;
    if (last_end_ns == 0 || last_end_ns < start_ns || facts.StepOfScope(scope) == kNone) continue;
    const double own_ns = static_cast<double>(last_end_ns - start_ns) / facts.count();
    ns += own_ns;
    times += facts.model().names[scopes.look[scope].name] == "aten::_is_all_true" ? 1 / facts.count() : 0;
    by_stack[stack] += own_ns;
  }
  if (!facts.IsAtLeast(ns, kChecksPercent)) return {};
  const double gain_ns = std::min(ns, facts.step_ns());
  return {{.where = "torch.distributions",
           .line = facts.LineOfStack(MostOf(by_stack)->first),
           .sentence = absl::StrFormat("torch.distributions checks arguments and values, %.0f times a %s: %s.",
                                       std::max(times, 1.0), facts.StepNoun(), facts.PartOfStep(gain_ns)),
           .gain_ns = gain_ns,
           .basis = GainBasis::kMeasured,
           .confidence = Confidence::kHigh,
           .evidence = "operations that constraints.py and distribution.py call",
           .advice = "validate_args=False where the distribution is made, or "
                     "torch.distributions.Distribution.set_default_validate_args(False) once it works; make it once "
                     "for all rows, not for each."}};
}

// Operations that pass through Python on their way: a mode that is on, or a subclass of Tensor. torch.distributed's and the compiler's
// own are no switches. What that costs lies between operations (__torch_function__), or is a range of its own.
void FindPassedOn(const StepFacts& facts, std::vector<Finding>& findings) {
  constexpr char kDispatchMode[] = "PythonDispatchMode";
  const TraceModel& model = facts.model();
  std::vector<std::string> by;  // by stack
  for (const PythonStack& stack : model.python_stacks) {
    by.emplace_back();
    for (const PythonFrame& frame : stack.frames) {
      const std::string &file = model.names[frame.file], &function = model.names[frame.function];
      if (absl::StrContains(file, "/torch/distributed/") || absl::StrContains(file, "/_subclasses/")) continue;
      if (absl::EndsWith(function, "__torch_function__")) by.back() = absl::StrCat(function, " (", BaseName(file), ")");
    }
  }
  double all = 0, passed = 0;  // outermost ones that Python calls, in a step
  std::map<std::string, double> times;
  const ScopeColumns& scopes = model.scopes;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    const StackIndex stack = scopes.look[scope].stack;
    if (!facts.IsOutermostOp(scope) || stack == kNone || IsInBackward(model, scope)) continue;
    if (facts.StepOfScope(scope) == kNone) continue;
    all += 1 / facts.count();
    if (by[stack].empty()) continue;
    passed += 1 / facts.count();
    ++times[by[stack]];
  }
  const double dispatched = facts.TimesOf(kDispatchMode);
  const bool by_mode = dispatched > passed;
  if (all == 0 || 2 * std::max(dispatched, passed) < all) return;
  const double ns = facts.Sum([&](const WorkItem& item) {
    const bool is_mode = item.scope != nullptr && item.scope->op == kDispatchMode;
    return by_mode ? is_mode : item.doing.activity == ActivityKind::kNotSeen;
  });
  if (!facts.IsAtLeast(ns, kPassedOnPercent)) return;
  const std::string where = by_mode ? kDispatchMode : MostOf(times)->first;
  findings.push_back(
      {.where = where,
       .sentence = absl::StrFormat("%.0f operations of a %s pass through Python on their way (%s): %s%s.",
                                   std::max(dispatched, passed), facts.StepNoun(), where,
                                   by_mode ? "" : "what lies between them takes ", facts.PartOfStep(ns)),
       .gain_ns = ns,
       .evidence =
           by_mode ? "table work: these ranges" : "Python's stacks of the operations; table accounting, not seen",
       .advice = by_mode
                     ? "A TorchDispatchMode is on (FlopCounterMode, a logging or debugging mode): use it for one step."
                     : "A subclass of Tensor (fastai's) is computed with: x.as_subclass(torch.Tensor) before the "
                       "network; or a mode is on: torch.set_default_device(None) once the network is made."});
}

// Hooks on gradients that look at their values: numbers are read within nodes of the backward pass. Their own Python is between.
void FindWatchedGradients(const StepFacts& facts, std::vector<Finding>& findings) {
  constexpr double kFewestRead = 4;
  const ScopeColumns& scopes = facts.model().scopes;
  double numbers = 0;
  std::map<ScopeIndex, double> nodes;  // nanoseconds
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    if (facts.model().names[scopes.look[scope].name] != "aten::item" || facts.StepOfScope(scope) == kNone) continue;
    ScopeIndex node = kNone;  // the outermost: hooks run before the node itself
    for (ScopeIndex around = scopes.parent[scope]; around != kNone; around = scopes.parent[around]) {
      const bool is_node = scopes.look[around].kind == ScopeKind::kBackwardNode ||
                           absl::StartsWith(facts.model().names[scopes.look[around].name], "autograd::engine::");
      if (is_node) node = around;
    }
    if (node == kNone) continue;
    numbers += 1 / facts.count();
    nodes[node] = static_cast<double>(scopes.duration_ns[node]) / facts.count();
  }
  double ns = 0;
  for (const auto& [node, node_ns] : nodes) ns += node_ns;
  if (numbers < kFewestRead || !facts.IsAtLeast(ns, kPassedOnPercent)) return;
  findings.push_back(
      {.where = "hooks on gradients",
       .sentence =
           absl::StrFormat("Hooks on gradients read %.0f numbers of tensors in a backward pass: the nodes of the "
                           "graph in which they run take %s.",
                           numbers, facts.PartOfStep(ns)),
       .gain_ns = ns,
       .evidence = "aten::item within nodes of the backward pass",
       .advice = "Watch gradients (histograms, norms; wandb.watch, register_hook) in each 100th step, or not at all."});
}

bool IsOn(const std::string& value) {
  const std::string lower = absl::AsciiStrToLower(value);
  return !lower.empty() && lower != "0" && lower != "false" && lower != "off" && lower != "no";
}

}  // namespace

EagerOps EagerOpsOf(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  const std::vector<bool> is_of_keras = facts.StacksWith([](const std::string& file, const std::string& function) {
    return absl::EndsWith(file, kKerasTrainer) &&
           absl::c_any_of(kKerasSteps, [&](absl::string_view step) { return absl::EndsWith(function, step); });
  });
  EagerOps ops;
  for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
    const ScopeLook& look = model.scopes.look[scope];
    const bool is_op = absl::StartsWith(model.names[look.name], kEagerOp);
    const bool is_of_step = look.stack != kNone && is_of_keras[look.stack];
    if (!is_op && (!is_of_step || ops.of_keras)) continue;
    if (facts.StepOfScope(scope) == kNone) continue;
    ops.count += is_op ? 1 / facts.count() : 0;
    ops.of_keras = ops.of_keras || is_of_step;
  }
  return ops;
}

std::vector<Finding> FindDebugSwitch(const StepFacts& facts) {
  std::vector<Finding> findings = FindDistributionChecks(facts);
  const double ns = facts.Sum(
      [](const WorkItem& item) { return !item.IsCall() && item.doing.activity != ActivityKind::kDataLoading; });
  if (!facts.IsAtLeast(ns, kDebugSwitchPercent)) return findings;
  const auto add = [&](std::string where, absl::string_view does, std::string advice, std::string evidence) {
    findings.push_back({.where = std::move(where),
                        .sentence = absl::StrCat(does, ": all but the libraries' calls takes ", facts.PartOfStep(ns),
                                                 ", an unknown part of it for that."),
                        .gain_ns = ns,
                        .evidence = std::move(evidence),
                        .advice = std::move(advice)});
  };
  const double checks = facts.TimesOf("aten::_is_any_true");
  if (checks >= kLeastChecks && facts.steps().kind == StepKind::kTraining) {
    add("autograd",
        absl::StrFormat("PyTorch's anomaly detection is on: it stores the stack of each operation and looks for NaN in "
                        "gradients %.0f times a %s",
                        checks, facts.StepNoun()),
        "Turn it off, except to find a NaN: torch.autograd.set_detect_anomaly(False), no detect_anomaly() around the "
        "loop, Trainer(detect_anomaly=False).",
        "table ops: aten::isnan and aten::_is_any_true behind the nodes of the backward pass");
  }
  const EagerOps eager = facts.HasSteps() && facts.Uses("TensorFlow") ? EagerOpsOf(facts) : EagerOps();
  if (eager.of_keras && eager.count >= kLeastEagerOps) {
    add("run_eagerly",
        absl::StrFormat("Keras runs its model eagerly: Python calls %.0f operations one by one in each %s", eager.count,
                        facts.StepNoun()),
        "Compile it, except to debug: model.compile(..., run_eagerly=False), without "
        "tf.config.run_functions_eagerly(True).",
        "table work: EagerLocalExecute in each step, called by train_step of Keras");
  }
  if (checks < kLeastChecks) FindWatchedGradients(facts, findings);
  FindPassedOn(facts, findings);
  if (2 * facts.TimesOf(kProfilerIsOn) > 1) {
    add("torch.profiler",
        "PyTorch's profiler is on in the steps: it records each operation, if asked to with sizes, stacks and memory",
        "Profile some steps only (schedule=torch.profiler.schedule(...)), or stop it.",
        "PyTorch, asked behind each optimizer's step");
  }
  if (const std::string tool = PythonToolOf(facts.model()); !tool.empty()) {
    add(tool, absl::StrCat("Python runs the program under ", tool, ", which is called at each of its calls or lines"),
        "Run it without, except to look for errors: dlhook needs none of it.",
        "the outermost frames of Python's stacks");
  }
  // Python's profiler that the program itself switches on is in no stack: samples meet it.
  double profiler_ns = 0;
  for (const auto& [kind, samples] : facts.SamplesByKind()) {
    for (const auto& [place, sum] : samples) {
      const bool is_its = absl::StartsWith(facts.Derived<SamplePlaces>().name(place), "_lsprof");
      profiler_ns += is_its ? static_cast<double>(sum.cpu_ns) / facts.count() : 0;
    }
  }
  if (facts.IsAtLeast(profiler_ns, kDebugSwitchPercent)) {
    add("cProfile",
        absl::StrCat("Python's profiler (cProfile) is on in the steps, and is called at each call and return: its own "
                     "code alone computes for ",
                     HumanTime(profiler_ns)),
        "Profile some steps only (Profile.disable()), or none (Lightning: no profiler=\"advanced\"): dlhook needs none "
        "of it.",
        "samples in _lsprof");
  }
  const bool has_collectives = facts.counted().OpsThatBegin("c10d::") > 0;
  for (const DebugSetting& setting : kDebugSettings) {
    std::string value = facts.Setting(setting.variable);
    // The shim's name for one that the program sets itself (jax.config.update).
    const std::string own_name = absl::AsciiStrToLower(setting.variable);
    const bool is_own = value.empty() && absl::c_linear_search(facts.model().names, own_name);
    if (is_own) value = "True";
    if (!IsOn(value) || (setting.of_gpu && !facts.HasGpuTimes())) continue;
    if (*setting.only != 0 && (value != setting.only || !has_collectives)) continue;
    const std::string name = absl::StrCat(is_own ? own_name : setting.variable, "=", value);
    add(name, absl::StrCat(name, " is set: ", setting.does),
        is_own ? absl::StrCat("No jax.config.update(\"", own_name, "\", True), except to find errors.")
               : absl::StrCat("Unset ", setting.variable, ", except to find errors."),
        is_own ? "jax.config, read where XLA compiles" : "table summary: the variables of the environment");
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
