// What is kept of the events of a trace: small, until all are known, because a file has them in no particular order.
#pragma once

#include <limits>

#include "analyzer/import/kineto/trace_json.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline kineto {

struct HostEvent {
  int64_t start_ns;
  int64_t end_ns;
  int64_t number;       // of an operator its sequence number, of a call its correlation
  uint32_t name;        // in KeptEvents.names
  uint32_t definition;  // in KeptEvents.definitions; 0: none
  Category category;
};

struct GpuEvent {
  int64_t start_ns;
  int64_t duration_ns;
  int64_t correlation;
  uint64_t bytes;
  uint32_t name;    // in KeptEvents.names
  uint32_t kernel;  // in KeptEvents.kernels
  uint32_t stream;
  uint32_t device;
  Category category;
};

struct MemoryEvent {
  int64_t ns;
  int64_t address;
  uint64_t bytes;  // 0: freed
  uint64_t allocated;
  uint64_t reserved;
  uint32_t device;  // as in MemoryBatch
};

using ThreadKey = std::pair<int64_t, int64_t>;  // process, thread

template <typename Number>
Number Clamped(int64_t number) {
  constexpr uint64_t kMost = std::numeric_limits<Number>::max();
  return number < 0 ? Number{0} : static_cast<Number>(std::min(static_cast<uint64_t>(number), kMost));
}

struct KeptEvents {
  // Of the first event, eleven days: Python's frames, and other ranks, may begin earlier.
  static constexpr int64_t kOriginTicks = 1'000'000'000'000'000;
  uint64_t Ticks(int64_t ns) const { return static_cast<uint64_t>(ns - first_ns + kOriginTicks); }
  // The work with this correlation id; null: the trace has none. As long as `gpu` has its order.
  const GpuEvent* WorkOf(int64_t correlation) const;

  std::map<ThreadKey, std::vector<HostEvent>> threads;
  std::map<ThreadKey, std::vector<MemoryEvent>> memory;
  std::vector<GpuEvent> gpu;  // by correlation
  std::vector<std::string> names;
  std::vector<trace::OpDefinition> definitions{1};
  std::vector<trace::InternedGpuKernel> kernels;
  std::map<uint64_t, std::string> group_ranks;      // by communicator
  absl::flat_hash_map<int64_t, std::string> waits;  // by correlation: "stream 7"
  std::map<int64_t, std::string> process_names;
  std::map<ThreadKey, std::string> thread_names;
  int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;  // in this order: there are events
  uint64_t without_time = 0;
  uint32_t pid = 0;
};

class EventKeeper {
 public:
  void Take(const Event& event);
  // After the last event.
  KeptEvents Finish();

 private:
  void TakeName(const Event& event);
  void TakeHost(const Event& event);
  void TakeMemory(const Event& event);
  void TakeGpu(const Event& event);
  void TakeSync(const Event& event);
  void PlaceOverheads();
  void NoteTime(const Event& event);
  uint32_t NameOf(const std::string& name);
  uint32_t DefinitionOf(const Event& event);
  uint32_t KernelOf(const Event& event, uint32_t name);
  void AddGroup(const Event& event, trace::Collective* collective);
  void JoinPythonOfNoThread();
  void LinkReplays();

  KeptEvents kept_;
  absl::flat_hash_map<std::string, uint32_t> name_ids_, definition_ids_, kernel_ids_;
  std::map<std::string, uint64_t> groups_;
  std::map<int64_t, uint64_t> events_of_process_;
  std::vector<HostEvent> overheads_;
};

}  // namespace dlhook::analyzer::kineto
