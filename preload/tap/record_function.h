// The RecordFunction tap: PyTorch reports every operator, backward node and user range through its own observers.
//
// torch.profiler uses at::addGlobalCallback in the same way. The tap registers from inside
// at::getStepCallbacksUnlessEmpty, which every operator calls, as soon as the first one does; the sequence number that
// links a backward node to its forward op is read from calls of at::RecordFunction::before. Nothing of PyTorch's C++
// runtime is used, and no layout except the callback object's.
// Thread: any application thread. This header is pure: unit-tested.
#pragma once

#include "preload/format/record.h"

namespace dlhook::inline tap {

// at::RecordScope
// clang-format off
enum class TorchScope : uint8_t {
  kFunction, kBackwardFunction, kTorchScriptFunction, kKernelFunctionDtype, kCustomClass, kBuildFeature, kLiteInterpreter,
  kUserScope, kStaticRuntimeOp, kStaticRuntimeModel, kCount
};
// clang-format on
constexpr uint32_t kTorchScopes = static_cast<uint32_t>(TorchScope::kCount);

// The kind of scope recorded for one of PyTorch's; kUnknown: not recorded. Left out are those in which a build with
// selected operators describes itself (types of kernels, features): they bracket nothing.
ScopeKind KindOfTorchScope(TorchScope scope);

// at::RecordFunctionCallback: the only C++ object passed to register. The same in the headers of PyTorch 1.13.1 and 2.6
// to 2.15. It is passed on the stack: a release with more kinds of scopes would read zeros behind it.
struct TorchCallback {
  void* (*start)(void* context,
                 const void* record_function);  // std::unique_ptr<ObserverContext>: returned through memory
  void (*end)(const void* record_function, void* context);
  double sampling_probability;
  bool scopes[kTorchScopes];
  bool needs_inputs;
  bool needs_outputs;
  bool needs_ids;
  char of_newer_releases[16];
};
static_assert(offsetof(TorchCallback, of_newer_releases) == 37 && offsetof(TorchCallback, scopes) == 24);

// A release of PyTorch, from aoti_torch_abi_version().
struct TorchVersion {
  uint32_t major;
  uint32_t minor;
};
TorchVersion TorchVersionOfAbi(uint64_t abi_version);
// The same from a text that has it behind one of these; 0.0: it has none.
constexpr char kBeforeVersionOfFile[] = "libtorch_cpu.so.";  // "libtorch_cpu.so.1.13"
constexpr char kBeforeVersionOfWheel[] = "__version__ = '";  // in the wheel's version.py: "__version__ = '2.6.0+cu124'"
TorchVersion TorchVersionIn(const char* text, const char* before);
// Releases with which the tap was tested. Others are observed, too, if a test of their observers succeeds.
bool IsTriedTorchVersion(TorchVersion version);

// The name of the range around an optimizer's step ("Optimizer.step#SGD.step").
bool EndsTrainingStep(const char* scope_name);

// The last of many values.
class LastValues {
 public:
  static constexpr uint32_t kMost = 8;

  void Add(uint64_t value) { values_[count_++ % kMost] = value; }
  uint32_t count() const { return count_; }
  // 0: none.
  uint64_t Median() const;

 private:
  uint64_t values_[kMost];
  uint32_t count_;
};

// When operators are recorded, if not always. All of the first steps, then windows of two (two, so that they include one
// whole step wherever it begins, and both halves if two optimizers alternate); without steps a part of the time.
// Windows are sixteen steps apart (light mode), or as many as keep their cost within a budget. The cost: two steps
// beside each border of a window against the two on its other side, since a busy machine's speed changes within seconds;
// without steps, how many fewer operators run in a window than in as much time behind it; at least what the observers took
// themselves. Distances vary by half, so that windows do not always, or never, meet what a program does in each tenth step. If
// all may be recorded, it is, with a pause after each 1 008 steps to measure again.
class DutyCycle {
 public:
  static constexpr uint64_t kFirstSteps = 20;
  static constexpr uint64_t kStepsPerCycle = 16;
  static constexpr uint64_t kMostStepsPerCycle = 1024;
  static constexpr uint64_t kStepsPerWindow = 2;
  static constexpr uint64_t kWindowNs = 100'000'000;        // light mode
  static constexpr uint64_t kBudgetWindowNs = 500'000'000;  // holds whole requests
  static constexpr uint64_t kWindowsPerCycle = 8;           // at least, without steps
  static constexpr uint64_t kMostWindowsPerCycle = 256;     // without steps
  static constexpr uint64_t kPatienceNs = 2'000'000'000;    // plus four times the last step: then time decides
  static constexpr uint64_t kFirstNs = 10'000'000'000;      // a budget's patience with a program without steps
  static constexpr uint64_t kPresumedPpm = 300'000;         // what recording adds until something shows it
  static constexpr uint32_t kFewestComparisons = 4;         // before all steps are recorded

  // `budget_ppm`: millionths that recording may add to steps; 0: light mode.
  void Begin(uint64_t now_ns, uint32_t budget_ppm);
  // Both return whether operators are recorded from now on. `observed_ns`: what observers took in the step.
  bool StepEnded(uint64_t now_ns, uint64_t observed_ns);
  // `operators`: that ended since the last call; `operator_ns`: what observers take for one.
  bool TimePassed(uint64_t now_ns, uint64_t operators, uint64_t operator_ns);

 private:
  void CompareSides(uint64_t took_ns, uint64_t observed_ns);
  uint64_t AddedPpm() const;
  uint64_t ShortestWindowNs() const { return budget_ppm_ == 0 ? kWindowNs : kBudgetWindowNs; }
  bool MayRecordAll(uint64_t added_ppm) const;
  void PlanCycle();
  void BeginTimeCycle(uint64_t now_ns);

  uint32_t budget_ppm_;
  uint64_t steps_;
  uint64_t place_;  // in the cycle, in steps
  uint64_t window_steps_;
  uint64_t cycle_steps_;
  uint32_t random_;
  uint64_t last_step_ns_;
  uint64_t step_took_ns_;
  // If time decides; 0: steps do.
  uint64_t cycle_start_ns_;
  uint64_t time_window_ns_;
  uint64_t time_cycle_ns_;
  uint64_t operators_inside_;
  uint64_t operators_behind_;  // in as much time behind the window
  bool recorded_;
  // Since the last border of a window: steps, the last one, the shorter of the last two; before it: the shorter of the two
  // nearest.
  uint64_t side_steps_;
  uint64_t side_last_ns_;
  uint64_t side_ns_;
  uint64_t other_side_ns_;
  LastValues added_ppm_;
  uint64_t observers_ppm_;
};

}  // namespace dlhook::inline tap
