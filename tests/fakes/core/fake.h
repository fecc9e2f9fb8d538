// Shared by the fake vendor libraries: log, scenario, memory, streams with a virtual clock. See README.md.
//
// One libdlhook_fakes.so holds this state for all fakes of a process, whatever their sonames. It runs inside the victim
// on its threads, may allocate and lock, and includes no vendor header: CI has none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// A hand-written behaviour. The generated NAME logs the call and runs it; a NAME that is in no table jumps straight to
// it. gen_fakes.py finds behaviours by this word at the beginning of a line.
#define FAKE(type, name, ...) extern "C" __attribute__((visibility("hidden"))) type behave_##name(__VA_ARGS__)

// The same for four precisions: FAKE_LETTERS(int, cusolverDn, getrf, …) is cusolverDnSgetrf,
// …Dgetrf, …Cgetrf and …Zgetrf.
#define FAKE_LETTERS(type, prefix, suffix, ...) \
  extern "C" __attribute__((visibility("hidden"))) type behave_##prefix##_##suffix(__VA_ARGS__)

#define FAKE_API __attribute__((visibility("default")))

namespace fake {

struct Api;  // activity.h

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  int64_t volume() const { return int64_t{x} * y * z; }
};

// Structs passed by value of which only the size matters.
template <int kBytes>
struct Struct {
  uint64_t words[kBytes / 8];
};

// --- log.cc: one line per call ---

class FAKE_API Call {
 public:
  // `parameters`: as passed to CUPTI's subscriber.
  Call(const char* library, const char* function, const void* parameters = nullptr);
  ~Call();
  Call(const Call&) = delete;

  // The value that DLHOOK_FAKE_FAIL makes this call return instead of doing anything; 0: none.
  int failure() const { return failure_; }
  bool logged() const { return line_ != nullptr; }
  const char* library() const { return library_; }
  const char* function() const { return function_; }

  // Arguments in order, after the call: so output parameters can be logged (`name=ADDRESS>VALUE`, if it succeeded).
  Call& Number(const char* name, int64_t value);
  Call& Unsigned(const char* name, uint64_t value);
  Call& Real(const char* name, double value);
  Call& Pointer(const char* name, const void* value);
  Call& Text(const char* name, const char* value);
  Call& Triple(const char* name, const Dim3& value);
  Call& Bytes(const char* name, const void* value, size_t size);
  Call& Int32At(const char* name, const void* address);
  Call& Int64At(const char* name, const void* address);
  Call& PointerAt(const char* name, const void* address);
  void Status(int64_t status);
  void Returned(const void* pointer);
  void Note(const char* text);

 private:
  void Name(const char* name);

  const char* function_;
  Call* outer_;
  std::string* line_ = nullptr;
  std::string* note_ = nullptr;
  std::string* result_ = nullptr;
  int64_t sequence_ = 0;
  int depth_ = 0;
  int failure_ = 0;
  bool succeeded_ = true;
  const char* library_;
  Api* api_ = nullptr;  // of the runtime's and the driver's: reported to CUPTI
};

// Adds to the column `note` of the innermost call of this thread: facts that no argument contains.
FAKE_API void Note(const char* format, ...) __attribute__((format(printf, 1, 2)));

// The innermost call of this thread; unchanged if there is none.
void CurrentCall(const char** library, const char** function);

// --- scenario.cc: DLHOOK_FAKE_* ---

FAKE_API const char* Setting(const char* name, const char* otherwise);  // of DLHOOK_FAKE_<name>
FAKE_API bool Switch(const char* name);                                 // set and not 0
FAKE_API int FailureOf(const char* function);                           // counts the call
constexpr int kMostDevices = 4;                                         // one arena each
FAKE_API int DeviceCount();
FAKE_API int CurrentDevice();
FAKE_API void SetCurrentDevice(int device);
FAKE_API int LastRuntimeError();  // of this thread: cudaGetLastError
FAKE_API void SetLastRuntimeError(int error);

// --- memory.cc: addresses that are the same in every run ---

enum class Memory { kPageable, kPinned, kDevice, kManaged };

FAKE_API void* AllocateDevice(int device, size_t bytes);  // null: out of memory
FAKE_API void* AllocatePinned(size_t bytes);
FAKE_API void* AllocateManaged(size_t bytes);
FAKE_API bool Free(void* memory);  // false: not allocated here
FAKE_API void RegisterPinned(const void* memory, size_t bytes);
FAKE_API void UnregisterPinned(const void* memory);
FAKE_API Memory Classify(const void* address, int* device);
FAKE_API void DeviceMemory(int device, size_t* free, size_t* total);

// Handles returned by the libraries: zeroed, from an arena of their own, the last freed first.
FAKE_API void* AllocateHandle(size_t bytes);
FAKE_API void FreeHandle(void* handle, size_t bytes);
FAKE_API bool IsHandle(const void* handle);

template <class T>
T* New() {
  return new (AllocateHandle(sizeof(T))) T();
}

template <class T>
void Delete(T* object) {
  if (object == nullptr) return;
  object->~T();
  FreeHandle(object, sizeof(T));
}

// --- stream.cc: the virtual clock, capture and graphs ---

struct Node {
  enum Kind { kKernel, kCopy, kSet, kHost, kEmpty } kind = kEmpty;
  int64_t nanoseconds = 0;
  void* destination = nullptr;  // of kernels: null unless they copy (NCCL's)
  const void* source = nullptr;
  size_t bytes = 0;
  int value = 0;
  void (*host)(void*) = nullptr;
  void* host_data = nullptr;
  const char* name = nullptr;  // of kernels: mangled, lives as long as the process
  Dim3 grid, block;
  uint32_t shared_bytes = 0;
  uint64_t id = 0;  // of graph nodes: CUPTI's
};

struct Graph {
  std::vector<Node*> nodes;
  uint64_t id = 0;           // of the capture
  uint32_t activity_id = 0;  // CUPTI's
  bool executable = false;
};

struct Stream {
  int device = 0;
  int priority = 0;
  unsigned flags = 0;
  int64_t nanoseconds = 0;   // of its virtual clock
  int64_t completes_ns = 0;  // when its work is done, CLOCK_REALTIME
  uint32_t id = 0;           // CUPTI's
  Graph* capture = nullptr;  // of an ongoing capture
  bool origin = false;       // the stream whose EndCapture ends it
};

struct Event {
  int64_t nanoseconds = 0;
  int64_t completes_ns = 0;  // CLOCK_REALTIME
  uint32_t id = 0;           // CUPTI's
  bool recorded = false;
  unsigned flags = 0;
  Graph* capture = nullptr;
};

FAKE_API Stream* StreamOf(const void* handle);  // also for null, 1 (legacy) and 2 (per thread)
FAKE_API Stream* NewStream(unsigned flags, int priority);
FAKE_API void DeleteStream(Stream* stream);

// Work in order of a stream: executed now, unless the stream is captured.
FAKE_API void Enqueue(Stream* stream, const Node& node);
// A kernel of a library. `name` null: named after the function that the program called.
FAKE_API void Work(const void* stream, int64_t nanoseconds, const char* name = nullptr);
// A kernel of NCCL, which takes as long as a copy.
FAKE_API void Collective(const void* stream, void* destination, const void* source, size_t bytes, const char* name);
FAKE_API void Copy(const void* stream, void* destination, const void* source, size_t bytes);
// cudaMemcpy3DBatchOp, CUDA_MEMCPY3D_BATCH_OP: between addresses, row after row.
struct CopyOperation {
  struct Operand {
    int32_t type, unused;
    void* address;
    size_t row, layer;
    uint64_t location;
  } source, destination;
  size_t width, height, depth;
  int32_t order;
  uint32_t flags;
};
static_assert(sizeof(CopyOperation) == 112);
inline void CopyOperations(const void* stream, const CopyOperation* operations, size_t count) {
  for (const CopyOperation* op = operations; op != operations + count; ++op)
    Copy(stream, op->destination.address, op->source.address, op->width * op->height * op->depth);
}
FAKE_API void Set(const void* stream, void* destination, int value, size_t bytes);

FAKE_API void Record(Event* event, const void* stream);
FAKE_API void Wait(const void* stream, const Event* event);
FAKE_API void BeginCapture(Stream* stream, Graph* graph);
FAKE_API Graph* EndCapture(Stream* stream);
FAKE_API void Launch(const Graph& graph, const void* stream);
FAKE_API Graph* NewGraph();
FAKE_API void AddNode(Graph* graph, const Node& node);
FAKE_API Graph* CloneGraph(const Graph& graph, bool executable);
FAKE_API void DeleteGraph(Graph* graph);

// What a cudaKernel_t, a CUkernel, a CUfunction and a cudaFunction_t of the fakes point to.
struct Kernel {
  const char* name = "";  // mangled, owned by the code that registered it
};

FAKE_API void LaunchKernel(const Kernel* kernel, const Dim3& grid, const Dim3& block, const void* stream,
                           uint32_t shared_bytes = 0);

// The duration of this thread's next kernel, instead of LaunchTime.
FAKE_API void NextKernelTakes(int64_t nanoseconds);

// The cost model; README.md has the formulas.
FAKE_API int64_t Slowed(int64_t nanoseconds);  // times DLHOOK_FAKE_SLOW
FAKE_API int64_t LaunchTime(const Dim3& grid, const Dim3& block);
FAKE_API int64_t ProductTime(int64_t m, int64_t n, int64_t k, int64_t batch);

}  // namespace fake
