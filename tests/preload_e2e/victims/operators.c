/* Runs two operators of a library with PyTorch's observers (torch_observers.cc). */
#include <stdio.h>

#include "blas.h"

void RunOperator(const char* name);

int main(void) {
  SmallSgemm(cblas_sgemm, 4, 4, 4);
  RunOperator("aten::mul");
  RunOperator("aten::add");
  return puts("done") < 0;
}
