// Calls functions of the CUDA runtime and of cuDNN and prints, as one JSON object, what its thread paid for it. Unaware
// of dlhook.
//   cuda_caller KIND BATCHES CALLS
// Makes BATCHES times CALLS calls, a multiple of 12. Kernels are registered, plans made and executed before, which is
// not measured.
//   thread_ns      [CPU time of the thread per call, median of the batches]
// KIND:
//   launch         __cudaLaunchKernel with 40 registered kernels from four call sites
//   copy           cudaMemcpyAsync in three directions between 16 pinned buffers and 16 of the device
//   copy_new       cudaMemcpyAsync, each from a host address that was never copied from before
//   pack           a variant pack as PyTorch makes one: create, pointers, ids, workspace, finalize, destroy
//   pack_cold      the same in a program that has called nothing else
//   execute        cudnnBackendExecute of eight plans with two variant packs that stay
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_time.h"
#include "cuda_api.h"

enum { kKernels = 40, kPlans = 8, kWarmUp = 8 };

static void* g_kernels[kKernels];
static void* g_plans[kPlans];
static void* g_packs[2];
static char g_host[16][64], g_device[16][64];

static void RegisterKernels(void) {
  static char functions[kKernels][8];
  static char names[kKernels][96];
  void** handle = __cudaRegisterFatBinary(names);
  for (int i = 0; i < kKernels; ++i) {
    snprintf(names[i], sizeof names[i], "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEE%dEvi",
             i);
    __cudaRegisterFunction(handle, functions[i], functions[i], names[i], -1, NULL, NULL, NULL, NULL, NULL);
    if (__cudaGetKernel(&g_kernels[i], functions[i]) != 0) exit(3);
  }
}

static void* Made(int type) {
  void* descriptor;
  if (cudnnBackendCreateDescriptor(type, &descriptor) != 0) exit(3);
  return descriptor;
}

static void SetNumber(void* descriptor, int name, int64_t value) {
  cudnnBackendSetAttribute(descriptor, name, kInt64, 1, &value);
}

static void SetChild(void* descriptor, int name, void* child) {
  cudnnBackendSetAttribute(descriptor, name, kDescriptor, 1, &child);
}

static void* Tensor(int64_t id, int64_t size) {
  void* tensor = Made(kTensor);
  int type = 0;
  int64_t dimensions[] = {8, size, 32, 32}, strides[] = {1024 * size, 1024, 32, 1};
  cudnnBackendSetAttribute(tensor, kTensorType, kDataType, 1, &type);
  cudnnBackendSetAttribute(tensor, kTensorDimensions, kInt64, 4, dimensions);
  cudnnBackendSetAttribute(tensor, kTensorStrides, kInt64, 4, strides);
  SetNumber(tensor, kTensorId, id);
  cudnnBackendFinalize(tensor);
  return tensor;
}

// A convolution; its parts are not destroyed, which corresponds to the library's own copies.
static void* Plan(int64_t size) {
  void* operation = Made(kConvolutionForward);
  SetChild(operation, kForwardConvolution, Made(kConvolution));
  SetChild(operation, kForwardX, Tensor('x', size));
  SetChild(operation, kForwardW, Tensor('w', size));
  SetChild(operation, kForwardY, Tensor('y', size));
  void* graph = Made(kOperationGraph);
  SetChild(graph, kGraphOperations, operation);
  void* engine = Made(kEngine);
  SetChild(engine, kEngineGraph, graph);
  void* configuration = Made(kEngineConfiguration);
  SetChild(configuration, kConfigurationEngine, engine);
  void* plan = Made(kPlan);
  SetChild(plan, kPlanConfiguration, configuration);
  cudnnBackendFinalize(plan);
  return plan;
}

static void SetPack(void* pack, int i) {
  static const int64_t ids[] = {'x', 'y', 'w'};
  void* pointers[] = {g_device[i % 16], g_device[(i + 1) % 16], g_device[(i + 2) % 16]};
  void* workspace = g_device[0];
  cudnnBackendSetAttribute(pack, kPackPointers, kPointer, 3, pointers);
  cudnnBackendSetAttribute(pack, kPackIds, kInt64, 3, ids);
  cudnnBackendSetAttribute(pack, kPackWorkspace, kPointer, 1, &workspace);
  cudnnBackendFinalize(pack);
}

static void Launches(int calls) {
  struct Dim3 grid = {1, 1, 1}, block = {128, 1, 1};
  void* args[4] = {grid.x ? g_host : NULL};
  for (int i = 0, kernel = 0; i < calls; i += 4, kernel = kernel == kKernels - 4 ? 0 : kernel + 4) {
    grid.x = (unsigned)i & 1023;
    __cudaLaunchKernel(g_kernels[kernel], grid, block, args, 0, NULL);
    __cudaLaunchKernel(g_kernels[kernel + 1], grid, block, args, 0, NULL);
    __cudaLaunchKernel(g_kernels[kernel + 2], grid, block, args, 1024, NULL);
    __cudaLaunchKernel(g_kernels[kernel + 3], grid, block, args, 0, NULL);
  }
}

static void Copies(int calls) {
  for (int i = 0; i < calls; i += 4) {
    size_t bytes = 256 + ((size_t)i & 4095);
    cudaMemcpyAsync(g_device[i % 16], g_host[i % 16], bytes, kHostToDevice, NULL);
    cudaMemcpyAsync(g_device[(i + 1) % 16], g_device[i % 16], bytes, kDeviceToDevice, NULL);
    cudaMemcpyAsync(g_host[(i + 1) % 16], g_device[(i + 1) % 16], bytes, kDeviceToHost, NULL);
    cudaMemcpyAsync(g_device[(i + 2) % 16], g_host[(i + 2) % 16], bytes, kHostToDevice, NULL);
  }
}

static void NewCopies(int calls) {
  static uintptr_t next = 1u << 30;  // only an address: the stub copies nothing
  for (int i = 0; i < calls; ++i, next += 64) cudaMemcpyAsync(g_device[i % 16], (void*)next, 256, kHostToDevice, NULL);
}

static void Packs(int calls) {
  for (int i = 0; i < calls; i += 6) {
    void* pack = Made(kVariantPack);
    SetPack(pack, i);
    cudnnBackendDestroyDescriptor(pack);
  }
}

static void Executions(int calls) {
  for (int i = 0; i < calls; i += 2) {
    cudnnBackendExecute(g_host, g_plans[i % kPlans], g_packs[0]);
    cudnnBackendExecute(g_host, g_plans[(i + 1) % kPlans], g_packs[1]);
  }
}

struct Kind {
  const char* name;
  void (*call)(int calls);
};
static const struct Kind kKinds[] = {{"launch", &Launches}, {"copy", &Copies},     {"copy_new", &NewCopies},
                                     {"pack", &Packs},      {"pack_cold", &Packs}, {"execute", &Executions}};

static const struct Kind* FindKind(const char* name) {
  for (size_t i = 0; i < sizeof kKinds / sizeof *kKinds; ++i) {
    if (strcmp(kKinds[i].name, name) == 0) return &kKinds[i];
  }
  fprintf(stderr, "cuda_caller: unknown kind '%s'\n", name);
  exit(2);
}

static void Prepare(void) {
  RegisterKernels();
  for (int i = 0; i < kPlans; ++i) g_plans[i] = Plan(16 + i);
  for (int i = 0; i < 2; ++i) SetPack(g_packs[i] = Made(kVariantPack), i);
  Executions(kWarmUp);
}

int main(int argc, char** argv) {
  if (argc != 4) return fprintf(stderr, "usage: cuda_caller KIND BATCHES CALLS\n"), 2;
  const struct Kind* kind = FindKind(argv[1]);
  int batches = atoi(argv[2]), calls = atoi(argv[3]);
  if (batches <= 0 || calls <= 0 || calls % 12 != 0) return 2;
  if (strcmp(kind->name, "pack_cold") != 0) Prepare();
  double* batch_ns = calloc((size_t)batches, sizeof(double));
  for (int i = 0; i < batches; ++i) {
    double before = Nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    kind->call(calls);
    batch_ns[i] = (Nanoseconds(CLOCK_THREAD_CPUTIME_ID) - before) / calls;
  }
  printf("{\"thread_ns\": [%.4f]}\n", Median(batch_ns, batches));
  return 0;
}
