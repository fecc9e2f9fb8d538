// Converts CUPTI's records to dlhook's. Pure functions.
// Thread: any.
#pragma once

#include "preload/abi/cupti_abi.h"
#include "preload/format/gpu_records.h"
#include "preload/format/record.h"

namespace dlhook::inline gpu {

// The meaning of a CUPTI record.
enum class ActivityUse : uint32_t {
  kActivity,      // GPU work, or the cost of measuring it
  kWithoutTimes,  // GPU work at an unknown time
  kDevice,        // cupti::DeviceRecord
  kLink,          // cupti::ExternalCorrelationRecord
  kNotNeeded,     // comes with the others
  kUnknown,
};

// `version`: CUPTI's. `kernel_name`: CUPTI's pointer, null if not a kernel. Sets `activity` if it returns kActivity,
// except its `kernel`.
ActivityUse ReadActivity(const void* record, uint32_t version, int64_t clock_offset_ns, GpuActivityRecord* activity,
                         const char** kernel_name);

// Does not set the name, nor fields that the record lacks.
void ReadDevice(const cupti::DeviceRecord& record, uint32_t version, GpuDeviceRecord* device);

}  // namespace dlhook::inline gpu
