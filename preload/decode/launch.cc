#include <new>

#include "preload/abi/arguments.h"
#include "preload/track/cuda_state.h"

namespace dlhook::inline decode {
namespace {

// cudaLaunchAttribute and CUlaunchAttribute: an id, and a union of which the first words are read.
struct LaunchAttribute {
  enum Id : uint32_t {
    kCooperative = 2,
    kCluster = 4,
    kProgrammaticSerialization = 6,
    kProgrammaticEvent = 7,
    kPriority = 8,
  };
  uint32_t id;
  uint32_t padding;
  union {
    Dim3 cluster;
    int32_t number;
    char bytes[64];
  };
};
static_assert(sizeof(LaunchAttribute) == 72);
constexpr uint32_t kMostAttributes = 64;  // more than there are

// cudaLaunchConfig_t: gridDim, blockDim, size_t dynamicSmemBytes, stream, attributes. CUlaunchConfig: six unsigned, unsigned
// sharedMemBytes, stream, attributes. (driver_types.h, cuda.h; unchanged since CUDA 11.8)
struct RuntimeConfiguration {
  Dim3 grid;
  Dim3 block;
  uint64_t shared_bytes;
  const void* stream;
  const LaunchAttribute* attributes;
  uint32_t attribute_count;
};
struct DriverConfiguration {
  Dim3 grid;
  Dim3 block;
  uint32_t shared_bytes;
  const void* stream;
  const LaunchAttribute* attributes;
  uint32_t attribute_count;
};
static_assert(sizeof(RuntimeConfiguration) == 56 && sizeof(DriverConfiguration) == 56);

struct Attributes {
  Dim3 cluster = {};
  bool programmatic = false;
  int priority = 0;
};

void ReadAttribute(const LaunchAttribute& attribute, LaunchArgs* launch, Attributes* attributes) {
  switch (attribute.id) {
    case LaunchAttribute::kCooperative:
      launch->cooperative = attribute.number != 0;
      break;
    case LaunchAttribute::kCluster:
      attributes->cluster = attribute.cluster;
      break;
    case LaunchAttribute::kProgrammaticSerialization:
      attributes->programmatic |= attribute.number != 0;
      break;
    case LaunchAttribute::kProgrammaticEvent:
      attributes->programmatic = true;
      break;
    case LaunchAttribute::kPriority:
      attributes->priority = attribute.number;
      break;
  }
}

template <typename Configuration>
void ReadConfiguration(const void* config, LaunchArgs* launch, Attributes* attributes) {
  Configuration configuration;
  memcpy(&configuration, config, sizeof configuration);
  launch->grid = configuration.grid;
  launch->block = configuration.block;
  launch->shared_bytes = configuration.shared_bytes;
  launch->stream = configuration.stream;
  if (configuration.attributes == nullptr || configuration.attribute_count > kMostAttributes) return;
  for (uint32_t i = 0; i < configuration.attribute_count; ++i)
    ReadAttribute(configuration.attributes[i], launch, attributes);
}

void Store(const LaunchArgs& args, const Attributes& attributes, CallRecord* record) {
  new (record->shape())
      LaunchShape{KernelDefinition(args.function, args.real),
                  {args.grid.x, args.grid.y, args.grid.z},
                  {args.block.x, args.block.y, args.block.z},
                  static_cast<uint32_t>(args.shared_bytes),
                  args.cooperative,
                  IsCaptured(args.stream),
                  {static_cast<uint8_t>(attributes.cluster.x), static_cast<uint8_t>(attributes.cluster.y),
                   static_cast<uint8_t>(attributes.cluster.z)},
                  attributes.programmatic,
                  static_cast<int8_t>(attributes.priority),
                  {}};
  record->addresses()[0] = Address(args.stream);
}

}  // namespace

void DecodeLaunch(const LaunchArgs& args, CallRecord* record) { Store(args, {}, record); }

void DecodeDriverLaunch(const DriverLaunchArgs& args, CallRecord* record) {
  LaunchArgs launch = LaunchArgs::Like(args);
  launch.grid = {args.grid_x, args.grid_y, args.grid_z};
  launch.block = {args.block_x, args.block_y, args.block_z};
  DecodeLaunch(launch, record);
}

void DecodeLaunchConfig(const LaunchConfigArgs& args, CallRecord* record) {
  LaunchArgs launch = LaunchArgs::Like(args);
  Attributes attributes;
  if (args.config != nullptr && args.driver) {
    ReadConfiguration<DriverConfiguration>(args.config, &launch, &attributes);
  } else if (args.config != nullptr) {
    ReadConfiguration<RuntimeConfiguration>(args.config, &launch, &attributes);
  }
  Store(launch, attributes, record);
}

}  // namespace dlhook::inline decode
