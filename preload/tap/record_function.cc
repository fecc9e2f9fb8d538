// Pure parts of the RecordFunction tap: kinds of scopes, releases, when they are recorded.
#include "preload/tap/record_function.h"

#include <stdio.h>

#include <algorithm>

#include "preload/format/taps.h"

namespace dlhook::inline tap {

ScopeKind KindOfTorchScope(TorchScope scope) {
  using enum ScopeKind;
  constexpr ScopeKind kKinds[kTorchScopes] = {kFrameworkOp,    kBackwardNode,  kFrameworkRange, kUnknown,
                                              kUnknown,        kUnknown,       kFrameworkRange, kUserRange,
                                              kFrameworkRange, kFrameworkRange};
  return kKinds[static_cast<uint32_t>(scope)];
}

// major.minor.patch.tweak in the four upper bytes: 0x020d000000000000 is 2.13.0.
TorchVersion TorchVersionOfAbi(uint64_t abi_version) {
  return {static_cast<uint32_t>(abi_version >> 56), static_cast<uint32_t>(abi_version >> 48 & 0xff)};
}

TorchVersion TorchVersionIn(const char* text, const char* before) {
  TorchVersion version = {0, 0};
  const char* found = strstr(text, before);
  bool tells = found != nullptr && sscanf(found + strlen(before), "%u.%u", &version.major, &version.minor) == 2;
  return tells ? version : TorchVersion{0, 0};
}

bool IsTriedTorchVersion(TorchVersion version) {
  if (version.major == 1) return version.minor == 13;
  return version.major == 2 && version.minor >= 6 && version.minor <= 15;
}

bool EndsTrainingStep(const char* scope_name) {
  return strncmp(scope_name, kOptimizerStep, sizeof kOptimizerStep - 1) == 0;
}

uint64_t LastValues::Median() const {
  uint32_t count = std::min(count_, kMost);
  if (count == 0) return 0;
  uint64_t values[kMost];
  memcpy(values, values_, sizeof values);
  std::nth_element(values, values + count / 2, values + count);
  return values[count / 2];
}

void DutyCycle::Begin(uint64_t now_ns, uint32_t budget_ppm) {
  *this = DutyCycle();
  budget_ppm_ = budget_ppm;
  window_steps_ = kStepsPerWindow;
  cycle_steps_ = kStepsPerCycle;
  last_step_ns_ = now_ns;
  recorded_ = true;
}

// A step ended that was recorded as `recorded_` says.
void DutyCycle::CompareSides(uint64_t took_ns, uint64_t observed_ns) {
  side_ns_ = side_steps_ > 0 && side_last_ns_ < took_ns ? side_last_ns_ : took_ns;
  side_last_ns_ = took_ns;
  if (++side_steps_ != kStepsPerWindow || other_side_ns_ == 0) return;
  uint64_t outside_ns = recorded_ ? other_side_ns_ : side_ns_, inside_ns = recorded_ ? side_ns_ : other_side_ns_;
  added_ppm_.Add(inside_ns <= outside_ns ? 0 : (inside_ns - outside_ns) * 1000000 / outside_ns);
  if (recorded_) observers_ppm_ = observed_ns * 1000000 / outside_ns;
}

uint64_t DutyCycle::AddedPpm() const {
  if (added_ppm_.count() == 0) return kPresumedPpm;
  uint64_t median = added_ppm_.Median();
  return median > observers_ppm_ ? median : observers_ppm_;
}

bool DutyCycle::MayRecordAll(uint64_t added_ppm) const {
  return added_ppm <= budget_ppm_ && added_ppm_.count() >= kFewestComparisons;
}

void DutyCycle::PlanCycle() {
  window_steps_ = kStepsPerWindow;
  cycle_steps_ = kStepsPerCycle;
  if (budget_ppm_ == 0 || added_ppm_.count() == 0) return;
  uint64_t added_ppm = AddedPpm();
  uint64_t steps = added_ppm * kStepsPerWindow / budget_ppm_ + 1;
  if (MayRecordAll(added_ppm)) {
    cycle_steps_ = kMostStepsPerCycle;
    window_steps_ = kMostStepsPerCycle - kStepsPerCycle;
  } else {
    cycle_steps_ = std::clamp(steps, kStepsPerCycle, kMostStepsPerCycle);
    random_ = random_ * 1664525 + 1013904223;  // Knuth, "The Art of Computer Programming", volume 2, 3.3.4
    cycle_steps_ = cycle_steps_ / 2 + (random_ >> 16) % (cycle_steps_ + 1);
  }
}

bool DutyCycle::StepEnded(uint64_t now_ns, uint64_t observed_ns) {
  step_took_ns_ = now_ns - last_step_ns_;
  last_step_ns_ = now_ns;
  if (cycle_start_ns_ == 0) CompareSides(step_took_ns_, observed_ns);
  bool time_decided = cycle_start_ns_ != 0;
  cycle_start_ns_ = 0;
  ++steps_;
  if (++place_ == cycle_steps_) place_ = 0;
  if (place_ == kStepsPerWindow) PlanCycle();
  bool recorded = steps_ < kFirstSteps || place_ < window_steps_;
  if (recorded != recorded_ || time_decided) {
    other_side_ns_ = time_decided ? 0 : side_ns_;
    side_steps_ = 0;
  }
  recorded_ = recorded;
  return recorded_;
}

void DutyCycle::BeginTimeCycle(uint64_t now_ns) {
  cycle_start_ns_ = now_ns;
  operators_inside_ = operators_behind_ = 0;
  time_window_ns_ = ShortestWindowNs();
  uint64_t windows = budget_ppm_ == 0 ? kWindowsPerCycle : AddedPpm() / budget_ppm_ + 1;
  if (budget_ppm_ != 0 && MayRecordAll(AddedPpm())) {
    windows = kMostWindowsPerCycle;
    time_window_ns_ *= kMostWindowsPerCycle - kWindowsPerCycle;
  }
  time_cycle_ns_ = std::clamp(windows, kWindowsPerCycle, kMostWindowsPerCycle) * ShortestWindowNs();
}

bool DutyCycle::TimePassed(uint64_t now_ns, uint64_t operators, uint64_t operator_ns) {
  if (cycle_start_ns_ == 0) {
    uint64_t patience_ns = steps_ == 0 && budget_ppm_ != 0 ? kFirstNs : kPatienceNs + 4 * step_took_ns_;
    if (now_ns - last_step_ns_ < patience_ns) return recorded_;
    BeginTimeCycle(now_ns);
  } else if (now_ns - cycle_start_ns_ >= time_cycle_ns_) {
    if (operators_inside_ > 0 && operators_behind_ > 0) {
      uint64_t more = operators_behind_ > operators_inside_ ? operators_behind_ - operators_inside_ : 0;
      added_ppm_.Add(more * 1000000 / operators_inside_);
      observers_ppm_ = operators_inside_ * operator_ns * 1000000 / kBudgetWindowNs;
    }
    BeginTimeCycle(now_ns);
  }
  // The last part of a window and as much time behind it.
  uint64_t at_ns = now_ns - cycle_start_ns_, compared_ns = ShortestWindowNs();
  recorded_ = at_ns < time_window_ns_;
  if (recorded_ && at_ns + compared_ns >= time_window_ns_) operators_inside_ += operators;
  if (!recorded_ && at_ns < time_window_ns_ + compared_ns) operators_behind_ += operators;
  return recorded_;
}

}  // namespace dlhook::inline tap
