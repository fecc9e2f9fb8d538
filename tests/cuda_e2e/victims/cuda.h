// The CUDA runtime as the victims need it: CI has no headers of CUDA.
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct {
  unsigned x, y, z;
} dim3;

typedef struct {
  size_t width, height, depth;
} Extent;

typedef struct {
  void* address;
  size_t pitch, width, height;
} Pitched;

// cudaMemcpy3DParms
typedef struct {
  void* source_array;
  Extent source_position;
  Pitched source;
  void* destination_array;
  Extent destination_position;
  Pitched destination;
  Extent extent;
  int kind;
} Copy3d;

// cudaMemcpy3DPeerParms
typedef struct {
  void* source_array;
  Extent source_position;
  Pitched source;
  int source_device;
  void* destination_array;
  Extent destination_position;
  Pitched destination;
  int destination_device;
  Extent extent;
} Copy3dPeer;

// cudaLaunchConfig_t
typedef struct {
  dim3 grid, block;
  size_t shared_bytes;
  void* stream;
  void* attributes;
  unsigned attribute_count;
} LaunchConfig;

enum { kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice, kDefault };

int cudaGetDevice(int* device);
int cudaGetDeviceCount(int* count);
int cudaSetDevice(int device);
int cudaRuntimeGetVersion(int* version);
int cudaGetLastError(void);
int cudaMalloc(void** out, size_t bytes);
int cudaMallocManaged(void** out, size_t bytes, unsigned flags);
int cudaMallocPitch(void** out, size_t* pitch, size_t width, size_t height);
int cudaMallocAsync(void** out, size_t bytes, void* stream);
int cudaMallocHost(void** out, size_t bytes);
int cudaHostAlloc(void** out, size_t bytes, unsigned flags);
int cudaHostRegister(void* pointer, size_t bytes, unsigned flags);
int cudaHostUnregister(void* pointer);
int cudaFree(void* pointer);
int cudaFreeAsync(void* pointer, void* stream);
int cudaFreeHost(void* pointer);
int cudaMemcpy(void* dst, const void* src, size_t bytes, int kind);
int cudaMemcpy_ptds(void* dst, const void* src, size_t bytes, int kind);
int cudaMemcpyAsync(void* dst, const void* src, size_t bytes, int kind, void* stream);
int cudaMemcpyAsync_ptsz(void* dst, const void* src, size_t bytes, int kind, void* stream);
int cudaMemcpyPeer(void* dst, int dst_device, const void* src, int src_device, size_t bytes);
int cudaMemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device, size_t bytes, void* stream);
int cudaMemcpy2D(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height, int kind);
int cudaMemcpy2DAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height, int kind,
                      void* stream);
int cudaMemcpy3D(const Copy3d* copy);
int cudaMemcpy3DAsync(const Copy3d* copy, void* stream);
int cudaMemcpy3DPeer(const Copy3dPeer* copy);
int cudaMemcpy3DPeerAsync(const Copy3dPeer* copy, void* stream);
int cudaMemcpyBatchAsync(void** dst, void** src, size_t* bytes, size_t count, void* attributes, size_t* indices,
                         size_t attribute_count, void* stream);  // CUDA 13
int cudaMemcpyToSymbol(const void* symbol, const void* src, size_t bytes, size_t offset, int kind);
int cudaMemcpyFromSymbol(void* dst, const void* symbol, size_t bytes, size_t offset, int kind);
int cudaMemcpyToSymbolAsync(const void* symbol, const void* src, size_t bytes, size_t offset, int kind, void* stream);
int cudaMemcpyFromSymbolAsync(void* dst, const void* symbol, size_t bytes, size_t offset, int kind, void* stream);
int cudaMemcpyWithAttributesAsync(void* dst, const void* src, size_t bytes, void* attributes,
                                  void* stream);  // CUDA 13.2
int cudaMemcpy3DWithAttributesAsync(const void* operation, unsigned long long flags, void* stream);
int cudaMemset(void* dst, int value, size_t bytes);
int cudaMemsetAsync(void* dst, int value, size_t bytes, void* stream);
int cudaMemset2D(void* dst, size_t pitch, int value, size_t width, size_t height);
int cudaMemset2DAsync(void* dst, size_t pitch, int value, size_t width, size_t height, void* stream);
int cudaMemset3D(Pitched dst, int value, Extent extent);
int cudaMemset3DAsync(Pitched dst, int value, Extent extent, void* stream);
int cudaStreamCreate(void** out);
int cudaStreamDestroy(void* stream);
int cudaStreamSynchronize(void* stream);
int cudaDeviceSynchronize(void);
int cudaDeviceReset(void);
int cudaEventCreate(void** out);
int cudaEventRecord(void* event, void* stream);
int cudaEventSynchronize(void* event);
int cudaEventElapsedTime(float* milliseconds, void* start, void* end);
int cudaStreamBeginCapture(void* stream, int mode);
int cudaStreamEndCapture(void* stream, void** graph);
int cudaGraphInstantiate(void** executable, void* graph, unsigned long long flags);  // CUDA 12 and 13
int cudaGraphLaunch(void* executable, void* stream);
int cudaGraphExecDestroy(void* executable);
int cudaGraphDestroy(void* graph);
int cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes, void* stream);
int cudaLaunchKernelExC(const LaunchConfig* config, const void* function, void** arguments);
int cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                                void* stream);
int cudaLibraryLoadData(void** library, const void* code, void* options, void** values, unsigned count,
                        void* library_options, void** library_values, unsigned library_count);
int cudaLibraryGetKernel(void** kernel, void* library, const char* name);
// Called by nvcc's output.
void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaUnregisterFatBinary(void** handle);
void __cudaRegisterFunction(void** handle, const char* host_function, char* device_function, const char* device_name,
                            int thread_limit, void* thread_id, void* block_id, void* block, void* grid, int* warp);
int __cudaGetKernel(void** kernel, const void* host_function);
int __cudaLaunchKernel(void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes, void* stream);
