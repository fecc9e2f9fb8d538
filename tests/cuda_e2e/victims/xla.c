// A TensorFlow/XLA client: every library by dlopen(RTLD_LOCAL) and one stub per function by dlsym; memory, copies and
// streams by the driver; convolutions by cudnn-frontend, each candidate timed between two events, the fastest one used
// from then on, then once more from its JSON; products by cuBLAS.
#include "cudnn_frontend.h"

static int (*cuInit)(unsigned flags);
static int (*cuDevicePrimaryCtxRetain)(void** context, int device);
static int (*cuMemAlloc_v2)(void** out, size_t bytes);
static int (*cuMemFree_v2)(void* pointer);
static int (*cuMemHostAlloc)(void** out, size_t bytes, unsigned flags);
static int (*cuStreamCreate)(void** out, unsigned flags);
static int (*cuStreamSynchronize)(void* stream);
static int (*cuEventCreate)(void** out, unsigned flags);
static int (*cuEventRecord)(void* event, void* stream);
static int (*cuEventSynchronize)(void* event);
static int (*cuEventElapsedTime)(float* milliseconds, void* start, void* end);
static int (*cuMemcpyHtoDAsync_v2)(void* dst, const void* src, size_t bytes, void* stream);
static int (*cuMemcpyDtoHAsync_v2)(void* dst, const void* src, size_t bytes, void* stream);
static int (*cuMemcpyDtoD_v2)(void* dst, const void* src, size_t bytes);
static int (*cuMemsetD32Async)(void* dst, unsigned value, size_t count, void* stream);
static int (*cuModuleLoadData)(void** module, const void* image);
static int (*cuModuleGetFunction)(void** function, void* module, const char* name);
static int (*cuLaunchKernel)(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                             unsigned bz, unsigned shared, void* stream, void** arguments, void** extra);
static int (*cudaGetDeviceCount)(int* count);
static int (*cublasCreate_v2)(void** handle);
static int (*cublasSetStream_v2)(void* handle, void* stream);
static int (*cublasSgemm_v2)(void* handle, int ta, int tb, int m, int n, int k, const float* alpha, const float* a,
                             int lda, const float* b, int ldb, const float* beta, float* c, int ldc);
static int (*ncclGetUniqueId)(void* id);

static void *device, *pinned, *stream, *handle;

static void LoadDriver(void) {
  void* library = Open("libcuda.so.1");
  LOAD(library, cuInit);
  LOAD(library, cuDevicePrimaryCtxRetain);
  LOAD(library, cuMemAlloc_v2);
  LOAD(library, cuMemFree_v2);
  LOAD(library, cuMemHostAlloc);
  LOAD(library, cuStreamCreate);
  LOAD(library, cuStreamSynchronize);
  LOAD(library, cuEventCreate);
  LOAD(library, cuEventRecord);
  LOAD(library, cuEventSynchronize);
  LOAD(library, cuEventElapsedTime);
  LOAD(library, cuMemcpyHtoDAsync_v2);
  LOAD(library, cuMemcpyDtoHAsync_v2);
  LOAD(library, cuMemcpyDtoD_v2);
  LOAD(library, cuMemsetD32Async);
  LOAD(library, cuModuleLoadData);
  LOAD(library, cuModuleGetFunction);
  LOAD(library, cuLaunchKernel);
}

static void Start(void) {
  void* context;
  int count;
  LoadDriver();
  void* runtime = Open("libcudart.so.13");
  LOAD(runtime, cudaGetDeviceCount);
  DO_PLAIN(cuInit, 0);
  DO_PLAIN(cuDevicePrimaryCtxRetain, &context, 0);
  QUIET(cudaGetDeviceCount, &count);
  DO("allocation.kind=DEVICE allocation.bytes=1048576", cuMemAlloc_v2, &device, 1 << 20);
  DO("allocation.kind=PINNED allocation.bytes=65536", cuMemHostAlloc, &pinned, 1 << 16, 1);
  DO_PLAIN(cuStreamCreate, &stream, 1);
}

static void Copies(void) {
  static char pageable[4096];
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=4000 copy.asynchronous=true copy.host_memory=PINNED",
     cuMemcpyHtoDAsync_v2, device, pinned, 4000, stream);
  DO("copy.direction=HOST_TO_DEVICE copy.bytes=4001 copy.asynchronous=true copy.host_memory=PAGEABLE",
     cuMemcpyHtoDAsync_v2, device, pageable, 4001, stream);
  DO("copy.direction=DEVICE_TO_HOST copy.bytes=4002 copy.asynchronous=true copy.host_memory=PINNED",
     cuMemcpyDtoHAsync_v2, pinned, device, 4002, stream);
  DO("copy.direction=DEVICE_TO_DEVICE copy.bytes=4003", cuMemcpyDtoD_v2, (char*)device + 8192, device, 4003);
  DO("copy.direction=SET copy.bytes=404 copy.asynchronous=true", cuMemsetD32Async, device, 5, 101, stream);
}

static void Kernels(void) {
  void *module, *fusion;
  DO_PLAIN(cuModuleLoadData, &module, "image");
  DO_PLAIN(cuModuleGetFunction, &fusion, module, "fusion_12");
  for (unsigned i = 1; i <= 3; ++i) {
    DO(Facts("launch.kernel=fusion_12 launch.grid_x=%u launch.grid_y=1 launch.grid_z=1 launch.block_x=128 "
             "launch.block_y=1 "
             "launch.block_z=1 launch.shared_bytes=64",
             i),
       cuLaunchKernel, fusion, i, 1, 1, 128, 1, 1, 64, stream, NULL, NULL);
  }
}

// Tries every plan, twice over all; returns the place of the fastest.
static int Profile(const Problem* problem, const Plan* plans, int count) {
  void *start, *end;
  float fastest = 1e9f;
  int best = 0;
  DO_PLAIN(cuEventCreate, &start, 0);
  DO_PLAIN(cuEventCreate, &end, 0);
  for (int i = 0; i < count; ++i) {
    float milliseconds;
    DO_PLAIN(cuEventRecord, start, stream);
    ExecutePlan(handle, PlanFacts(problem, &plans[i], ""), &plans[i], device, (char*)device + 65536,
                (char*)device + 131072);
    DO_PLAIN(cuEventRecord, end, stream);
    DO_PLAIN(cuEventSynchronize, end);
    DO_PLAIN(cuEventElapsedTime, &milliseconds, start, end);
    if (milliseconds >= fastest) continue;
    fastest = milliseconds;
    best = i;
  }
  printf("chosen %d of %d\n", (int)plans[best].engine, count);
  return best;
}

// The plan's JSON, from which XLA's cache builds it again.
static Plan FromJson(const Plan* plan, char* json) {
  int64_t bytes = 0;
  QUIET(cudnnBackendGetAttribute, plan->descriptor, 405, kChar, 0, &bytes, NULL);
  QUIET(cudnnBackendGetAttribute, plan->descriptor, 405, kChar, bytes, &bytes, json);
  Plan again = *plan;
  again.descriptor = New(5);
  Set(again.descriptor, 400, kHandle, 1, &handle);
  Set(again.descriptor, 405, kChar, (int64_t)strlen(json), json);
  Finalized(again.descriptor);
  return again;
}

static void Convolutions(void) {
  Problem problem = {
      .n = 8, .c = 64, .h = 28, .w = 28, .k = 128, .r = 3, .pad = 1, .stride = 1, .channels_last = 1, .data_type = 2};
  LoadCudnn(Open("libcudnn.so.9"));
  DO_PLAIN(cudnnCreate, &handle);
  QUIET(cudnnSetStream, handle, stream);
  for (int i = 0; i < 2; ++i) {
    char json[512];
    Plan plans[kMostPlans];
    const int count = BuildPlans(handle, &problem, plans);
    const Plan* best = &plans[Profile(&problem, plans, count)];
    for (int step = 0; step < 5; ++step) {
      ExecutePlan(handle, PlanFacts(&problem, best, ""), best, device, (char*)device + 65536,
                  (char*)device + 131072 + 512 * step);
    }
    Plan again = FromJson(best, json);
    ExecutePlan(handle, Facts("cudnn.plan.json=%s", json), &again, device, (char*)device + 65536,
                (char*)device + 131072);
    for (int plan = 0; plan < count; ++plan) Destroy(plans[plan].descriptor);
    problem = (Problem){
        .n = 4, .c = 3, .h = 32, .w = 30, .k = 16, .r = 5, .pad = 2, .stride = 2, .data_type = 0, .with_relu = 1};
  }
}

static void Products(void) {
  void* library = Open("libcublas.so.13");
  void* blas;
  const float one = 1, zero = 0;
  LOAD(library, cublasCreate_v2);
  LOAD(library, cublasSetStream_v2);
  LOAD(library, cublasSgemm_v2);
  DO_PLAIN(cublasCreate_v2, &blas);
  QUIET(cublasSetStream_v2, blas, stream);
  DO("gemm.m=10 gemm.n=20 gemm.k=30 gemm.trans_a=T gemm.trans_b=N gemm.lda=31 gemm.ldb=32 gemm.ldc=11 gemm.a_type=F32",
     cublasSgemm_v2, blas, 1, 0, 10, 20, 30, &one, device, 31, device, 32, &zero, device, 11);
  char id[128];
  void* nccl = Open("libnccl.so.2");
  LOAD(nccl, ncclGetUniqueId);
  DO_PLAIN(ncclGetUniqueId, id);
}

int main(void) {
  Start();
  Copies();
  Kernels();
  Convolutions();
  Products();
  DO_PLAIN(cuStreamSynchronize, stream);
  DO("allocation.kind=DEVICE allocation.is_free=true", cuMemFree_v2, device);
  return 0;
}
