// Loads plugins one after another, each unloaded before the next, which so gets its addresses: replaced PLUGIN KERNEL
// [PLUGIN KERNEL]...
#include "tell.h"

int main(int argc, char** argv) {
  const void *first = NULL, *function = NULL;
  for (int i = 1; i + 1 < argc; i += 2) {
    void* plugin = Open(argv[i]);
    const void* (*run)(unsigned) = (const void* (*)(unsigned))Symbol(plugin, "Run");
    printf(
        "call cudaLaunchKernel launch.kernel=%s launch.grid_x=%d launch.grid_y=1 launch.grid_z=1 launch.block_x=32 "
        "launch.block_y=1 launch.block_z=1\n",
        argv[i + 1], i);
    function = run((unsigned)i);
    if (first == NULL) first = function;
    dlclose(plugin);
  }
  printf("same address %d\n", first == function);
  return 0;
}
