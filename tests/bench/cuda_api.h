// The few functions of the CUDA runtime and of cuDNN's graph API that the benchmarks call, as in the vendor's headers,
// which need not be installed. Enumerators are plain integers, handles plain pointers.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct Dim3 {
  unsigned x, y, z;
};
enum { kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 3 };  // cudaMemcpyKind

void** __cudaRegisterFatBinary(void* fat_binary);
void __cudaRegisterFunction(void** handle, const void* host_function, char* device_function, const char* device_name,
                            int thread_limit, void* thread_id, void* block_id, void* block_dimension,
                            void* grid_dimension, int* warp_size);
int __cudaGetKernel(void** kernel, const void* host_function);
int __cudaLaunchKernel(void* kernel, struct Dim3 grid, struct Dim3 block, void** args, size_t shared_bytes,
                       void* stream);
int cudaMemcpyAsync(void* dst, const void* src, size_t bytes, int kind, void* stream);
int cudaPointerGetAttributes(void* attributes, const void* pointer);
int cudaRuntimeGetVersion(int* version);

// cudnnBackendDescriptorType_t, cudnnBackendAttributeType_t, cudnnBackendAttributeName_t
enum {
  kConvolution = 1,
  kEngine = 2,
  kEngineConfiguration = 3,
  kPlan = 5,
  kConvolutionForward = 10,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17
};
enum { kDataType = 1, kInt64 = 3, kPointer = 6, kDescriptor = 15 };
enum {
  kForwardConvolution = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kGraphOperations = 801,
  kTensorType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kConfigurationEngine = 300,
  kPlanConfiguration = 401,
  kEngineGraph = 1300
};
int cudnnBackendCreateDescriptor(int type, void** descriptor);
int cudnnBackendDestroyDescriptor(void* descriptor);
int cudnnBackendFinalize(void* descriptor);
int cudnnBackendSetAttribute(void* descriptor, int name, int type, int64_t count, const void* elements);
int cudnnBackendGetAttribute(const void* descriptor, int name, int type, int64_t requested, int64_t* returned,
                             void* elements);
int cudnnBackendExecute(void* handle, void* plan, void* variant_pack);
