// What the application itself holds of CUPTI, as its own calls tell (gpu/cupti_hooks.cc). CUPTI knows one client a
// process: while the application holds anything, we keep away (README.md, "Living with others").
// Thread: any; a spin lock that is held for some instructions. Makes no call into CUPTI.
#ifndef DLHOOK_PRELOAD_GPU_CUPTI_APPLICATION_H_
#define DLHOOK_PRELOAD_GPU_CUPTI_APPLICATION_H_

#include <cstdint>

#include "preload/base/spin_lock.h"

namespace dlhook::inline gpu {

// What a function of CUPTI's means to who else uses it.
enum class CuptiRole : uint8_t {
  kSetting,  // how CUPTI works from now on
  kSubscribe,
  kUnsubscribe,
  kEnable,          // (kind)
  kDisable,         // (kind)
  kEnableContext,   // (context, kind)
  kDisableContext,  // (context, kind)
  kEnableApi,       // (id of a function, on): records of one function
  kCallbacks,       // buffers are asked for and given back by these from now on
  kTimestamps,      // times come from this from now on
  kBegin,           // of a use of another kind: counters, samples, a subscription of its own for activities
  kEnd,
  kFlush,
  kFinalize,
};

// Groups of kEnableApi.
constexpr uint8_t kDriverFunctions = 0;
constexpr uint8_t kRuntimeFunctions = 1;

struct CuptiCall {
  static constexpr uint32_t kArguments = 6;  // all of CUPTI's are integers and addresses
  CuptiRole role;
  uint8_t group;  // kBegin, kEnd, kEnableApi: which of them belong together
  uint64_t arguments[kArguments];
};

class CuptiApplication {
 public:
  // `on_free`: called when the application holds nothing any more, under the lock: may only make a mark. May be
  // called again.
  constexpr explicit CuptiApplication(void (*on_free)()) : on_free_(on_free) {}

  // Whether CUPTI must be the application's alone while the call lasts.
  static bool NeedsAll(CuptiRole role) { return role != CuptiRole::kFlush; }

  // Around a call of the application's. Between them it holds CUPTI.
  void Enter();
  void Leave(const CuptiCall& call, int status);

  // A buffer went to CUPTI; came back.
  void LendBuffer();
  void TakeBuffer();

  bool HoldsAny();
  bool IsSubscribed();
  bool HasFinalized();

 private:
  // Something that is on until it is switched off. Kinds of activity: scope 0, or the context; others: one of the
  // small numbers.
  struct Held {
    uint64_t scope;
    uint64_t what;
  };
  static constexpr uint32_t kMost = 128;
  static constexpr uint64_t kGroupScope = 16;  // + group: no address

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
  bool is_full_ = false;  // more than fits: held until CUPTI is finalized
  bool has_finalized_ = false;
};

}  // namespace dlhook::inline gpu

#endif  // DLHOOK_PRELOAD_GPU_CUPTI_APPLICATION_H_
