// A cuDNN that is only partly present: no getters, no graph interface, like an older version or one with a missing
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
