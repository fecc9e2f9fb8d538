#include "preload/abi/cupti_abi.h"
#include "preload/gpu/cupti_hooks.h"

namespace dlhook::inline gpu {

void CuptiApplication::Enter() {
  SpinLockHolder holder(&lock_);
  ++under_way_;
}

void CuptiApplication::Leave(const CuptiCall& call, int status) {
  SpinLockHolder holder(&lock_);
  if (status == 0) Note(call);
  --under_way_;
  TellIfFree();
}

void CuptiApplication::LendBuffer() {
  SpinLockHolder holder(&lock_);
  ++lent_buffers_;
}

void CuptiApplication::TakeBuffer() {
  SpinLockHolder holder(&lock_);
  if (lent_buffers_ != 0) --lent_buffers_;  // 0: lent before the application called cuptiFinalize
  TellIfFree();
}

CuptiApplication::Use CuptiApplication::Now() {
  SpinLockHolder holder(&lock_);
  return {IsHeld(), subscriptions_ != 0, has_finalized_};
}

void CuptiApplication::Hold(uint64_t scope, uint64_t what, bool on) {
  uint32_t found = 0;
  while (found < held_count_ && (held_[found].scope != scope || held_[found].what != what)) ++found;
  bool is_held = found < held_count_;
  if (is_held == on) return;
  if (!on) {
    held_[found] = held_[--held_count_];
  } else if (held_count_ < kMost) {
    held_[held_count_++] = {scope, what};
  } else {
    is_full_ = true;
  }
}

// Enabling or disabling a kind overrides earlier settings of single functions.
void CuptiApplication::ReleaseFunctions(uint64_t kind) {
  if (kind != cupti::kDriver && kind != cupti::kRuntime) return;
  uint64_t scope = kGroupScope + (kind == cupti::kDriver ? kDriverFunctions : kRuntimeFunctions);
  for (uint32_t i = held_count_; i-- != 0;) {
    if (held_[i].scope == scope) held_[i] = held_[--held_count_];
  }
}

void CuptiApplication::Note(const CuptiCall& call) {
  const uint64_t* arguments = call.arguments;
  switch (call.role) {
    case CuptiRole::kSubscribe:
      ++subscriptions_;
      break;
    case CuptiRole::kUnsubscribe:
      if (subscriptions_ != 0) --subscriptions_;
      Hold(kSubscriberScope, arguments[0], false);
      break;
    case CuptiRole::kEnable:
    case CuptiRole::kDisable:
      Hold(0, static_cast<uint32_t>(arguments[0]), call.role == CuptiRole::kEnable);
      if (call.role == CuptiRole::kDisable) ReleaseFunctions(arguments[0]);
      break;
    case CuptiRole::kEnableContext:
    case CuptiRole::kDisableContext:
      Hold(arguments[0], static_cast<uint32_t>(arguments[1]), call.role == CuptiRole::kEnableContext);
      break;
    case CuptiRole::kEnableApi:
      Hold(kGroupScope + call.group, static_cast<uint32_t>(arguments[0]), static_cast<uint8_t>(arguments[1]) != 0);
      break;
    case CuptiRole::kBegin:
    case CuptiRole::kEnd:
      Hold(kGroupScope + call.group, 0, call.role == CuptiRole::kBegin);
      break;
    case CuptiRole::kOfSubscriber:
      Hold(kSubscriberScope, arguments[0], true);
      break;
    case CuptiRole::kFinalize:
      held_count_ = lent_buffers_ = subscriptions_ = 0;
      is_full_ = false;
      has_finalized_ = true;
      break;
    case CuptiRole::kSetting:
    case CuptiRole::kCallbacks:
    case CuptiRole::kTimestamps:
    case CuptiRole::kFlush:
      break;
  }
}

}  // namespace dlhook::inline gpu
