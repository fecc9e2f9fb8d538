// CUPTI's records -> records of ours. Pure functions.
// Thread: any.
#ifndef DLHOOK_PRELOAD_GPU_ACTIVITY_READER_H_
#define DLHOOK_PRELOAD_GPU_ACTIVITY_READER_H_

#include <cstdint>

#include "preload/abi/cupti_abi.h"
#include "preload/format/gpu_records.h"
#include "preload/format/record.h"

namespace dlhook::inline gpu {

// What a record of CUPTI's is.
enum class ActivityUse : uint32_t {
  kActivity,      // work of a GPU, or what measuring it cost
  kWithoutTimes,  // such work, but when it was is not known
  kDevice,        // cupti::DeviceRecord
  kLink,          // cupti::ExternalCorrelationRecord
  kNotNeeded,     // comes along with what is
  kUnknown,
};

// `version`: CUPTI's. `kernel_name`: CUPTI's pointer, null for what is no kernel. Fills `activity` where it answers
// kActivity; its `kernel` is left for the caller.
ActivityUse ReadActivity(const void* record, uint32_t version, int64_t clock_offset_ns, GpuActivityRecord* activity,
                         const char** kernel_name);

// `name_bytes` of the name are left for the caller; so is what the record does not tell.
void ReadDevice(const cupti::DeviceRecord& record, uint32_t version, GpuDeviceRecord* device);

}  // namespace dlhook::inline gpu

#endif  // DLHOOK_PRELOAD_GPU_ACTIVITY_READER_H_
