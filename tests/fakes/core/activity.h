// The work that the fake devices "ran", on the host's clock, and its observer: the fake CUPTI (../cupti). Independent
// of the streams' virtual clock.
//
// Thread: any of the program's. Observers are called on it, without a lock of the fakes.
#pragma once

#include "fake.h"

namespace fake {

// Nanoseconds of CLOCK_REALTIME, shifted by DLHOOK_FAKE_CUPTI_JUMP.
FAKE_API int64_t RealTime();

struct Activity {
  enum Kind { kKernel, kCopy, kSet, kGraph } kind = kKernel;
  int64_t start_ns = 0, end_ns = 0;  // RealTime
  int64_t requested_ns = 0;          // RealTime of the requesting call
  int64_t completes_ns = 0;          // CLOCK_REALTIME; 0: completes at once (no WAITS)
  int device = 0;
  uint32_t stream = 0;  // CUPTI's number
  uint32_t correlation = 0;
  uint64_t node = 0;   // of the executable graph
  uint32_t graph = 0;  // the executable graph
  Node work;
};

// A call of the runtime or the driver. A call of the driver inside one of the runtime shares its
// correlation id.
struct Api {
  bool runtime = false;
  const char* function = "";
  const char* symbol = nullptr;  // of launches, if known
  const void* parameters = nullptr;
  uint32_t correlation = 0;
  int64_t start_ns = 0;  // RealTime; 0: no observer
  int status = 0;
  uint64_t data = 0;  // of the observer, between Enter and Exit
  Api* outer = nullptr;
};

// CUpti_CallbackIdResource
enum class Resource {
  kContextCreated = 1,
  kContextDestroyed = 2,
  kStreamCreated = 3,
  kStreamDestroyed = 4,
  kInitialized = 5,
  kGraphCreated = 9,
  kGraphDestroyed = 10,
  kGraphCloned = 11,
  kNodeCreated = 13,
  kExecutableCreated = 18,
  kExecutableDestroyed = 19,
  kNodeCloned = 20,
};

struct ResourceEvent {
  Resource what = Resource::kContextCreated;
  int device = 0;
  void* stream = nullptr;
  void *graph = nullptr, *original_graph = nullptr, *node = nullptr, *original_node = nullptr;
  void* executable = nullptr;
  int node_type = 0;  // CUgraphNodeType
};

// CUpti_ActivitySynchronizationType
enum class Waiting { kEvent = 1, kStreamForEvent = 2, kStream = 3, kContext = 4 };

struct Waited {
  Waiting what = Waiting::kContext;
  int64_t start_ns = 0, end_ns = 0;
  int device = 0;
  uint32_t stream = 0xffffffff, event = 0xffffffff;
  uint32_t correlation = 0;
};

class Observer {
 public:
  virtual void Enter(Api* api) = 0;
  virtual void Exit(Api* api) = 0;
  virtual void Ran(const Activity& activity) = 0;
  virtual void Happened(const ResourceEvent& event) = 0;
  virtual void HasWaited(const Waited& waited) = 0;

 protected:
  ~Observer() = default;
};

FAKE_API bool SetObserver(Observer* observer);  // false: there is another one
FAKE_API void RemoveObserver(Observer* observer);

// Encloses the driver's work inside a call of the runtime or of a library. Does nothing inside a call of the driver.
class FAKE_API InnerApi {
 public:
  explicit InnerApi(const char* function, const char* symbol = nullptr);
  ~InnerApi();
  InnerApi(const InnerApi&) = delete;

 private:
  bool entered_ = false;
  Api api_;
};

// Of Call.
void EnterApi(Api* api);
void ExitApi(Api* api);

// --- the timeline ---

// The kind of memory of an address: H, P, D, M as in the note `copy=`.
const char* Letter(const void* address);

// Appends work to the stream; notes `gpu=…` and calls the observer. `graph`: the executable graph that it is a node of,
// 0: none.
void Place(Stream* stream, const Node& node, uint32_t graph);
void PlaceGraph(Stream* stream, int64_t start_ns, uint32_t graph);
FAKE_API uint32_t IdOfStream(const void* handle);  // CUPTI's
int64_t EarliestStart(const Stream* stream);       // RealTime
void RecordOnTimeline(Event* event, const Stream* stream);
void WaitOnTimeline(Stream* stream, const Event* event);
int64_t DeviceCompletes(int device);  // when all streams of a device are idle
FAKE_API void Tell(const ResourceEvent& event);

// --- context.cc ---

// As cuInit does, the first time.
FAKE_API void Initialize();
FAKE_API void DeviceUuid(int device, void* uuid);  // 16 bytes
FAKE_API void* ContextOf(int device);
FAKE_API int DeviceOfContext(const void* context);  // -1: none
FAKE_API bool ContextExists(int device);
FAKE_API void UseContext(int device);
FAKE_API void DestroyContext(int device);

// --- waiting: really waits with DLHOOK_FAKE_WAITS=1 ---

// `told`: CUPTI gets a record of it (not for synchronous copies).
FAKE_API void WaitForStream(const void* stream, bool told = true);
FAKE_API void WaitForDevice();
FAKE_API void WaitForEvent(const Event* event);
FAKE_API bool IsOver(int64_t completes_ns);

}  // namespace fake
