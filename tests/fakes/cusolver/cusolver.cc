// libcusolver: handles, and the sizes that callers allocate by: each *_bufferSize writes its last argument.
#include "stream_handle.h"

FAKE(int, cusolverDnCreate, void** handle) { return CreateStreamHandle(handle); }
FAKE(int, cusolverDnDestroy, void* handle) { return DestroyStreamHandle(handle); }
FAKE(int, cusolverDnSetStream, void* handle, void* stream) { return SetStreamOfHandle(handle, stream); }
FAKE(int, cusolverDnCreateParams, void** out) { return CreateStreamHandle(out); }
FAKE(int, cusolverDnDestroyParams, void* parameters) { return DestroyStreamHandle(parameters); }

// For each of the precisions S, D, C and Z.
FAKE_LETTERS(int, cusolverDn, getrf_bufferSize, void*, int, int, void*, int, int* elements) {
  *elements = 4096;
  return 0;
}

FAKE_LETTERS(int, cusolverDn, geqrf_bufferSize, void*, int, int, void*, int, int* elements) {
  *elements = 4096;
  return 0;
}

FAKE_LETTERS(int, cusolverDn, potrf_bufferSize, void*, int, int, void*, int, int* elements) {
  *elements = 4096;
  return 0;
}

FAKE(int, cusolverDnXgetrf_bufferSize, void*, void*, int64_t, int64_t, int, const void*, int64_t, int, size_t* device,
     size_t* host) {
  *device = *host = 4096;
  return 0;
}
