// A program with a statically linked CUDA runtime, as the driver sees it: dlopen of libcuda.so.1, dlsym of
// cuGetProcAddress_v2, everything else by pointers that this returned for a CUDA version and a kind of default stream.
//   driver call VERSION FLAGS   copies, launches, graphs through the variants of that version
//   driver ask                  reads lines SYMBOL VERSION FLAGS; answers each with the object that holds the function
#define _GNU_SOURCE
#include <link.h>

#include "tell.h"

static int (*cuGetProcAddress_v2)(const char* symbol, void** out, int version, uint64_t flags, int* found);
static int version, flags, telling;

static void* Get(const char* symbol) {
  void* function = NULL;
  int found = -1;
  if (telling) puts("call cuGetProcAddress_v2");
  if (cuGetProcAddress_v2(symbol, &function, version, (uint64_t)flags, &found) != 0 || found != 0) function = NULL;
  return function;
}

// The name in the driver's own table for a request: `ptsz` if streams are per thread.
static const char* Named(const char* name, const char* suffix) {
  static __thread char text[128];
  snprintf(text, sizeof text, "%s%s", name, flags == 2 ? suffix : "");
  return text;
}

static void *device, *pinned, *stream;
static char pageable[4096];

static void Copies(void) {
  int (*alloc)(void**, size_t) = Get("cuMemAlloc");
  int (*host)(void**, size_t, unsigned) = Get("cuMemHostAlloc");
  int (*up)(void*, const void*, size_t) = Get("cuMemcpyHtoD");
  int (*down)(void*, const void*, size_t, void*) = Get("cuMemcpyDtoHAsync");
  int (*any)(void*, const void*, size_t) = Get("cuMemcpy");
  int (*set)(void*, unsigned, size_t, void*) = Get("cuMemsetD32Async");
  int (*set2d)(void*, size_t, unsigned short, size_t, size_t) = Get("cuMemsetD2D16");
  DO_AS("cuMemAlloc_v2", "allocation.kind=DEVICE allocation.bytes=70000", alloc, &device, 70000);
  DO_AS("cuMemHostAlloc", "allocation.kind=PINNED allocation.bytes=70001", host, &pinned, 70001, 3);
  DO_AS(Named("cuMemcpyHtoD_v2", "_ptds"), "copy.direction=HOST_TO_DEVICE copy.bytes=701 copy.host_memory=PAGEABLE", up,
        device, pageable, 701);
  DO_AS(Named("cuMemcpyDtoHAsync_v2", "_ptsz"),
        "copy.direction=DEVICE_TO_HOST copy.bytes=702 copy.host_memory=PINNED copy.asynchronous=true", down, pinned,
        device, 702, stream);
  DO_AS(Named("cuMemcpy", "_ptds"), "copy.direction=HOST_TO_DEVICE copy.bytes=703 copy.host_memory=PINNED", any, device,
        pinned, 703);
  DO_AS(Named("cuMemsetD32Async", "_ptsz"), "copy.direction=SET copy.bytes=400 copy.asynchronous=true", set, device, 7,
        100, stream);
  DO_AS(Named("cuMemsetD2D16_v2", "_ptds"), "copy.direction=SET copy.bytes=60 copy.width_bytes=10 copy.height=6", set2d,
        device, 64, 7, 5, 6);
}

// CUDA_MEMCPY2D_v2, CUDA_MEMCPY3D_v2
typedef struct {
  size_t src_x, src_y;
  unsigned src_type;
  const void *src_host, *src_device, *src_array;
  size_t src_pitch, dst_x, dst_y;
  unsigned dst_type;
  void *dst_host, *dst_device, *dst_array;
  size_t dst_pitch, width, height;
} Copy2d;
typedef struct {
  size_t src_x, src_y, src_z, src_lod;
  unsigned src_type;
  const void *src_host, *src_device, *src_array, *reserved0;
  size_t src_pitch, src_height, dst_x, dst_y, dst_z, dst_lod;
  unsigned dst_type;
  void *dst_host, *dst_device, *dst_array, *reserved1;
  size_t dst_pitch, dst_height, width, height, depth;
} Copy3d;

static void Shaped(void) {
  int (*plane)(const Copy2d*) = Get("cuMemcpy2D");
  int (*plane_async)(const Copy2d*, void*) = Get("cuMemcpy2DAsync");
  int (*volume)(const Copy3d*) = Get("cuMemcpy3D");
  Copy2d up = {.src_type = 1, .src_host = pageable, .dst_type = 2, .dst_device = device, .width = 12, .height = 11};
  Copy2d across = {.src_type = 2, .src_device = device, .dst_type = 2, .dst_device = device, .width = 13, .height = 11};
  Copy3d down = {
      .src_type = 4, .src_device = device, .dst_type = 1, .dst_host = pinned, .width = 3, .height = 4, .depth = 5};
  DO_AS(Named("cuMemcpy2D_v2", "_ptds"),
        "copy.direction=HOST_TO_DEVICE copy.bytes=132 copy.width_bytes=12 copy.height=11 copy.host_memory=PAGEABLE",
        plane, &up);
  DO_AS(Named("cuMemcpy2DAsync_v2", "_ptsz"),
        "copy.direction=DEVICE_TO_DEVICE copy.bytes=143 copy.width_bytes=13 copy.height=11 copy.asynchronous=true",
        plane_async, &across, stream);
  DO_AS(Named("cuMemcpy3D_v2", "_ptds"),
        "copy.direction=DEVICE_TO_HOST copy.bytes=60 copy.width_bytes=3 copy.height=4 copy.depth=5 "
        "copy.host_memory=PINNED",
        volume, &down);
}

// CUlaunchConfig
typedef struct {
  unsigned grid[3], block[3], shared;
  void *stream, *attributes;
  unsigned count;
} LaunchConfig;

static void Launches(void) {
  void *module, *kernel;
  int (*load)(void**, const void*) = Get("cuModuleLoadData");
  int (*get)(void**, void*, const char*) = Get("cuModuleGetFunction");
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**) =
      Get("cuLaunchKernel");
  int (*cooperative)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**) =
      Get("cuLaunchCooperativeKernel");
  int (*launch_ex)(const LaunchConfig*, void*, void**, void**) = version >= 11060 ? Get("cuLaunchKernelEx") : NULL;
  DO_AS("cuModuleLoadData", "", load, &module, "image");
  DO_AS("cuModuleGetFunction", "", get, &kernel, module, "saxpy");
  const char* shape =
      "launch.kernel=saxpy launch.grid_x=1 launch.grid_y=2 launch.grid_z=3 launch.block_x=4 launch.block_y=5 "
      "launch.block_z=6 "
      "launch.shared_bytes=7";
  char both[256];
  snprintf(both, sizeof both, "%s launch.cooperative=true", shape);
  LaunchConfig config = {{1, 2, 3}, {4, 5, 6}, 7, stream, NULL, 0};
  DO_AS(Named("cuLaunchKernel", "_ptsz"), shape, launch, kernel, 1, 2, 3, 4, 5, 6, 7, stream, NULL, NULL);
  DO_AS(Named("cuLaunchCooperativeKernel", "_ptsz"), both, cooperative, kernel, 1, 2, 3, 4, 5, 6, 7, stream, NULL);
  if (launch_ex != NULL) DO_AS(Named("cuLaunchKernelEx", "_ptsz"), shape, launch_ex, &config, kernel, NULL, NULL);
}

// Names with another argument list from some version on.
static void Changed(void) {
  void *executable = (void*)0x111, *graph = (void*)0x222, *a = (void*)0x333, *b = (void*)0x444;
  size_t five = 5;
  void *to[] = {device}, *from[] = {pinned};
  size_t sizes[] = {64}, none = 0, failed = 0;
  void* instantiate = Get("cuGraphInstantiate");
  void* update = Get("cuGraphExecUpdate");
  void* batch = version >= 12080 ? Get("cuMemcpyBatchAsync") : NULL;
  if (version < 12000) {
    DO_AS("cuGraphInstantiate_v2", "", ((int (*)(void**, void*, void**, char*, size_t))instantiate), &executable, graph,
          &a, (char*)&failed, five);
    DO_AS("cuGraphExecUpdate", "", ((int (*)(void*, void*, void**, void*))update), executable, graph, &a, b);
  } else {
    DO_AS("cuGraphInstantiateWithFlags", "", ((int (*)(void**, void*, uint64_t))instantiate), &executable, graph,
          0x123456789abcu);
    DO_AS("cuGraphExecUpdate_v2", "", ((int (*)(void*, void*, void*))update), executable, graph, b);
  }
  const char* facts =
      "copy.direction=HOST_TO_DEVICE copy.bytes=64 copy.copies=1 copy.host_memory=PINNED copy.asynchronous=true";
  if (batch != NULL && version < 13000) {
    DO_AS(Named("cuMemcpyBatchAsync", "_ptsz"), facts,
          ((int (*)(void**, void**, size_t*, size_t, void*, size_t*, size_t, size_t*, void*))batch), to, from, sizes, 1,
          a, &none, 1, &failed, stream);
  } else if (batch != NULL) {
    DO_AS(Named("cuMemcpyBatchAsync_v2", "_ptsz"), facts,
          ((int (*)(void**, void**, size_t*, size_t, void*, size_t*, size_t, void*))batch), to, from, sizes, 1, a,
          &none, 1, stream);
  }
}

static int Ask(void) {
  char symbol[128];
  while (scanf("%127s %d %d", symbol, &version, &flags) == 3) {
    struct dl_find_object found = {0};  // the object there; dladdr gives its owner
    void* function = Get(symbol);
    const char* file = function != NULL && _dl_find_object(function, &found) == 0 ? found.dlfo_link_map->l_name : "-";
    const char* slash = strrchr(file, '/');
    printf("%s %d %d %s\n", symbol, version, flags, slash != NULL ? slash + 1 : file);
  }
  return 0;
}

int main(int argc, char** argv) {
  void* library = Open("libcuda.so.1");
  LOAD(library, cuGetProcAddress_v2);
  if (argc < 4) return Ask();
  version = atoi(argv[2]);
  flags = atoi(argv[3]);
  telling = 1;
  int (*init)(unsigned) = Get("cuInit");
  int (*create)(void**, unsigned) = Get("cuStreamCreate");
  int (*synchronize)(void*) = Get("cuStreamSynchronize");
  DO_AS("cuInit", "", init, 0);
  DO_AS("cuStreamCreate", "", create, &stream, 1);
  Copies();
  Shaped();
  Launches();
  Changed();
  DO_AS(Named("cuStreamSynchronize", "_ptsz"), "", synchronize, stream);
  return 0;
}
