// Linked to the library of mkldnn.c; uses its own stdio beside it. mkldnn_user RELEASE [blocks]: with "blocks" it
// switches the log on for the second of three rounds by mkldnn_set_verbose. Says at the end whether its own file had
// been flushed.
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

void Execute(int release, int rounds);
int mkldnn_set_verbose(int level);

int main(int argc, char** argv) {
  FILE* own = tmpfile();
  fputs("not yet written", own);
  for (int round = 0; round < 3; ++round) {
    printf("%s %d\n", "mkldnn round", round);
    if (argc > 2) mkldnn_set_verbose(round == 1);
    Execute(atoi(argv[1]), 2);
  }
  struct stat status;
  fstat(fileno(own), &status);
  printf("own file: %ld bytes\n", (long)status.st_size);
  return 0;
}
