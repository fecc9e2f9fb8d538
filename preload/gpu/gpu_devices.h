// Describes the process's GPUs: from CUPTI's record, else from the driver; the link to the host from the kernel.
// Thread: any with a ring; queries the driver and opens files, once per device.
#pragma once

#include <cstdint>

#include "preload/abi/cupti_abi.h"
#include "preload/format/record.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline gpu {

// Records a device unless already done: `ordinal` is CUDA's.
void NoteGpuDevice(ThreadState* own, uint32_t ordinal);

// The same, using CUPTI's record.
void NoteCuptiDevice(ThreadState* own, const cupti::DeviceRecord& record, uint32_t cupti_version);

}  // namespace dlhook::inline gpu
