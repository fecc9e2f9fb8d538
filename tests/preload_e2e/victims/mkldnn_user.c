// Linked to the library of mkldnn.c; also uses its own stdio. mkldnn_user RELEASE [blocks|found]: it switches the log
// on for the second of three rounds by mkldnn_set_verbose, with "found" as found by dlsym in the library. Reports at
// the end whether its own file had been flushed.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void Execute(int release, int rounds);
int mkldnn_set_verbose(int level);

int main(int argc, char** argv) {
  int (*set_verbose)(int) = mkldnn_set_verbose;
  if (argc > 2 && strcmp(argv[2], "found") == 0)
    set_verbose = (int (*)(int))dlsym(dlopen("libmkldnn.so", RTLD_NOW | RTLD_NOLOAD), "mkldnn_set_verbose");
  FILE* own = tmpfile();
  fputs("not yet written", own);
  for (int round = 0; round < 3; ++round) {
    printf("%s %d\n", "mkldnn round", round);
    if (argc > 2) set_verbose(round == 1);
    Execute(atoi(argv[1]), 2);
  }
  struct stat status;
  fstat(fileno(own), &status);
  printf("own file: %ld bytes\n", (long)status.st_size);
  return 0;
}
