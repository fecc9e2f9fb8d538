// Sets in and outside of profiled ranges: profiled runtime|driver COUNT…: as many sets before the first start, between start and
// stop, between stop and start, …; with PROFILED_WAITS it reads a line after each stop.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

int cudaProfilerStart(void);
int cudaProfilerStop(void);

int main(int count, char** arguments) {
  int is_driver = strcmp(arguments[1], "driver") == 0;
  void* driver = is_driver ? dlopen("libcuda.so.1", RTLD_NOW) : NULL;
  int (*start)(void) = is_driver ? (int (*)(void))dlsym(driver, "cuProfilerStart") : cudaProfilerStart;
  int (*stop)(void) = is_driver ? (int (*)(void))dlsym(driver, "cuProfilerStop") : cudaProfilerStop;
  static char set[64];
  for (int i = 2; i < count; ++i) {
    if (i > 2) (i % 2 ? start : stop)();
    if (i > 2 && i % 2 == 0 && getenv("PROFILED_WAITS") != NULL) getchar();
    for (int k = 0; k < atoi(arguments[i]); ++k) cudaMemsetAsync(set, 0, sizeof set, NULL);
  }
  return 0;
}
