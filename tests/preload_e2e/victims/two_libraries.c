// Loads several libraries that each have their own sgemm_. two_libraries CALLS LIBRARY…
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  void* handles[8];
  for (int i = 2; i < argc; ++i)
    if (!(handles[i] = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL))) return puts(dlerror()), 1;
  for (int call = 0; call < atoi(argv[1]); ++call)
    for (int i = 2; i < argc; ++i) {
      float (*run)(void) = (float (*)(void))dlsym(handles[i], "Run");
      float (*run64)(void) = (float (*)(void))dlsym(handles[i], "Run64");
      printf("%d: %.1f %.1f\n", i - 2, run(), run64());
    }
  return 0;
}
