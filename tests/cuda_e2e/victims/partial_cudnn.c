// A cuDNN of which only the beginning is there: no getters, no graph interface, as with an older version or a missing
// part.
int cudnnCreate(void** handle) {
  static int one;
  *handle = &one;
  return 0;
}

int cudnnConvolutionForward(void* handle, const void* alpha, void* xd, void* x, void* wd, void* w, void* conv,
                            int algorithm, void* workspace, unsigned long bytes, const void* beta, void* yd, void* y) {
  return algorithm == 7 ? 3000 : 0;
}
