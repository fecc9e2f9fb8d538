// A minimal tracer of CUPTI's activities, against which run.py measures dlhook's overhead. The driver loads it
// (CUDA_INJECTION64_PATH). Kernels, copies and memsets are traced into buffers of 4 MiB, and every record is read and
// counted.
//
// BARE_CUPTI_COUNTS: the file that it writes at the process's end: "kernels copies sets dropped".
//
// Built on the machine with the GPU, against its cupti.h; functions are looked up in the copy of CUPTI that the program
// has mapped.
#define _GNU_SOURCE
#include <cupti.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { kBufferBytes = 4 << 20, kAlignment = 8 };

static atomic_ulong g_kernels, g_copies, g_sets, g_dropped;
static __typeof__(&cuptiActivityGetNextRecord) g_next_record;
static __typeof__(&cuptiActivityGetNumDroppedRecords) g_dropped_records;
static __typeof__(&cuptiActivityFlushAll) g_flush_all;

static void CUPTIAPI RequestBuffer(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = aligned_alloc(kAlignment, kBufferBytes);
  *size = *buffer == NULL ? 0 : kBufferBytes;
  *max_records = 0;
}

static void Count(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      atomic_fetch_add(&g_kernels, 1);
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      atomic_fetch_add(&g_copies, 1);
      break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      atomic_fetch_add(&g_sets, 1);
      break;
    default:
      break;
  }
}

static void CUPTIAPI TakeBuffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid) {
  (void)size;
  CUpti_Activity* record = NULL;
  while (valid > 0 && g_next_record(buffer, valid, &record) == CUPTI_SUCCESS) Count(record);
  size_t dropped = 0;
  if (g_dropped_records(context, stream, &dropped) == CUPTI_SUCCESS) atomic_fetch_add(&g_dropped, dropped);
  free(buffer);
}

static void Finish(void) {
  g_flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const char* path = getenv("BARE_CUPTI_COUNTS");
  FILE* file = path == NULL ? NULL : fopen(path, "w");
  if (file == NULL) return;
  fprintf(file, "%lu %lu %lu %lu\n", atomic_load(&g_kernels), atomic_load(&g_copies), atomic_load(&g_sets),
          atomic_load(&g_dropped));
  fclose(file);
}

static void* OpenCupti(void) {
  static const char* const kNames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; ++i) {
    void* library = dlopen(kNames[i], RTLD_NOW | RTLD_NOLOAD);
    if (library != NULL) return library;
  }
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; ++i) {
    void* library = dlopen(kNames[i], RTLD_NOW);
    if (library != NULL) return library;
  }
  return NULL;
}

// Called by the driver when it is initialized. 1: injected.
__attribute__((visibility("default"))) int InitializeInjection(void) {
  static const CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                              CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET};
  void* library = OpenCupti();
  if (library == NULL) return 0;
  __typeof__(&cuptiActivityRegisterCallbacks) register_callbacks = dlsym(library, "cuptiActivityRegisterCallbacks");
  __typeof__(&cuptiActivityEnable) enable = dlsym(library, "cuptiActivityEnable");
  g_next_record = dlsym(library, "cuptiActivityGetNextRecord");
  g_dropped_records = dlsym(library, "cuptiActivityGetNumDroppedRecords");
  g_flush_all = dlsym(library, "cuptiActivityFlushAll");
  if (!register_callbacks || !enable || !g_next_record || !g_dropped_records || !g_flush_all) return 0;
  if (register_callbacks(RequestBuffer, TakeBuffer) != CUPTI_SUCCESS) return 0;
  for (size_t i = 0; i < sizeof kKinds / sizeof *kKinds; ++i) {
    if (enable(kKinds[i]) != CUPTI_SUCCESS) return 0;
  }
  atexit(Finish);
  return 1;
}
