// Kernel launches of the CUDA runtime and driver: arguments -> LaunchShape.
// Thread: any application thread, after the real function has returned. Each decoder needs kLaunchShapeWords and 1 address.
// The members of the *Args structs are the parameter names of preload/api/*.api.
#pragma once

#include "preload/abi/arguments.h"
#include "preload/format/record.h"

namespace dlhook::inline decode {

struct LaunchArgs {
  bool cooperative = false;
  const void* function = nullptr;
  Dim3 grid = {};
  Dim3 block = {};
  uint64_t shared_bytes = 0;
  const void* stream = nullptr;
  const void* real = nullptr;
  // Attributes.
  Dim3 cluster = {};
  bool programmatic = false;
  int priority = 0;
};
void DecodeLaunch(const LaunchArgs& args, CallRecord* record);

struct DriverLaunchArgs {
  bool cooperative = false;
  const void* function = nullptr;
  uint32_t grid_x = 0, grid_y = 0, grid_z = 0;
  uint32_t block_x = 0, block_y = 0, block_z = 0;
  uint32_t shared_bytes = 0;
  const void* stream = nullptr;
  const void* real = nullptr;
};
void DecodeDriverLaunch(const DriverLaunchArgs& args, CallRecord* record);

// cudaLaunchConfig_t or CUlaunchConfig.
struct LaunchConfigArgs {
  bool driver = false;
  const void* config = nullptr;
  const void* function = nullptr;
  const void* real = nullptr;
};
void DecodeLaunchConfig(const LaunchConfigArgs& args, CallRecord* record);

}  // namespace dlhook::inline decode
