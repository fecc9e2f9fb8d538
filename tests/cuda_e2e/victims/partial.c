// Uses a cuDNN that lacks functions. partial LIBRARY NAME…: prints which of the names exist, then runs convolutions.
#include "tell.h"

static int (*cudnnCreate)(void** handle);
static int (*cudnnConvolutionForward)(void*, const void*, void* xd, void* x, void* wd, void* w, void* conv, int, void*,
                                      size_t, const void*, void* yd, void* y);

int main(int argc, char** argv) {
  void *library = Open(argv[1]), *handle;
  for (int i = 2; i < argc; ++i) printf("%s %s\n", argv[i], dlsym(library, argv[i]) != NULL ? "there" : "missing");
  LOAD(library, cudnnCreate);
  LOAD(library, cudnnConvolutionForward);
  DO_PLAIN(cudnnCreate, &handle);
  char operands[3][64], descriptors[4][64];
  DO("cudnn.operation=convolution_forward cudnn.algorithm=1 cudnn.workspace_bytes=99", cudnnConvolutionForward, handle,
     NULL, descriptors[0], operands[0], descriptors[1], operands[1], descriptors[2], 1, NULL, 99, NULL, descriptors[3],
     operands[2]);
  FAILS(3000, "cudnn.operation=convolution_forward cudnn.algorithm=7", cudnnConvolutionForward, handle, NULL,
        descriptors[0], operands[0], descriptors[1], operands[1], descriptors[2], 7, NULL, 0, NULL, descriptors[3],
        operands[2]);
  return 0;
}
