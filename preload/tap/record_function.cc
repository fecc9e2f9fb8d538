// Pure parts of the RecordFunction tap: kinds of scopes, releases, the light mode's schedule.
#include "preload/tap/record_function.h"

#include <stdio.h>
#include <string.h>

namespace dlhook::inline tap {

ScopeKind KindOfTorchScope(TorchScope scope) {
  switch (scope) {
    case TorchScope::kFunction:
      return ScopeKind::kFrameworkOp;
    case TorchScope::kBackwardFunction:
      return ScopeKind::kBackwardNode;
    case TorchScope::kUserScope:
      return ScopeKind::kUserRange;
    case TorchScope::kTorchScriptFunction:
    case TorchScope::kLiteInterpreter:
    case TorchScope::kStaticRuntimeOp:
    case TorchScope::kStaticRuntimeModel:
      return ScopeKind::kFrameworkRange;
    case TorchScope::kKernelFunctionDtype:
    case TorchScope::kCustomClass:
    case TorchScope::kBuildFeature:
    case TorchScope::kCount:
      break;
  }
  return ScopeKind::kUnknown;
}

// major.minor.patch.tweak in the four upper bytes: 0x020d000000000000 is 2.13.0.
TorchVersion TorchVersionOfAbi(uint64_t abi_version) {
  return {static_cast<uint32_t>(abi_version >> 56), static_cast<uint32_t>(abi_version >> 48 & 0xff)};
}

TorchVersion TorchVersionOfFile(const char* file_name) {
  TorchVersion version = {0, 0};
  bool tells = sscanf(file_name, "libtorch_cpu.so.%u.%u", &version.major, &version.minor) == 2;
  return tells ? version : TorchVersion{0, 0};
}

TorchVersion TorchVersionOfText(const char* text) {
  constexpr char kBefore[] = "__version__ = '";
  TorchVersion version = {0, 0};
  const char* found = strstr(text, kBefore);
  bool tells = found != nullptr && sscanf(found + sizeof kBefore - 1, "%u.%u", &version.major, &version.minor) == 2;
  return tells ? version : TorchVersion{0, 0};
}

bool IsTriedTorchVersion(TorchVersion version) {
  if (version.major == 1) return version.minor == 13;
  return version.major == 2 && version.minor >= 6 && version.minor <= 15;
}

bool EndsTrainingStep(const char* scope_name) {
  constexpr char kPrefix[] = "Optimizer.step#";
  return strncmp(scope_name, kPrefix, sizeof kPrefix - 1) == 0;
}

void DutyCycle::Begin(uint64_t now_ms) {
  *this = DutyCycle();
  last_step_ms_ = now_ms;
  recorded_ = true;
}

bool DutyCycle::StepEnded(uint64_t now_ms) {
  step_took_ms_ = now_ms - last_step_ms_;
  last_step_ms_ = now_ms;
  cycles_start_ms_ = 0;
  ++steps_;
  recorded_ = steps_ < kFirstSteps || steps_ % kStepsPerCycle < kStepsPerWindow;
  return recorded_;
}

bool DutyCycle::TimePassed(uint64_t now_ms) {
  if (cycles_start_ms_ == 0) {
    uint64_t patience_ms = kPatienceMs + 4 * step_took_ms_;
    if (now_ms - last_step_ms_ < patience_ms) return recorded_;
    cycles_start_ms_ = now_ms;
  }
  recorded_ = (now_ms - cycles_start_ms_) % kCycleMs < kWindowMs;
  return recorded_;
}

}  // namespace dlhook::inline tap
