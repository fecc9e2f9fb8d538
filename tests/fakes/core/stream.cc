// Streams, events and graphs of the fakes. Work is done on the calling thread at once; only the
// virtual clock of its stream tells when a device would have done it (README.md has the cost
// model). A captured stream collects nodes instead.
#include <cstring>
#include <mutex>

#include "fake.h"

namespace fake {
namespace {

constexpr int64_t kCopyStart = 1500;  // ns
constexpr int64_t kLaunchStart = 2000;
constexpr int64_t kProductStart = 3000;

std::recursive_mutex lock;
std::vector<Stream*>* streams = new std::vector<Stream*>;

// The legacy stream of each device; per-thread streams are not told apart from it but by their
// clock.
Stream* DefaultStream(bool per_thread) {
  static Stream legacy[64];
  static thread_local Stream own[8];
  const int device = CurrentDevice();
  Stream* stream = per_thread ? &own[device % 8] : &legacy[device % 64];
  stream->device = device;
  return stream;
}

bool OnDevice(const void* address) {
  const Memory memory = Classify(address, nullptr);
  return memory == Memory::kDevice || memory == Memory::kManaged;
}

// Bytes a nanosecond, which is GB/s.
int64_t Bandwidth(const void* destination, const void* source) {
  const bool to_device = OnDevice(destination), from_device = OnDevice(source);
  if (to_device && from_device) return 1000;
  const void* host = to_device ? source : destination;
  if (to_device || from_device) return Classify(host, nullptr) == Memory::kPinned ? 25 : 5;
  return 10;
}

const char* Letter(const void* address) {
  switch (Classify(address, nullptr)) {
    case Memory::kDevice:
      return "D";
    case Memory::kManaged:
      return "M";
    case Memory::kPinned:
      return "P";  // a host address, pinned
    default:
      return "H";
  }
}

void Run(const Node& node) {
  if (node.kind == Node::kCopy && node.bytes > 0)
    memmove(node.destination, node.source, node.bytes);
  if (node.kind == Node::kSet && node.bytes > 0) memset(node.destination, node.value, node.bytes);
  if (node.kind == Node::kHost) node.host(node.host_data);
}

}  // namespace

Stream* StreamOf(const void* handle) {
  const auto value = reinterpret_cast<uintptr_t>(handle);
  if (value <= 2) return DefaultStream(value == 2);
  return static_cast<Stream*>(const_cast<void*>(handle));
}

Stream* NewStream(unsigned flags, int priority) {
  const std::lock_guard<std::recursive_mutex> guard(lock);
  auto* stream = New<Stream>();
  stream->device = CurrentDevice();
  stream->flags = flags;
  stream->priority = priority;
  streams->push_back(stream);
  return stream;
}

void DeleteStream(Stream* stream) {
  const std::lock_guard<std::recursive_mutex> guard(lock);
  for (size_t i = 0; i < streams->size(); ++i) {
    if ((*streams)[i] == stream) streams->erase(streams->begin() + static_cast<ptrdiff_t>(i));
  }
  Delete(stream);
}

void Enqueue(Stream* stream, const Node& node) {
  {
    const std::lock_guard<std::recursive_mutex> guard(lock);
    if (stream->capture != nullptr) {
      auto* copy = New<Node>();
      *copy = node;
      stream->capture->nodes.push_back(copy);
      Note("captured");
      return;
    }
    stream->nanoseconds += node.nanoseconds;
  }
  Run(node);
}

void Work(const void* stream, int64_t nanoseconds) {
  Node node;
  node.kind = Node::kKernel;
  node.nanoseconds = nanoseconds;
  Enqueue(StreamOf(stream), node);
}

void Copy(const void* stream, void* destination, const void* source, size_t bytes) {
  Node node;
  node.kind = Node::kCopy;
  node.destination = destination;
  node.source = source;
  node.bytes = bytes;
  node.nanoseconds = kCopyStart + static_cast<int64_t>(bytes) / Bandwidth(destination, source);
  Note("copy=%s>%s ns=%lld", Letter(source), Letter(destination),
       static_cast<long long>(node.nanoseconds));
  Enqueue(StreamOf(stream), node);
}

void Set(const void* stream, void* destination, int value, size_t bytes) {
  Node node;
  node.kind = Node::kSet;
  node.destination = destination;
  node.value = value;
  node.bytes = bytes;
  node.nanoseconds = kCopyStart + static_cast<int64_t>(bytes) / 1000;
  Enqueue(StreamOf(stream), node);
}

void Record(Event* event, const void* stream) {
  const std::lock_guard<std::recursive_mutex> guard(lock);
  const Stream* recorded = StreamOf(stream);
  event->nanoseconds = recorded->nanoseconds;
  event->capture = recorded->capture;
  event->recorded = true;
}

void Wait(const void* stream, const Event* event) {
  const std::lock_guard<std::recursive_mutex> guard(lock);
  Stream* waiting = StreamOf(stream);
  if (event->capture != nullptr) {
    waiting->capture = event->capture;  // joins the capture
  } else if (waiting->capture == nullptr && waiting->nanoseconds < event->nanoseconds) {
    waiting->nanoseconds = event->nanoseconds;
  }
}

void BeginCapture(Stream* stream, Graph* graph) {
  const std::lock_guard<std::recursive_mutex> guard(lock);
  static uint64_t next_id = 1;
  stream->capture = graph;
  stream->origin = true;
  graph->id = next_id++;
}

Graph* EndCapture(Stream* stream) {
  const std::lock_guard<std::recursive_mutex> guard(lock);
  Graph* graph = stream->capture;
  if (graph == nullptr) return nullptr;
  for (Stream* other : *streams) {
    if (other->capture == graph) other->capture = nullptr;
  }
  stream->capture = nullptr;
  stream->origin = false;
  return graph;
}

void Launch(const Graph& graph, const void* stream) {
  Note("nodes=%zu", graph.nodes.size());
  for (const Node* node : graph.nodes) Enqueue(StreamOf(stream), *node);
}

Graph* NewGraph() { return New<Graph>(); }

Graph* CloneGraph(const Graph& graph) {
  Graph* clone = NewGraph();
  for (const Node* node : graph.nodes) {
    clone->nodes.push_back(New<Node>());
    *clone->nodes.back() = *node;
  }
  return clone;
}

void DeleteGraph(Graph* graph) {
  for (Node* node : graph->nodes) Delete(node);
  Delete(graph);
}

void LaunchKernel(const Kernel* kernel, const Dim3& grid, const Dim3& block, const void* stream) {
  const int64_t nanoseconds = LaunchTime(grid, block);
  Note("kernel=%s ns=%lld", kernel != nullptr ? kernel->name : "?",
       static_cast<long long>(nanoseconds));
  Work(stream, nanoseconds);
}

int64_t LaunchTime(const Dim3& grid, const Dim3& block) {
  return kLaunchStart + grid.volume() * block.volume() / 1000;
}

int64_t ProductTime(int64_t m, int64_t n, int64_t k, int64_t batch) {
  return kProductStart + 2 * m * n * k * (batch < 1 ? 1 : batch) / 20000;
}

}  // namespace fake
