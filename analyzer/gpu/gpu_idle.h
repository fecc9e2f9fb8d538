// Why a GPU does not compute: every nanosecond in which no kernel of the network runs on a device goes to exactly one
// cause.
//
// What the device itself does tells most:
//   communication   only communication runs: a kernel of NCCL that moves data or waits for other ranks
//   copies          only copies run, or memory is filled (beside communication: communication)
// While nothing runs, the work that ends the gap is looked at. It was asked for by a thread of the host at some moment.
// Before that moment, by what that thread did:
//   input pipeline  it was in a scope of the input pipeline, at whatever depth
//   communication   it was in a collective call of the host's own (MPI)
//   copies          it was in a copy that returns only when it is done
//   synchronization it waited for the GPU; or it did anything else of the following, but would have done so earlier had
//                   it not waited before: of the time after a wait, as much as the wait took, over all gaps until it
//                   waits again for new work
//   launch-bound    it was in other calls, in framework ops or in Python: the host can't issue work as fast as the GPU
//                   does it
//   not known       nothing is known of it then, nor of the thread that asked before; or not which thread asked
// After that moment, when the work was asked for and had not begun:
//   copies          it is a copy: pageable memory is staged, the driver prepares
//   launch-bound    until the asking call returned, and kLaunchLatencyNs more
//   not known       later: it waits for another stream, another device, or the host
#ifndef DLHOOK_ANALYZER_GPU_GPU_IDLE_H_
#define DLHOOK_ANALYZER_GPU_GPU_IDLE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "analyzer/gpu/gpu_timeline.h"
#include "analyzer/gpu/host_watch.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/time/thread_activity.h"

namespace dlhook::analyzer::inline gpu {

enum class IdleCause : uint8_t { kLaunch, kSynchronization, kCopies, kInput, kCommunication, kUnknown };
inline constexpr int kIdleCauses = 6;
const char* IdleCauseName(IdleCause cause);

// A kernel begins a few microseconds after its launch call has returned, if the GPU is free; nothing that takes longer
// is the launch.
inline constexpr int64_t kLaunchLatencyNs = 20'000;

struct IdlePiece {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  IdleCause cause = IdleCause::kUnknown;
  // More precisely: the copy's direction, or what the host did: a call (waits and copies too), a scope, Python.
  enum class What : uint8_t {
    kNothing,
    kToDevice,
    kFromDevice,
    kOtherCopy,
    kCall,
    kScope,
    kPython,
    kAsked
  } what = What::kNothing;
  uint32_t index = kNone;    // CallIndex of kCall, ScopeIndex of kScope
  int64_t gap_start_ns = 0;  // of the whole gap between two kernels
  GpuIndex next = kNone;     // the first work that begins then or later; kNone: none
};

// Calls `take` for all time of [start_ns, end_ns) in which the device does not compute, in pieces that ascend, but for
// time in which other processes keep it busy. Linear in activities, calls and scopes.
void DivideIdleTime(const TraceModel& model, const HostRules& rules, const std::vector<GpuTimeline>& timelines,
                    GpuDeviceIndex device, const Interval& time, const std::function<void(const IdlePiece&)>& take);

}  // namespace dlhook::analyzer::gpu

#endif  // DLHOOK_ANALYZER_GPU_GPU_IDLE_H_
