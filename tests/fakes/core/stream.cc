// Streams, events and graphs of the fakes. Work is executed on the calling thread at once; only its stream's virtual
// clock shows when a device would have finished it (README.md has the cost model). A captured stream collects nodes
// instead.
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "activity.h"

namespace fake {
namespace {

constexpr int64_t kCopyStart = 1500;  // ns
constexpr int64_t kLaunchStart = 2000;
constexpr int64_t kProductStart = 3000;

std::recursive_mutex lock;
std::vector<Stream*>* streams = new std::vector<Stream*>;
thread_local int64_t next_kernel_ns;

// The legacy stream of each device; per-thread streams differ from it only by their clock.
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

// Bytes per nanosecond, which is GB/s.
int64_t Bandwidth(const void* destination, const void* source) {
  const bool to_device = OnDevice(destination), from_device = OnDevice(source);
  if (to_device && from_device) return 1000;
  const void* host = to_device ? source : destination;
  if (to_device || from_device) return Classify(host, nullptr) == Memory::kPinned ? 25 : 5;
  return 10;
}

void Run(const Node& node) {
  const bool copies = node.kind == Node::kCopy || node.kind == Node::kKernel;
  if (copies && node.destination != nullptr && node.bytes > 0) memmove(node.destination, node.source, node.bytes);
  if (node.kind == Node::kSet && node.bytes > 0) memset(node.destination, node.value, node.bytes);
  if (node.kind == Node::kHost) node.host(node.host_data);
}

// The driver's function for a node.
const char* DriverFunction(const Node& node) {
  if (node.kind == Node::kKernel) return "cuLaunchKernel";
  if (node.kind == Node::kSet) return "cuMemsetD8Async";
  if (node.kind != Node::kCopy) return "cuLaunchHostFunc";
  const bool to = OnDevice(node.destination), from = OnDevice(node.source);
  if (to && from) return "cuMemcpyDtoDAsync_v2";
  if (to || from) return to ? "cuMemcpyHtoDAsync_v2" : "cuMemcpyDtoHAsync_v2";
  return "cuMemcpyAsync";
}

// CUgraphNodeType
int NodeType(const Node& node) {
  static const int types[] = {0, 1, 2, 3, 5};
  return types[node.kind];
}

uint64_t NodeId(const Graph& graph) { return uint64_t{graph.activity_id} << 32 | (graph.nodes.size() + 1); }

Node* Append(Graph* graph, const Node& node) {
  auto* fresh = New<Node>();
  *fresh = node;
  fresh->id = NodeId(*graph);
  graph->nodes.push_back(fresh);
  return fresh;
}

void TellOfNode(Resource what, const Graph& graph, const Node* node, const Graph* original_graph,
                const Node* original) {
  ResourceEvent event;
  event.what = what;
  event.graph = const_cast<Graph*>(&graph);
  event.executable = graph.executable ? event.graph : nullptr;
  event.node = const_cast<Node*>(node);
  event.original_graph = const_cast<Graph*>(original_graph);
  event.original_node = const_cast<Node*>(original);
  event.node_type = node != nullptr ? NodeType(*node) : 0;
  Tell(event);
}

// "cudnn::cudnnPoolingForward_kernel()", mangled.
const char* NameAfterCall() {
  static std::mutex names_lock;
  static auto* names = new std::map<std::string, std::string>;
  const char *library = "", *function = "";
  CurrentCall(&library, &function);
  const std::string base = std::string(function) + "_kernel";
  const std::lock_guard<std::mutex> guard(names_lock);
  std::string& name = (*names)[function];
  if (name.empty()) {
    name = "_ZN" + std::to_string(strlen(library)) + library + std::to_string(base.size()) + base + "Ev";
  }
  return name.c_str();
}

int64_t CopyTime(const void* destination, const void* source, size_t bytes) {
  return Slowed(kCopyStart + static_cast<int64_t>(bytes) / Bandwidth(destination, source));
}

}  // namespace

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

Stream* StreamOf(const void* handle) {
  const auto value = reinterpret_cast<uintptr_t>(handle);
  if (value <= 2) return DefaultStream(value == 2);
  return static_cast<Stream*>(const_cast<void*>(handle));
}

Stream* NewStream(unsigned flags, int priority) {
  auto* stream = New<Stream>();
  stream->device = CurrentDevice();
  stream->flags = flags;
  stream->priority = priority;
  {
    const std::lock_guard<std::recursive_mutex> guard(lock);
    streams->push_back(stream);
  }
  UseContext(stream->device);
  ResourceEvent event;
  event.what = Resource::kStreamCreated;
  event.device = stream->device;
  event.stream = stream;
  Tell(event);
  return stream;
}

void DeleteStream(Stream* stream) {
  ResourceEvent event;
  event.what = Resource::kStreamDestroyed;
  event.device = stream->device;
  event.stream = stream;
  Tell(event);
  const std::lock_guard<std::recursive_mutex> guard(lock);
  for (size_t i = 0; i < streams->size(); ++i) {
    if ((*streams)[i] == stream) streams->erase(streams->begin() + static_cast<ptrdiff_t>(i));
  }
  Delete(stream);
}

void Enqueue(Stream* stream, const Node& node) {
  const InnerApi api(DriverFunction(node), node.name);
  Graph* graph = nullptr;
  const Node* captured = nullptr;
  {
    const std::lock_guard<std::recursive_mutex> guard(lock);
    graph = stream->capture;
    if (graph != nullptr)
      captured = Append(graph, node);
    else
      stream->nanoseconds += node.nanoseconds;
  }
  if (captured != nullptr) {
    Note("captured");
    TellOfNode(Resource::kNodeCreated, *graph, captured, nullptr, nullptr);
    return;
  }
  Place(stream, node, 0);
  Run(node);
}

void Work(const void* stream, int64_t nanoseconds, const char* name) {
  Node node;
  node.kind = Node::kKernel;
  node.nanoseconds = nanoseconds;
  node.name = name != nullptr ? name : NameAfterCall();
  node.grid = {132, 1, 1};
  node.block = {256, 1, 1};
  Enqueue(StreamOf(stream), node);
}

void Collective(const void* stream, void* destination, const void* source, size_t bytes, const char* name) {
  Node node;
  node.kind = Node::kKernel;
  node.destination = destination;
  node.source = source;
  node.bytes = bytes;
  node.nanoseconds = CopyTime(destination, source, bytes);
  node.name = name;
  node.grid = {24, 1, 1};
  node.block = {512, 1, 1};
  Note("ns=%lld", static_cast<long long>(node.nanoseconds));
  Enqueue(StreamOf(stream), node);
}

void Copy(const void* stream, void* destination, const void* source, size_t bytes) {
  Node node;
  node.kind = Node::kCopy;
  node.destination = destination;
  node.source = source;
  node.bytes = bytes;
  node.nanoseconds = CopyTime(destination, source, bytes);
  Note("copy=%s>%s ns=%lld", Letter(source), Letter(destination), static_cast<long long>(node.nanoseconds));
  Enqueue(StreamOf(stream), node);
}

void Set(const void* stream, void* destination, int value, size_t bytes) {
  Node node;
  node.kind = Node::kSet;
  node.destination = destination;
  node.value = value;
  node.bytes = bytes;
  node.nanoseconds = Slowed(kCopyStart + static_cast<int64_t>(bytes) / 1000);
  Enqueue(StreamOf(stream), node);
}

void Record(Event* event, const void* stream) {
  const std::lock_guard<std::recursive_mutex> guard(lock);
  const Stream* recorded = StreamOf(stream);
  event->nanoseconds = recorded->nanoseconds;
  event->capture = recorded->capture;
  event->recorded = true;
  RecordOnTimeline(event, recorded);
}

void Wait(const void* stream, const Event* event) {
  Stream* waiting = StreamOf(stream);
  {
    const std::lock_guard<std::recursive_mutex> guard(lock);
    if (event->capture != nullptr) waiting->capture = event->capture;  // joins the capture
    if (waiting->capture != nullptr) return;
    if (waiting->nanoseconds < event->nanoseconds) waiting->nanoseconds = event->nanoseconds;
  }
  WaitOnTimeline(waiting, event);
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

void Launch(const Graph& graph, const void* handle) {
  Note("nodes=%zu", graph.nodes.size());
  Stream* stream = StreamOf(handle);
  if (stream->capture != nullptr) {
    for (const Node* node : graph.nodes) Enqueue(stream, *node);
    return;
  }
  const InnerApi api("cuGraphLaunch");
  const int64_t start_ns = EarliestStart(stream);
  for (const Node* node : graph.nodes) {
    {
      const std::lock_guard<std::recursive_mutex> guard(lock);
      stream->nanoseconds += node->nanoseconds;
    }
    Place(stream, *node, graph.activity_id);
    Run(*node);
  }
  if (!graph.nodes.empty()) PlaceGraph(stream, start_ns, graph.activity_id);
}

int64_t DeviceCompletes(int device) {
  const std::lock_guard<std::recursive_mutex> guard(lock);
  int64_t latest = DefaultStream(false)->completes_ns;
  for (const Stream* stream : *streams) {
    if (stream->device == device && stream->completes_ns > latest) latest = stream->completes_ns;
  }
  return latest;
}

Graph* NewGraph() {
  static std::atomic<uint32_t> next_id{1};
  Graph* graph = New<Graph>();
  graph->activity_id = next_id++;
  return graph;
}

void AddNode(Graph* graph, const Node& node) {
  const Node* fresh = nullptr;
  {
    const std::lock_guard<std::recursive_mutex> guard(lock);
    fresh = Append(graph, node);
  }
  TellOfNode(Resource::kNodeCreated, *graph, fresh, nullptr, nullptr);
}

Graph* CloneGraph(const Graph& graph, bool executable) {
  Graph* clone = NewGraph();
  clone->executable = executable;
  for (const Node* node : graph.nodes) {
    const Node* copy = Append(clone, *node);
    TellOfNode(Resource::kNodeCloned, *clone, copy, &graph, node);
  }
  TellOfNode(executable ? Resource::kExecutableCreated : Resource::kGraphCloned, *clone, nullptr, &graph, nullptr);
  return clone;
}

void DeleteGraph(Graph* graph) {
  TellOfNode(graph->executable ? Resource::kExecutableDestroyed : Resource::kGraphDestroyed, *graph, nullptr, nullptr,
             nullptr);
  for (Node* node : graph->nodes) Delete(node);
  Delete(graph);
}

void LaunchKernel(const Kernel* kernel, const Dim3& grid, const Dim3& block, const void* stream,
                  uint32_t shared_bytes) {
  Node node;
  node.kind = Node::kKernel;
  node.nanoseconds = next_kernel_ns != 0 ? next_kernel_ns : LaunchTime(grid, block);
  next_kernel_ns = 0;
  node.name = kernel != nullptr ? kernel->name : "?";
  node.grid = grid;
  node.block = block;
  node.shared_bytes = shared_bytes;
  Note("kernel=%s ns=%lld", node.name, static_cast<long long>(node.nanoseconds));
  Enqueue(StreamOf(stream), node);
}

void NextKernelTakes(int64_t nanoseconds) { next_kernel_ns = nanoseconds; }

int64_t LaunchTime(const Dim3& grid, const Dim3& block) {
  return Slowed(kLaunchStart + grid.volume() * block.volume() / 1000);
}

int64_t ProductTime(int64_t m, int64_t n, int64_t k, int64_t batch) {
  return Slowed(kProductStart + 2 * m * n * k * (batch < 1 ? 1 : batch) / 20000);
}

}  // namespace fake
