// The application's own use of CUPTI, seen through the interposed functions of libcupti. Its effect on ours: README.md,
// "Sharing CUPTI with the application".
// Thread: any.
#pragma once

#include <cstddef>

#include "preload/base/spin_lock.h"

namespace dlhook::inline gpu {

// Before our kinds are enabled: switches to CLOCK_REALTIME if the application has set another source of times.
void UseOwnTimestamps();

// After our kinds are disabled and our buffers are back: restores the application's own buffer functions and source of
// times, if it has any.
void RestoreApplicationCupti();

// CUPTI has returned a buffer to dlhook's function that dlhook did not lend.
void ReturnApplicationBuffer(void* context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid_bytes);

// The effect of a CUPTI function on other users of CUPTI.
enum class CuptiRole : uint8_t {
  kSetting,  // changes how CUPTI works from now on
  kSubscribe,
  kUnsubscribe,
  kEnable,          // (kind)
  kDisable,         // (kind)
  kEnableContext,   // (context, kind)
  kDisableContext,  // (context, kind)
  kEnableApi,       // (id of a function, on): enables records of one function
  kCallbacks,       // sets the functions that provide and take back buffers
  kTimestamps,      // sets the source of times
  kBegin,           // begins another kind of use: counters, samples
  kEnd,
  kOfSubscriber,  // (subscriber, …): begins activities of a subscriber's own
  kFlush,
  kFinalize,
};

// Groups of kEnableApi.
constexpr uint8_t kDriverFunctions = 0;
constexpr uint8_t kRuntimeFunctions = 1;

struct CuptiCall {
  static constexpr uint32_t kArguments = 6;  // all of CUPTI's arguments are integers and addresses
  CuptiRole role;
  uint8_t group;  // kBegin, kEnd, kEnableApi: calls with the same group belong together
  uint64_t arguments[kArguments];
};

// What the application holds of CUPTI, according to its own calls: while it holds anything, dlhook does not use CUPTI.
// Thread: any; a spin lock held for some instructions. Makes no call into CUPTI.
class CuptiApplication {
 public:
  // `on_free`: called under the lock when the application no longer holds anything: may only set a mark. May be called
  // repeatedly.
  constexpr explicit CuptiApplication(void (*on_free)()) : on_free_(on_free) {}

  // Whether CUPTI must belong to the application alone during the call.
  static bool NeedsAll(CuptiRole role) { return role != CuptiRole::kFlush; }

  // Called before and after a call of the application. In between it holds CUPTI.
  void Enter();
  void Leave(const CuptiCall& call, int status);

  // A buffer went to CUPTI; came back.
  void LendBuffer();
  void TakeBuffer();

  // What dlhook must know when it opens CUPTI.
  struct Use {
    bool holds;          // the application uses CUPTI right now: we must not call it
    bool is_subscribed;  // it holds the subscription, but measures nothing: the activity API is available
    bool has_finalized;  // CUPTI was finalized once
  };
  Use Now();

 private:
  // Something enabled until it is disabled. For kinds of activity the scope is 0 or the context; otherwise a small
  // number.
  struct Held {
    uint64_t scope;
    uint64_t what;
  };
  static constexpr uint32_t kMost = 128;
  static constexpr uint64_t kGroupScope = 16;  // group: never an address
  static constexpr uint64_t kSubscriberScope = 15;

  void Hold(uint64_t scope, uint64_t what, bool on);
  void ReleaseFunctions(uint64_t kind);
  void Note(const CuptiCall& call);
  bool IsHeld() const { return under_way_ != 0 || held_count_ != 0 || is_full_ || lent_buffers_ != 0; }
  void TellIfFree() {
    if (!IsHeld()) on_free_();
  }

  void (*on_free_)();
  SpinLock lock_;
  Held held_[kMost] = {};
  uint32_t held_count_ = 0;
  uint32_t under_way_ = 0;
  uint32_t lent_buffers_ = 0;
  uint32_t subscriptions_ = 0;
  bool is_full_ = false;  // more than can be stored: held until cuptiFinalize
  bool has_finalized_ = false;
};

CuptiApplication::Use ApplicationCupti();

}  // namespace dlhook::inline gpu
