// Two CUDA runtimes in one process: plugins that are linked to the runtime of CUDA 12 and of CUDA 13 each.
// two_runtimes HOW P12 P13:
//   local   both loaded with RTLD_LOCAL
//   global  the one of CUDA 13 first, with RTLD_GLOBAL, so that its runtime stands in the global scope, then the other
// Without arguments: no plugins, dlopen and dlsym of the two runtimes.
#include "tell.h"

typedef int (*Work)(int calls);

static void ByStubs(void) {
  static const char* const kSonames[] = {"libcudart.so.12", "libcudart.so.13"};
  for (int i = 0; i < 2; ++i) {
    int (*cudaRuntimeGetVersion)(int*);
    int version;
    void* library = Open(kSonames[i]);
    LOAD(library, cudaRuntimeGetVersion);
    Expect(cudaRuntimeGetVersion(&version), 0, "cudaRuntimeGetVersion");
    printf("%s says %d\n", kSonames[i], version);
  }
}

int main(int argc, char** argv) {
  if (argc < 4) {
    ByStubs();
    return 0;
  }
  const int global = strcmp(argv[1], "global") == 0;
  void* newer = dlopen(argv[3], RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
  void* older = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  if (newer == NULL || older == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 91;
  }
  Work work_older = (Work)Symbol(older, "Work"), work_newer = (Work)Symbol(newer, "Work");
  printf("older %d\n", work_older(3));
  printf("newer %d\n", work_newer(5));
  printf("older %d\n", work_older(2));
  dlclose(older);
  printf("newer %d\n", work_newer(1));
  older = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  work_older = (Work)Symbol(older, "Work");
  printf("older %d\n", work_older(4));
  return 0;
}
