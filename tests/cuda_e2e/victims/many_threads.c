// Handles used by 8 threads at once. many_threads STEPS: each thread makes STEPS rounds of copies of its own size,
// products of its own shape with one shared cuBLAS handle, and executions of shared cuDNN plans with its own packs.
#include <pthread.h>

#include "cudnn_frontend.h"

enum { kThreads = 8 };

static int (*cudaMalloc)(void** out, size_t bytes);
static int (*cudaMemcpyAsync)(void* dst, const void* src, size_t bytes, int kind, void* stream);
static int (*cublasCreate_v2)(void** handle);
static int (*cublasDgemm_v2)(void* handle, int ta, int tb, int m, int n, int k, const double* alpha, const double* a,
                             int lda, const double* b, int ldb, const double* beta, double* c, int ldc);

static void *device, *blas, *handle;
static Plan plans[kMostPlans];
static int steps;

static void* Thread(void* number) {
  const int i = (int)(intptr_t)number;
  static char host[4096];
  const double one = 1;
  const int64_t uids[] = {kUidX, kUidW, kUidY};
  for (int step = 0; step < steps; ++step) {
    // The execution is this thread's first recorded call.
    void* pointers[] = {(char*)device + 64 * i, (char*)device + 4096, (char*)device + 8192 + 64 * i};
    void* pack = New(16);
    Set(pack, 1001, kVoid, 3, pointers);
    Set(pack, 1000, kInt64, 3, uids);
    Finalized(pack);
    Expect(cudnnBackendExecute(handle, plans[i % 2].descriptor, pack), 0, "cudnnBackendExecute");
    Destroy(pack);
    Expect(cudaMemcpyAsync(device, host, 100 + (size_t)i, 1, NULL), 0, "cudaMemcpyAsync");
    Expect(cublasDgemm_v2(blas, 0, 1, 10 + i, 20, 30, &one, device, 64, device, 64, &one, device, 64), 0,
           "cublasDgemm_v2");
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads];
  const Problem problem = {.n = 2, .c = 4, .h = 8, .w = 8, .k = 4, .r = 3, .pad = 1, .stride = 1};
  steps = argc > 1 ? atoi(argv[1]) : 1;
  void* library = Open("libcudart.so.13");
  LOAD(library, cudaMalloc);
  LOAD(library, cudaMemcpyAsync);
  library = Open("libcublas.so.13");
  LOAD(library, cublasCreate_v2);
  LOAD(library, cublasDgemm_v2);
  LoadCudnn(Open("libcudnn.so.9"));
  QUIET(cudaMalloc, &device, 1 << 20);
  QUIET(cublasCreate_v2, &blas);
  QUIET(cudnnCreate, &handle);
  printf("device %#llx plans %d\n", (long long)device, BuildPlans(handle, &problem, plans));
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, Thread, (void*)(intptr_t)i);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  return 0;
}
