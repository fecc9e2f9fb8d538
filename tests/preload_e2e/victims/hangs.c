// Makes a call that returns, and one that never does.
#include <unistd.h>

#include "blas.h"
#include "tiny_blas.h"

static void Sleep(void) {
  for (;;) pause();
}

int main(void) {
  SmallSgemm(cblas_sgemm, 10, 11, 12);
  tiny_blas_inside = Sleep;
  SmallSgemm(cblas_sgemm, 10, 11, 12);
  return 0;
}
