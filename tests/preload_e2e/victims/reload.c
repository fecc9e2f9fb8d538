// Loads a plugin, calls it, unloads it, loads another one that the loader puts at the same address; repeatedly. reload
// ROUNDS PLUGIN_A PLUGIN_B. Exit code 4: the addresses never coincided, so the run proves nothing.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  void* previous = NULL;
  int met = 0;
  for (int i = 0; i < 2 * atoi(argv[1]); ++i) {
    const char* path = argv[2 + i % 2];
    void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    float (*run)(void) = (float (*)(void))dlsym(handle, "Run");
    printf("%.1f", run());
    met += (void*)run == previous;
    previous = (void*)run;
    dlclose(handle);
    void* still = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    puts(still ? " still loaded" : " unloaded");
  }
  return met ? 0 : 4;
}
