// The RecordFunction tap: PyTorch tells of every operator, backward node and user range by its own observers.
//
// at::addGlobalCallback is how torch.profiler works. We register from inside at::getStepCallbacksUnlessEmpty, which every operator
// calls, as soon as the first one does; the sequence number that links a backward node to its forward op is read in passing from
// at::RecordFunction::before. Nothing of PyTorch's C++ runtime is used and no layout but the callback object's.
// Thread: any application thread. This header is pure: unit-tested.
#ifndef DLHOOK_PRELOAD_TAP_RECORD_FUNCTION_H_
#define DLHOOK_PRELOAD_TAP_RECORD_FUNCTION_H_

#include <cstddef>
#include <cstdint>

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

// What a scope of PyTorch's becomes; kUnknown: it is not recorded. Left out are what a build with selected operators writes down
// about itself (types of kernels, features): they bracket nothing.
ScopeKind KindOfTorchScope(TorchScope scope);

// at::RecordFunctionCallback: the one C++ object that is handed over. The same in the headers of PyTorch 1.13.1,
// 2.13 and 2.14.1.
struct TorchCallback {
  void* (*start)(void* context,
                 const void* record_function);  // std::unique_ptr<ObserverContext>: returned through memory
  void (*end)(const void* record_function, void* context);
  double sampling_probability;
  bool scopes[kTorchScopes];
  bool needs_inputs;
  bool needs_outputs;
  bool needs_ids;
};
static_assert(sizeof(TorchCallback) == 40 && offsetof(TorchCallback, scopes) == 24);

// A release of PyTorch, as aoti_torch_abi_version() states it.
struct TorchVersion {
  uint32_t major;
  uint32_t minor;
};
TorchVersion TorchVersionOfAbi(uint64_t abi_version);
// … and as the name of the library's file ends ("libtorch_cpu.so.1.13"); 0.0 where it does not.
TorchVersion TorchVersionOfFile(const char* file_name);
// Releases with which the tap was tried.
bool IsKnownTorchVersion(TorchVersion version);

// The name of the range around an optimizer's step ("Optimizer.step#SGD.step").
bool EndsTrainingStep(const char* scope_name);

// Light mode: when operators are recorded. All of the first steps, then two of sixteen (two, so that one whole iteration is among
// them wherever it begins, and both halves where two optimizers take turns); without steps a part of the time.
class DutyCycle {
 public:
  static constexpr uint64_t kFirstSteps = 20;
  static constexpr uint64_t kStepsPerCycle = 16;
  static constexpr uint64_t kStepsPerWindow = 2;
  static constexpr uint64_t kCycleMs = 800;
  static constexpr uint64_t kWindowMs = 100;
  static constexpr uint64_t kPatienceMs =
      2000;  // and four times the last step: so long without one before time decides

  void Begin(uint64_t now_ms);
  // Both return whether operators are recorded from now on.
  bool StepEnded(uint64_t now_ms);
  bool TimePassed(uint64_t now_ms);

 private:
  uint64_t steps_;
  uint64_t last_step_ms_;
  uint64_t step_took_ms_;
  uint64_t cycles_start_ms_;  // where time decides; 0: steps do
  bool recorded_;
};

}  // namespace dlhook::inline tap

#endif  // DLHOOK_PRELOAD_TAP_RECORD_FUNCTION_H_
