// Compiled, never run, if the toolkit's headers are installed: the fakes fill the right fields of cudaDeviceProp.
#include <cuda_runtime_api.h>

#include "device_properties.h"

#if CUDART_VERSION >= 13000
using namespace device_properties;

#define CHECK(field, offset) static_assert(offsetof(cudaDeviceProp, field) == (offset), #field)
static_assert(sizeof(cudaDeviceProp) == kSize13);
CHECK(totalGlobalMem, kTotalMemory);
CHECK(sharedMemPerBlock, kSharedPerBlock);
CHECK(regsPerBlock, kRegistersPerBlock);
CHECK(warpSize, kWarp);
CHECK(memPitch, kPitch);
CHECK(maxThreadsPerBlock, kThreadsPerBlock);
CHECK(maxThreadsDim, kBlockSizes);
CHECK(maxGridSize, kGridSizes);
CHECK(totalConstMem, kConstantMemory);
CHECK(major, kMajor);
CHECK(minor, kMinor);
CHECK(textureAlignment, kTextureAlignment);
CHECK(multiProcessorCount, kProcessors13);
CHECK(concurrentKernels, kConcurrentKernels13);
CHECK(pciBusID, kBus13);
CHECK(unifiedAddressing, kUnifiedAddressing13);
CHECK(memoryBusWidth, kBusWidth13);
CHECK(l2CacheSize, kL2Cache13);
CHECK(maxThreadsPerMultiProcessor, kThreadsPerProcessor13);
CHECK(streamPrioritiesSupported, kStreamPriorities13);
CHECK(sharedMemPerMultiprocessor, kSharedPerProcessor13);
CHECK(regsPerMultiprocessor, kRegistersPerProcessor13);
CHECK(cooperativeLaunch, kCooperativeLaunch13);
CHECK(sharedMemPerBlockOptin, kSharedPerBlockOptIn13);
CHECK(maxBlocksPerMultiProcessor, kBlocksPerProcessor13);
CHECK(memoryPoolsSupported, kMemoryPools13);
CHECK(clusterLaunch, kClusterLaunch13);
#endif
