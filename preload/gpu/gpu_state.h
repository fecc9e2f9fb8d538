// The state of GPU times in this process. Valid when all zero, in memory that the kernel wipes in a forked child: CUPTI
// does not survive a fork, so a child never calls it, whatever its parent's threads held at the fork.
// Thread: any, unless noted otherwise.
#pragma once

#include "preload/base/spin_lock.h"
#include "preload/format/record.h"
#include "preload/gpu/activity_buffers.h"
#include "preload/runtime/definition_table.h"

namespace dlhook::inline gpu {

// The definitions of kernels' names. All zero: empty. Thread: dlhook-gpu.
struct KernelNames {
  DefinitionTable<32768> by_pointer;  // valid for a generation, which is `used` - 1
  DefinitionTable<32768> by_content;
  uint64_t unread;  // names that could not be read
};

enum GpuPhase : uint32_t {
  kGpuUntouched = 0,
  kGpuStarting = 1,  // a thread is opening; others continue without GPU times
  kGpuCupti = 2,
  kGpuYielded = 3,  // CUPTI belongs to the application
  kGpuEvents = 4,
  kGpuOff = 5,  // unavailable, or the process ends
};

// Whether calls are linked by external correlation (gpu/cupti_callbacks.h).
enum GpuBeside : uint32_t { kNeverBeside = 0, kBeside = 1, kWasBeside = 2 };

// Numbers of activities that are not in the trace, by reason.
struct GpuLeftOut {
  uint64_t without_times;
  uint32_t in_a_row;  // of these, without one that has times between them
  uint64_t unknown_kinds;
  uint32_t last_unknown_kind;
};

struct GpuState {
  std::atomic<uint32_t> phase;  // GpuPhase
  // How calls are joined with their work while CUPTI's only subscriber is the application.
  std::atomic<uint32_t> beside;  // GpuBeside
  // 1: the next call of the application that ends registers FinishGpuTime as an exit handler.
  std::atomic<uint32_t> exit_handler_due;
  // Held around all our calls into CUPTI except inside its callbacks, and around changes of `phase`. Never taken in a
  // callback.
  SpinLock control;
  std::atomic<uint32_t> was_open;
  std::atomic<uint32_t> is_closing;        // the last flush is under way, and may ask for buffers
  std::atomic<uint32_t> has_buffers;       // CUPTI has requested one: CUDA has started
  std::atomic<uint32_t> inside_callbacks;  // also calls that are themselves inside CUPTI
  std::atomic<uint64_t> known_devices;     // bit i: device i has been recorded
  std::atomic<uint32_t> module_unloads;    // afterwards names of kernels may have moved
  std::atomic<uint32_t> has_graphs;        // a graph's node was made

  // For CUPTI, under `control`.
  bool is_between_windows;            // kinds and callbacks are off (DLHOOK_BUDGET)
  void* subscriber;                   // null: not subscribed
  uint32_t is_to_be_handed_over;      // 1: closed, but attributes and the subscription are still dlhook's
  uint8_t per_thread_buffers_before;  // previous attributes
  uint8_t zeroed_buffers_before;
  int64_t clock_offset_ns;  // to be added to CUPTI's times
  ActivityBuffers buffers;

  // The thread "dlhook-gpu".
  std::atomic<uint32_t> wake;  // futex; odd: it must end
  std::atomic<uint32_t> has_thread;
  std::atomic<uint32_t> is_abandoned;  // CUDA may be gone: no call into it at the end
  std::atomic<uint32_t> is_closed;     // at the end: no call into CUPTI is active or will follow
  std::atomic<uint32_t> feeding;       // completed buffers are being read
  pthread_t thread;
  ThreadState* own;    // the thread's; null without a ring
  KernelNames* names;  // in pages of their own; null: kernels have no names
  GpuLeftOut left_out;
  uint32_t known_switches;   // SessionHeader's
  uint64_t stopped_from_ns;  // the last known time in which nothing was to be recorded; CLOCK_REALTIME
  uint64_t stopped_to_ns;    // 0: still stopped
};

// Null if there is no memory that can be wiped.
GpuState* GetGpuState();

// The same; null before the first call that needs it. Signal-safe.
extern std::atomic<GpuState*> g_gpu_state;

// The thread "dlhook-gpu": feeds the buffers that CUPTI has filled into its own ring, makes CUPTI return what is
// complete, collects events. It blocks all signals. A forked child has none.

// True if it exists now. Does not wait for it. Under GpuState.control.
bool StartGpuThread(GpuState* state);

// There is work to do. A system call.
void WakeGpuThread(GpuState* state);

// Waits until it has fed everything queued; at most `milliseconds`.
// Thread: any but itself, not in CUPTI's callbacks.
void WaitUntilFed(GpuState* state, uint32_t milliseconds);

// It closes CUPTI, feeds what is queued, records what was left out, and ends; waits for at most some seconds.
// Thread: the one that ends the process.
void StopGpuThread(GpuState* state);

// Counts records that CUPTI wrote to scratch pages as dropped. In CUPTI's callbacks.
void CountScratchRecords(uint8_t* buffer, size_t valid);

// Adds CUPTI's own count of dropped records since the last query. Under GpuState.control.
void CountDroppedRecords();

}  // namespace dlhook::inline gpu
