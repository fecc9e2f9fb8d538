// Rule debug-switch: a switch for finding errors is on, and makes each operation do more.
//
// PyTorch's anomaly detection stores a stack for each operation in the forward pass and looks for NaN in each gradient in the
// backward pass: its `isnan` and `_is_any_true` follow the nodes of the graph. Keras with run_eagerly calls each operation
// of a step from Python: of its compiled step only the graph is run. Others are variables of the environment.
// The gain: at most all that is not in a library's call.

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "analyzer/findings/rules.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kDebugSwitchPercent = 3;
constexpr double kLeastChecks = 3;     // of gradients, in a step
constexpr double kLeastEagerOps = 20;  // in a step
constexpr absl::string_view kKerasTrainer = "keras/src/backend/tensorflow/trainer.py";
constexpr std::array<absl::string_view, 4> kKerasSteps = {".train_step", ".test_step", ".predict_step",
                                                          ".one_step_on_data"};

struct DebugSetting {
  const char* variable;
  const char* does;
  bool of_gpu;
};
constexpr std::array<DebugSetting, 7> kDebugSettings = {
    {{"CUDA_LAUNCH_BLOCKING", "the host waits for each kernel that it launches", true},
     {"PYTORCH_NO_CUDA_MEMORY_CACHING", "each tensor on the GPU is allocated by the driver", true},
     {"JAX_DISABLE_JIT", "JAX runs each operation by itself", false},
     {"JAX_DEBUG_NANS", "JAX waits for each result and looks for NaN in it", false},
     {"JAX_ENABLE_CHECKS", "JAX checks what it traces", false},
     {"MKL_VERBOSE", "MKL prints a line for each call", false},
     {"PYTHONTRACEMALLOC", "Python stores a stack for each of its allocations", false}}};

bool IsOn(const std::string& value) {
  const std::string lower = absl::AsciiStrToLower(value);
  return !lower.empty() && lower != "0" && lower != "false" && lower != "off" && lower != "no";
}

Finding DebugFinding(const StepFacts& facts, std::string where, std::string sentence, std::string advice) {
  Finding finding;
  finding.where = std::move(where);
  finding.gain_ns = facts.Sum(
      [](const WorkItem& item) { return !item.IsCall() && item.doing.activity != ActivityKind::kDataLoading; });
  finding.sentence = absl::StrCat(sentence, ": all but the libraries' calls takes ", facts.PartOfStep(finding.gain_ns),
                                  ", an unknown part of it for that.");
  finding.advice = std::move(advice);
  finding.basis = GainBasis::kUpperBound;
  finding.confidence = Confidence::kMedium;
  return finding;
}

}  // namespace

EagerOps EagerOpsOf(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  std::vector<bool> is_of_keras(model.python_stacks.size());
  for (size_t stack = 0; stack < is_of_keras.size(); ++stack) {
    const std::vector<PythonFrame>& frames = model.python_stacks[stack].frames;
    is_of_keras[stack] = std::any_of(frames.begin(), frames.end(), [&](const PythonFrame& frame) {
      return absl::EndsWith(model.names[frame.file], kKerasTrainer) &&
             std::any_of(kKerasSteps.begin(), kKerasSteps.end(),
                         [&](absl::string_view step) { return absl::EndsWith(model.names[frame.function], step); });
    });
  }
  EagerOps ops;
  for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
    const ScopeLook& look = model.scopes.look[scope];
    const bool is_op = absl::StartsWith(model.names[look.name], kEagerOp);
    const bool is_of_step = look.stack != kNone && is_of_keras[look.stack];
    if (!is_op && (!is_of_step || ops.of_keras)) continue;
    const ProcessIndex process = model.threads[model.scopes.thread[scope]].process;
    if (facts.StepAt(process, model.scopes.start_ns[scope]) == kNone) continue;
    ops.count += is_op ? 1 / facts.count() : 0;
    ops.of_keras = ops.of_keras || is_of_step;
  }
  return ops;
}

std::vector<Finding> FindDebugSwitch(const StepFacts& facts) {
  std::vector<Finding> findings;
  double checks = 0;
  for (const auto& [name, count] : facts.counted().ops) checks += name == "aten::_is_any_true" ? count : 0;
  if (checks >= kLeastChecks && facts.steps().kind == StepKind::kTraining) {
    findings.push_back(DebugFinding(
        facts, "autograd",
        absl::StrFormat("PyTorch's anomaly detection is on: it stores the stack of each operation and looks for NaN in "
                        "gradients %.0f times a %s",
                        checks, facts.StepNoun()),
        "Turn it off, except to find a NaN: torch.autograd.set_detect_anomaly(False), no detect_anomaly() around the "
        "loop, Trainer(detect_anomaly=False)."));
    findings.back().evidence = "table ops: aten::isnan and aten::_is_any_true behind the nodes of the backward pass";
  }
  const EagerOps eager = facts.HasSteps() && facts.Uses("TensorFlow") ? EagerOpsOf(facts) : EagerOps();
  if (eager.of_keras && eager.count >= kLeastEagerOps) {
    findings.push_back(
        DebugFinding(facts, "run_eagerly",
                     absl::StrFormat("Keras runs its model eagerly: Python calls %.0f operations one by one in each %s",
                                     eager.count, facts.StepNoun()),
                     "Compile it, except to debug: model.compile(..., run_eagerly=False), without "
                     "tf.config.run_functions_eagerly(True)."));
    findings.back().evidence = "table work: EagerLocalExecute in each step, called by train_step of Keras";
  }
  for (const DebugSetting& setting : kDebugSettings) {
    const std::string value = facts.Setting(setting.variable);
    if (!IsOn(value) || (setting.of_gpu && !facts.HasGpuTimes())) continue;
    findings.push_back(DebugFinding(facts, absl::StrCat(setting.variable, "=", value),
                                    absl::StrCat(setting.variable, "=", value, " is set: ", setting.does),
                                    absl::StrCat("Unset ", setting.variable, ", except to find errors.")));
    findings.back().evidence = "table summary: the variables of the environment";
  }
  std::erase_if(findings,
                [&](const Finding& finding) { return !facts.IsAtLeast(finding.gain_ns, kDebugSwitchPercent); });
  return findings;
}

}  // namespace dlhook::analyzer::findings
