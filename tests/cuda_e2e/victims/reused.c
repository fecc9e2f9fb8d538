// Plans, packs and descriptors that come and go: the library gives the address of a destroyed one to the next.
// reused COUNT
#include "cudnn_frontend.h"

static int (*cudaMalloc)(void** out, size_t bytes);

int main(int argc, char** argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 10;
  void *handle, *device, *library = Open("libcudart.so.13"), *seen[1000];
  int reused = 0;
  LOAD(library, cudaMalloc);
  LoadCudnn(Open("libcudnn.so.9"));
  DO_PLAIN(cudaMalloc, &device, 1 << 20);
  DO_PLAIN(cudnnCreate, &handle);
  for (int i = 0; i < count; ++i) {
    const Problem problem = {.n = 1 + i % 7,
                             .c = 1 + i % 5,
                             .h = 9,
                             .w = 10,
                             .k = 3 + i % 4,
                             .r = 3,
                             .pad = 1,
                             .stride = 1 + i % 2,
                             .channels_last = i % 3 == 0,
                             .data_type = i % 2 * 2};
    Plan plans[kMostPlans];
    const int built = BuildPlans(handle, &problem, plans);
    const Plan* plan = &plans[i % built];
    seen[i] = plan->descriptor;
    for (int k = 0; k < i; ++k) {
      if (seen[k] != seen[i]) continue;
      ++reused;
      break;
    }
    ExecutePlan(handle, PlanFacts(&problem, plan, ""), plan, device, (char*)device + 4096,
                (char*)device + 8192 + 64 * i);
    for (int k = 0; k < built; ++k) Destroy(plans[k].descriptor);
  }
  printf("reused %d\n", reused);
  return 0;
}
