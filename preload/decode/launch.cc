#include "preload/decode/launch.h"

#include <string.h>

#include <new>

#include "preload/abi/arguments.h"
#include "preload/track/capture.h"
#include "preload/track/kernels.h"

namespace dlhook::inline decode {
namespace {

// cudaLaunchConfig_t: gridDim, blockDim, size_t dynamicSmemBytes, stream. CUlaunchConfig: six unsigned, unsigned
// sharedMemBytes, stream. (driver_types.h, cuda.h; unchanged since CUDA 11.8)
struct RuntimeConfiguration {
  Dim3 grid;
  Dim3 block;
  uint64_t shared_bytes;
  const void* stream;
};
struct DriverConfiguration {
  Dim3 grid;
  Dim3 block;
  uint32_t shared_bytes;
  const void* stream;
};
static_assert(sizeof(RuntimeConfiguration) == 40 && sizeof(DriverConfiguration) == 40);

}  // namespace

void DecodeLaunch(const LaunchArgs& args, CallRecord* record) {
  new (record->shape()) LaunchShape{KernelDefinition(args.function, args.real),
                                    {args.grid.x, args.grid.y, args.grid.z},
                                    {args.block.x, args.block.y, args.block.z},
                                    static_cast<uint32_t>(args.shared_bytes),
                                    args.cooperative,
                                    IsCaptured(args.stream),
                                    {}};
  record->addresses()[0] = Address(args.stream);
}

void DecodeDriverLaunch(const DriverLaunchArgs& args, CallRecord* record) {
  LaunchArgs launch;
  launch.cooperative = args.cooperative;
  launch.function = args.function;
  launch.grid = {args.grid_x, args.grid_y, args.grid_z};
  launch.block = {args.block_x, args.block_y, args.block_z};
  launch.shared_bytes = args.shared_bytes;
  launch.stream = args.stream;
  launch.real = args.real;
  DecodeLaunch(launch, record);
}

void DecodeLaunchConfig(const LaunchConfigArgs& args, CallRecord* record) {
  LaunchArgs launch;
  launch.function = args.function;
  launch.real = args.real;
  if (args.config != nullptr && args.driver) {
    DriverConfiguration configuration;
    memcpy(&configuration, args.config, sizeof configuration);
    launch.grid = configuration.grid;
    launch.block = configuration.block;
    launch.shared_bytes = configuration.shared_bytes;
    launch.stream = configuration.stream;
  } else if (args.config != nullptr) {
    RuntimeConfiguration configuration;
    memcpy(&configuration, args.config, sizeof configuration);
    launch.grid = configuration.grid;
    launch.block = configuration.block;
    launch.shared_bytes = configuration.shared_bytes;
    launch.stream = configuration.stream;
  }
  DecodeLaunch(launch, record);
}

}  // namespace dlhook::inline decode
