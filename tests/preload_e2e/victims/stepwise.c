// Follows its standard input, one line each: "N" makes N calls of 10x11x12 and answers "N done". Leaves at the end of
// input with exit code 0.
#include <stdio.h>
#include <stdlib.h>

#include "blas.h"

int main(int argc, char** argv) {
  char line[64];
  setvbuf(stdout, NULL, _IONBF, 0);
  while (fgets(line, sizeof line, stdin)) {
    int calls = atoi(line);
    for (int i = 0; i < calls; ++i) SmallSgemm(cblas_sgemm, 10, 11, 12);
    printf("%d done\n", calls);
  }
  return 0;
}
