// Linked to nested_blas. nested CALLS
#include <stdio.h>
#include <stdlib.h>

#include "blas.h"

int main(int argc, char** argv) {
  float sum = 0;
  for (int i = 0; i < atoi(argv[1]); ++i) sum += SmallSgemm(cblas_sgemm, 8, 9, 10);
  printf("sum %.1f\n", sum);
  return 0;
}
