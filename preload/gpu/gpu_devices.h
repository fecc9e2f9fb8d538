// Describes the process's GPUs: from CUPTI's record, else from the driver; the link to the host from the kernel.
// Thread: any with a ring; queries the driver and opens files, once per device.
#pragma once

#include <cstdlib>

#include "preload/abi/cupti_abi.h"
#include "preload/format/record.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline gpu {

// Records a device unless already done: `ordinal` is CUDA's.
void NoteGpuDevice(ThreadState* own, uint32_t ordinal);

// The same, using CUPTI's record.
void NoteCuptiDevice(ThreadState* own, const cupti::DeviceRecord& record, uint32_t cupti_version);

// "32.0 GT/s PCIe", as written by the kernel, -> 5; 0 for other text.
inline uint32_t LinkGeneration(const char* speed) {
  constexpr double kGigatransfers[] = {2.5, 5, 8, 16, 32, 64, 128};
  double rate = strtod(speed, nullptr);
  for (uint32_t i = 0; i < sizeof kGigatransfers / sizeof kGigatransfers[0]; ++i) {
    if (rate == kGigatransfers[i]) return i + 1;
  }
  return 0;
}

// Bytes per second in one direction: the raw rate without the encoding. 0: unknown generation.
inline uint64_t LinkBytesPerSecond(uint32_t generation, uint32_t width) {
  // Per lane: 8 of 10 bits are data in generations 1 and 2, 128 of 130 in 3 to 5, 242 of the 256 bytes of a flit from 6
  // on.
  constexpr uint64_t kLane[] = {0, 250000000, 500000000, 984615385, 1969230769, 3938461538, 7562500000, 15125000000};
  return generation < sizeof kLane / sizeof kLane[0] ? kLane[generation] * width : 0;
}

struct PciLink {
  uint32_t generation;        // 0: not known
  uint32_t width;             // lanes
  uint64_t bytes_per_second;  // in one direction; 0: not known
};

// What the device in this folder (of /sys/bus/pci/devices) can use: a card may be in a slot, or behind a switch, that is of
// an older generation or has fewer lanes than itself. Of all ports up to the host the slowest.
PciLink SlowestLink(const char* folder);

}  // namespace dlhook::inline gpu
