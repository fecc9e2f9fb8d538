// libcudart: registrations by nvcc's start-up code, launches, and the way to the driver.
//
// torch's import registers 476 images with 23 718 kernels; only the name of each is kept.
#include <dlfcn.h>

#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "fake.h"

using fake::Dim3;
using fake::Kernel;

namespace {

std::mutex lock;

// By the address of the host stub; never destroyed: images unregister themselves while the process ends.
std::unordered_map<const void*, Kernel*>& Kernels() {
  static auto* kernels = new std::unordered_map<const void*, Kernel*>;
  return *kernels;
}

// cudaLaunchKernel takes a host stub or a cudaKernel_t.
const Kernel* KernelOf(const void* function) {
  const std::lock_guard<std::mutex> guard(lock);
  const auto entry = Kernels().find(function);
  return entry != Kernels().end() ? entry->second : static_cast<const Kernel*>(function);
}

struct Configuration {
  Dim3 grid, block;
  size_t shared = 0;
  void* stream = nullptr;
};
thread_local std::vector<Configuration>* configurations;

// cudaLaunchConfig_t
struct LaunchConfig {
  Dim3 grid, block;
  size_t shared;
  void* stream;
  void* attributes;
  unsigned attribute_count;
};

using GetProcAddress = int (*)(const char*, void**, int, uint64_t, int*);

// Finds the driver like the real runtime: dlopen, then the interposable dlsym, everything else through its result.
GetProcAddress Driver() {
  static const auto found = [] {
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    return reinterpret_cast<GetProcAddress>(driver != nullptr ? dlsym(driver, "cuGetProcAddress_v2") : nullptr);
  }();
  return found;
}

}  // namespace

FAKE(void**, __cudaRegisterFatBinary, void*) {
  static void* image;
  return &image;
}

FAKE(void, __cudaRegisterFunction, void**, const char* host_function, char*, const char* device_name, int, void*, void*,
     void*, void*, int*) {
  const std::lock_guard<std::mutex> guard(lock);
  Kernel*& kernel = Kernels()[host_function];
  if (kernel == nullptr) kernel = fake::New<Kernel>();
  kernel->name = device_name;
}

FAKE(char, __cudaInitModule, void**) { return 1; }

FAKE(int, __cudaGetKernel, void** kernel, const void* function) {
  *kernel = const_cast<Kernel*>(KernelOf(function));
  return 0;
}

FAKE(int, cudaGetKernel, void** kernel, const void* function) { return behave___cudaGetKernel(kernel, function); }
FAKE(int, cudaGetFuncBySymbol, void** function, const void* symbol) { return behave___cudaGetKernel(function, symbol); }

FAKE(unsigned, __cudaPushCallConfiguration, Dim3 grid, Dim3 block, size_t shared, void* stream) {
  if (configurations == nullptr) configurations = new std::vector<Configuration>;
  configurations->push_back({grid, block, shared, stream});
  return 0;
}

FAKE(int, __cudaPopCallConfiguration, Dim3* grid, Dim3* block, size_t* shared, void** stream) {
  if (configurations == nullptr || configurations->empty()) return 52;  // cudaErrorMissingConfiguration
  const Configuration& top = configurations->back();
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *stream = top.stream;
  configurations->pop_back();
  return 0;
}

FAKE(int, __cudaLaunchKernel, void* kernel, Dim3 grid, Dim3 block, void**, size_t shared, void* stream) {
  fake::LaunchKernel(KernelOf(kernel), grid, block, stream, static_cast<uint32_t>(shared));
  return 0;
}

FAKE(int, cudaLaunchKernel, const void* function, Dim3 grid, Dim3 block, void**, size_t shared, void* stream) {
  fake::LaunchKernel(KernelOf(function), grid, block, stream, static_cast<uint32_t>(shared));
  return 0;
}

FAKE(int, cudaLaunchCooperativeKernel, const void* function, Dim3 grid, Dim3 block, void** arguments, size_t shared,
     void* stream) {
  return behave_cudaLaunchKernel(function, grid, block, arguments, shared, stream);
}

FAKE(int, cudaLaunchKernelExC, const LaunchConfig* config, const void* function, void** arguments) {
  return behave_cudaLaunchKernel(function, config->grid, config->block, arguments, config->shared, config->stream);
}

// cudaFuncAttributes: 144 bytes; maxThreadsPerBlock is the first int after three sizes.
FAKE(int, cudaFuncGetAttributes, void* attributes, const void*) {
  memset(attributes, 0, 144);
  const int threads_registers_ptx_binary[] = {1024, 32, 90, 90};
  memcpy(static_cast<char*>(attributes) + 24, threads_registers_ptx_binary, sizeof threads_registers_ptx_binary);
  return 0;
}

FAKE(int, cudaOccupancyMaxActiveBlocksPerMultiprocessor, int* blocks, const void*, int threads, size_t) {
  *blocks = threads > 0 ? 2048 / threads : 1;
  return 0;
}

FAKE(int, cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int* blocks, const void* function, int threads,
     size_t shared, unsigned) {
  return behave_cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}

FAKE(int, cudaLibraryLoadData, void** library, const void*, void*, void*, unsigned, void*, void*, unsigned) {
  *library = fake::New<Kernel>();
  return 0;
}

FAKE(int, cudaLibraryGetKernel, void** kernel, void*, const char* name) {
  auto* fresh = fake::New<Kernel>();
  fresh->name = strdup(name);
  *kernel = fresh;
  return 0;
}

FAKE(int, cudaGetDriverEntryPointByVersion, const char* symbol, void** function, unsigned version, uint64_t flags,
     int* found) {
  *function = nullptr;
  int status = 1;  // CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, as of cudaDriverEntryPointQueryResult
  if (Driver() != nullptr) Driver()(symbol, function, static_cast<int>(version), flags, &status);
  if (found != nullptr) *found = status;
  return 0;
}

FAKE(int, cudaGetDriverEntryPoint, const char* symbol, void** function, uint64_t flags, int* found) {
  return behave_cudaGetDriverEntryPointByVersion(symbol, function, FAKE_CUDA_VERSION, flags, found);
}
