// GPU work, one scenario per run: gpu_work SCENARIO [NUMBER]. Reports nothing: the fakes' log has the work.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda.h"
#include "tell.h"

static void FirstStub(void) { puts("not on a device"); }
static void SecondStub(void) { puts("also not on a device"); }
static void *device, *pinned, *streams[2];
static char pageable[4096];
static const dim3 grid = {7, 3, 2}, block = {32, 4, 1};

static void Start(void) {
  static int image;
  void** handle = __cudaRegisterFatBinary(&image);
  __cudaRegisterFunction(handle, (const char*)FirstStub, NULL, "_Z5firstPf", -1, NULL, NULL, NULL, NULL, NULL);
  __cudaRegisterFunction(handle, (const char*)SecondStub, NULL, "_Z6secondPfi", -1, NULL, NULL, NULL, NULL, NULL);
  QUIET(cudaMalloc, &device, 1 << 20);
  QUIET(cudaMallocHost, &pinned, 1 << 20);
  for (int i = 0; i < 2; ++i) QUIET(cudaStreamCreate, &streams[i]);
}

static void Launch(void (*stub)(void), void* stream) {
  QUIET(cudaLaunchKernel, (void*)stub, grid, block, NULL, 48, stream);
}

// Every kind of work, on one stream or alternating between two.
static void Everything(int stream_count) {
  for (int i = 0; i < 6; ++i) {
    void* stream = streams[i % stream_count];
    QUIET(cudaMemcpyAsync, device, pinned, 1000 + i, kHostToDevice, stream);
    Launch(FirstStub, stream);
    QUIET(cudaMemsetAsync, device, 7, 333 + i, stream);
    Launch(SecondStub, stream);
    QUIET(cudaMemcpyAsync, (char*)device + 65536, device, 2000 + i, kDeviceToDevice, stream);
    QUIET(cudaMemcpyAsync, pageable, device, 100 + i, kDeviceToHost, stream);
  }
  QUIET(cudaMemcpy, device, pageable, 4096, kHostToDevice);
}

// cudaMemcpy3DBatchOp
static void WithAttributes(void) {
  struct {
    struct {
      unsigned type;
      void* address;
      size_t row, layer, location;
    } source, destination;
    size_t width, height, depth, order_and_flags;
  } operation = {{1, pinned, 0, 0, 0}, {1, device, 0, 0, 0}, 30, 4, 5, 0};
  QUIET(cudaMemcpyWithAttributesAsync, device, pinned, 5000, NULL, streams[0]);
  QUIET(cudaMemcpy3DWithAttributesAsync, &operation, 0, streams[1]);
}

static void TwoDevices(void) {
  void* other;
  QUIET(cudaSetDevice, 1);
  QUIET(cudaMalloc, &other, 4096);
  Launch(FirstStub, NULL);
  QUIET(cudaMemcpyPeer, other, 1, device, 0, 4096);
  QUIET(cudaSetDevice, 0);
  Launch(SecondStub, NULL);
}

static void Graph(void) {
  void *graph, *executable;
  QUIET(cudaStreamBeginCapture, streams[0], 2);
  QUIET(cudaMemcpyAsync, device, pinned, 512, kHostToDevice, streams[0]);
  Launch(FirstStub, streams[0]);
  Launch(SecondStub, streams[0]);
  QUIET(cudaStreamEndCapture, streams[0], &graph);
  QUIET(cudaGraphInstantiate, &executable, graph, 0);
  for (int i = 0; i < 3; ++i) QUIET(cudaGraphLaunch, executable, streams[0]);
  QUIET(cudaStreamSynchronize, streams[0]);
}

// The child continues its parent's work, which CUDA does not allow: it only must not crash.
static void Fork(void) {
  Launch(FirstStub, streams[0]);
  fflush(stdout);
  if (fork() == 0) {
    for (int i = 0; i < 3; ++i) Launch(SecondStub, streams[0]);
    exit(5);
  }
  int status = 0;
  wait(&status);
  printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  Launch(SecondStub, streams[0]);
}

static void* LaunchMany(void* count) {
  for (long i = 0; i < (long)count; ++i) Launch(i % 2 == 0 ? FirstStub : SecondStub, streams[i % 2]);
  return NULL;
}

static void Threads(long count) {
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, &LaunchMany, (void*)count);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
}

int main(int argc, char** argv) {
  if (argc < 2) return 1;
  const char* scenario = argv[1];
  const long number = argc > 2 ? atol(argv[2]) : 0;
  Start();
  if (strcmp(scenario, "streams") == 0) Everything((int)number);
  if (strcmp(scenario, "attributes") == 0) WithAttributes();
  if (strcmp(scenario, "devices") == 0) TwoDevices();
  if (strcmp(scenario, "graph") == 0) Graph();
  if (strcmp(scenario, "fork") == 0) Fork();
  if (strcmp(scenario, "many") == 0) LaunchMany((void*)number);
  for (long i = 0; strcmp(scenario, "bursts") == 0 && i < number; ++i) {  // with time to collect what is complete
    LaunchMany((void*)2000L);
    usleep(250 * 1000);
  }
  if (strcmp(scenario, "threads") == 0) Threads(number);
  if (strcmp(scenario, "killed") == 0) {
    LaunchMany((void*)10L);
    sleep(2);  // CUPTI is asked for completed records every second
    _exit(3);
  }
  if (strcmp(scenario, "busy") == 0) {  // never idle; three quarters of the work completes
    void* event;
    QUIET(cudaEventCreate, &event);
    for (long i = 0; i < number; ++i) {
      Launch(FirstStub, streams[0]);
      if (i == number * 3 / 4) QUIET(cudaEventRecord, event, streams[0]);
    }
    QUIET(cudaEventSynchronize, event);
    usleep(300 * 1000);
    _exit(3);
  }
  if (strcmp(scenario, "reset") == 0) {
    Everything(1);
    QUIET(cudaDeviceReset);
    QUIET(cudaMalloc, &device, 1 << 20);
    Launch(FirstStub, NULL);
  }
  return 0;
}
