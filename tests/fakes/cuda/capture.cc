// libcuda: capture of a stream into a graph, as XLA begins it.
#include "fake.h"

using fake::StreamOf;

FAKE(int, cuStreamBeginCapture_v2, void* stream, int) {
  if (StreamOf(stream)->capture != nullptr) return 901;  // CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
  fake::BeginCapture(StreamOf(stream), fake::NewGraph());
  return 0;
}

FAKE(int, cuStreamEndCapture, void* stream, void** graph) {
  *graph = fake::EndCapture(StreamOf(stream));
  return *graph != nullptr ? 0 : 401;  // CUDA_ERROR_ILLEGAL_STATE
}
