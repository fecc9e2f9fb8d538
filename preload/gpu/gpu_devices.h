// What is known of the process's GPUs: from CUPTI's record, else from the driver; the link to the host from the
// kernel's own account.
// Thread: any that has a ring; asks the driver and opens files, once for each device.
#ifndef DLHOOK_PRELOAD_GPU_GPU_DEVICES_H_
#define DLHOOK_PRELOAD_GPU_GPU_DEVICES_H_

#include <cstdint>

#include "preload/abi/cupti_abi.h"
#include "preload/format/record.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline gpu {

// Tells of a device, where that was not done yet: `ordinal` is CUDA's.
void NoteGpuDevice(ThreadState* own, uint32_t ordinal);

// The same with what CUPTI's record says of it.
void NoteCuptiDevice(ThreadState* own, const cupti::DeviceRecord& record, uint32_t cupti_version);

}  // namespace dlhook::inline gpu

#endif  // DLHOOK_PRELOAD_GPU_GPU_DEVICES_H_
