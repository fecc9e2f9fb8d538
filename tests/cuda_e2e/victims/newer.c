// A program that is newer than dlhook's tables, with an equally new driver (newer_driver.c). newer DRIVER
#include "tell.h"

static int (*cuGetProcAddress_v2)(const char* symbol, void** out, int version, uint64_t flags, int* found);

int main(int argc, char** argv) {
  int (*copy)(uint64_t, const void*, size_t);
  int (*copy_of_the_future)(size_t, double, uint64_t, int*);
  int found, left = 0;
  void* library = Open(argv[argc - 1]);
  setvbuf(stdout, NULL, _IONBF, 0);
  LOAD(library, cuGetProcAddress_v2);
  DO_PLAIN(cuGetProcAddress_v2, "cuMemcpyHtoD", (void**)&copy, 98000, 0, &found);
  DO_AS("cuMemcpyHtoD_v2", "copy.direction=HOST_TO_DEVICE copy.bytes=123 copy.host_memory=HOST_UNKNOWN", copy, 0x1000,
        &left, 123);
  DO_PLAIN(cuGetProcAddress_v2, "cuMemcpyHtoD", (void**)&copy_of_the_future, 99000, 0, &found);
  Expect(copy_of_the_future(77, 0.5, 0x2000, &left), 0, "cuMemcpyHtoD_v9");
  printf("left %d\n", left);
  return 0;
}
