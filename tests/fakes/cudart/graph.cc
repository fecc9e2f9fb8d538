// libcudart: stream capture and graphs, which remember their nodes and run them again.
#include "fake.h"

using fake::Graph;
using fake::StreamOf;

FAKE(int, cudaStreamBeginCapture, void* stream, int) {
  if (StreamOf(stream)->capture != nullptr) return 901;  // cudaErrorStreamCaptureInvalidated
  fake::BeginCapture(StreamOf(stream), fake::NewGraph());
  return 0;
}

FAKE(int, cudaStreamBeginCaptureToGraph, void* stream, void* graph, const void*, const void*, size_t, int) {
  fake::BeginCapture(StreamOf(stream), static_cast<Graph*>(graph));
  return 0;
}

FAKE(int, cudaStreamBeginRecaptureToGraph, void* stream, int, void* graph, void*) {
  fake::BeginCapture(StreamOf(stream), static_cast<Graph*>(graph));
  return 0;
}

FAKE(int, cudaStreamEndCapture, void* stream, void** graph) {
  Graph* captured = fake::EndCapture(StreamOf(stream));
  *graph = captured;
  if (captured == nullptr) return 401;  // cudaErrorIllegalState
  fake::Note("nodes=%zu", captured->nodes.size());
  return 0;
}

FAKE(int, cudaStreamIsCapturing, void* stream, int* capturing) {
  *capturing = StreamOf(stream)->capture != nullptr;
  return 0;
}

FAKE(int, cudaStreamGetCaptureInfo, void* stream, int* capturing, uint64_t* id, void** graph,
     const void*** dependencies, const void** edges, size_t* count) {
  Graph* capture = StreamOf(stream)->capture;
  *capturing = capture != nullptr;
  if (id != nullptr) *id = capture != nullptr ? capture->id : 0;
  if (graph != nullptr) *graph = capture;
  const bool any = capture != nullptr && !capture->nodes.empty();
  if (dependencies != nullptr)
    *dependencies = any ? const_cast<const void**>(reinterpret_cast<void**>(&capture->nodes.back())) : nullptr;
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = any ? 1 : 0;
  return 0;
}

FAKE(int, cudaGraphCreate, void** graph, unsigned) {
  *graph = fake::NewGraph();
  return 0;
}

FAKE(int, cudaGraphClone, void** clone, void* graph) {
  *clone = fake::CloneGraph(*static_cast<Graph*>(graph), false);
  return 0;
}

FAKE(int, cudaGraphDestroy, void* graph) {
  fake::DeleteGraph(static_cast<Graph*>(graph));
  return 0;
}

FAKE(int, cudaGraphGetNodes, void* graph, void** nodes, size_t* count) {
  const auto& all = static_cast<Graph*>(graph)->nodes;
  if (nodes != nullptr) {
    for (size_t i = 0; i < *count && i < all.size(); ++i) nodes[i] = all[i];
  }
  *count = all.size();
  return 0;
}

FAKE(int, cudaGraphNodeGetDependencies, void*, void**, void*, size_t* count) {
  *count = 0;
  return 0;
}

FAKE(int, cudaGraphInstantiateWithFlags, void** executable, void* graph, uint64_t) {
  *executable = fake::CloneGraph(*static_cast<Graph*>(graph), true);
  return 0;
}

FAKE(int, cudaGraphInstantiate, void** executable, void* graph, uint64_t flags) {
  return behave_cudaGraphInstantiateWithFlags(executable, graph, flags);
}

FAKE(int, cudaGraphExecDestroy, void* executable) { return behave_cudaGraphDestroy(executable); }

FAKE(int, cudaGraphLaunch, void* executable, void* stream) {
  fake::Launch(*static_cast<Graph*>(executable), stream);
  return 0;
}

FAKE(int, cudaUserObjectCreate, void** object, void*, void*, unsigned, unsigned) {
  *object = fake::New<fake::Node>();
  return 0;
}
