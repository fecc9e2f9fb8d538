// A graph that is not captured: cuDNN adds a plan's kernels to it (cudnnBackendPopulateCudaGraph). It is launched
// twice.
#include "cudnn_frontend.h"

static int (*cudaMalloc)(void** out, size_t bytes);
static int (*cudaStreamCreate)(void** out);
static int (*cudaStreamSynchronize)(void* stream);
static int (*cudaGraphCreate)(void** graph, unsigned flags);
static int (*cudaGraphInstantiate)(void** executable, void* graph, unsigned long long flags);
static int (*cudaGraphLaunch)(void* executable, void* stream);
static int (*cudnnBackendPopulateCudaGraph)(void* handle, void* plan, void* pack, void* graph);

static void Load(void) {
  void* library = Open("libcudart.so.13");
  LOAD(library, cudaMalloc);
  LOAD(library, cudaStreamCreate);
  LOAD(library, cudaStreamSynchronize);
  LOAD(library, cudaGraphCreate);
  LOAD(library, cudaGraphInstantiate);
  LOAD(library, cudaGraphLaunch);
  library = Open("libcudnn.so.9");
  LoadCudnn(library);
  LOAD(library, cudnnBackendPopulateCudaGraph);
}

int main(void) {
  static Plan plans[kMostPlans];
  const Problem problem = {.n = 2, .c = 4, .h = 8, .w = 8, .k = 4, .r = 3, .pad = 1, .stride = 1};
  const int64_t uids[] = {kUidX, kUidW, kUidY};
  void *device, *stream, *handle, *graph, *executable, *workspace = NULL;
  Load();
  QUIET(cudaMalloc, &device, 1 << 20);
  QUIET(cudaStreamCreate, &stream);
  QUIET(cudnnCreate, &handle);
  if (BuildPlans(handle, &problem, plans) < 1) return 1;
  void* pointers[] = {device, (char*)device + 4096, (char*)device + 8192};
  void* pack = New(16);
  Set(pack, 1001, kVoid, 3, pointers);
  Set(pack, 1000, kInt64, 3, uids);
  Set(pack, 1003, kVoid, 1, &workspace);
  Finalized(pack);
  QUIET(cudaGraphCreate, &graph, 0);
  QUIET(cudnnBackendPopulateCudaGraph, handle, plans[0].descriptor, pack, graph);
  QUIET(cudaGraphInstantiate, &executable, graph, 0);
  for (int i = 0; i < 2; ++i) QUIET(cudaGraphLaunch, executable, stream);
  QUIET(cudaStreamSynchronize, stream);
  return 0;
}
