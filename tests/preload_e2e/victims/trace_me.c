/* Loads a recorder (trace_me_recorder.cc) and runs nodes before, in and after a session; prints the events that the
   recorder kept. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "blas.h"

int main(int argc, char** argv) {
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
  if (library == NULL) return puts(argc > 1 ? dlerror() : "no library"), 1;
  void (*run)(const char*) = dlsym(library, "Run");
  _Bool (*start)(void) = dlsym(library, "StartSession");
  void (*stop)(void) = dlsym(library, "StopSession");
  int (*kept)(void) = dlsym(library, "Kept");
  SmallSgemm(cblas_sgemm, 4, 4, 4);
  run("net/before:Conv2D");
  printf("%d\n", kept());
  printf("%d", start());
  printf(" %d\n", start());
  run("net/session:Conv2D");
  stop();
  printf("%d\n", kept());
  run("net/after:Conv2D#shape=(1,2)#");
  printf("%d\n", kept());
  return 0;
}
