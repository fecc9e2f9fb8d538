// What a generated wrapper does around the real function. The whole steady-state cost of dlhook is in this file.
// Thread: any application thread. Never allocates, locks or makes a system call, except in the outlined slow paths
// (first call of a thread, first call of a hook from a caller, see preload/README.md).
//
//   CallFrame frame;
//   auto real = reinterpret_cast<Fn*>(BeginCall(kHookId, kFamilyBit, __builtin_return_address(0), &frame));
//   real(arguments...);
//   if (CallRecord* record = EndCall(&frame, RecordType::kGemmCall, kGemmShapeWords, 3)) {
//     DecodeGemm(…, record);
//     CommitCall(&frame, record);
//   }
#ifndef DLHOOK_PRELOAD_CORE_CALL_SCOPE_H_
#define DLHOOK_PRELOAD_CORE_CALL_SCOPE_H_

#include "preload/core/clock.h"
#include "preload/core/hook_table.h"
#include "preload/core/record.h"
#include "preload/core/thread_state.h"

namespace dlhook {

struct CallFrame {
  ThreadState* thread;  // null: this call is not recorded
  uint64_t start_ticks;
  uint64_t sequence;
  uint32_t parent_distance;
  HookId hook;
  uint8_t depth;
  uint64_t caller;
};

}  // namespace dlhook

#endif
