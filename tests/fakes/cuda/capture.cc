// libcuda: capture of a stream into a graph, as XLA begins it, and graphs.
#include "fake.h"

using fake::Graph;
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

FAKE(int, cuGraphInstantiateWithFlags, void** executable, void* graph, uint64_t) {
  if (!fake::IsHandle(graph)) return 0;  // of a program that only makes calls
  *executable = fake::CloneGraph(*static_cast<Graph*>(graph), true);
  return 0;
}

FAKE(int, cuGraphLaunch, void* executable, void* stream) {
  if (fake::IsHandle(executable)) fake::Launch(*static_cast<Graph*>(executable), stream);
  return 0;
}

FAKE(int, cuGraphDestroy, void* graph) {
  if (fake::IsHandle(graph)) fake::DeleteGraph(static_cast<Graph*>(graph));
  return 0;
}

FAKE(int, cuGraphExecDestroy, void* executable) { return behave_cuGraphDestroy(executable); }
