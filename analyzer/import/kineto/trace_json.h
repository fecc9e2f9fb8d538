// torch.profiler's (Kineto's) JSON as events, one after another: nothing of the file is kept.
#pragma once

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline kineto {

// kOverhead: of the profiler, or of the driver, on a thread that is not told.
enum class Category : uint8_t {
  kOther,
  kAnnotation,
  kPython,
  kOperator,
  kRuntime,
  kOverhead,
  kKernel,
  kCopy,
  kSet,
  kInstant,
  kSync
};
// Whether events of the category have their time on a thread of the program.
constexpr bool IsOnHost(Category category) { return category > Category::kOther && category < Category::kKernel; }

// One input of an operator, as far as it was recorded (record_shapes).
struct Input {
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;  // in elements
  std::string type;              // "float", "c10::BFloat16", "Scalar", "" …
  std::string value;             // of a scalar: "1", "[2, 2]"
  bool is_list = false;          // of tensors
};

struct Event {
  // Empty where it has no such input.
  const Input& InputAt(size_t i) const;

  Category category = Category::kOther;
  bool is_complete = false;  // has a beginning and an end: phase X
  bool has_time = false;
  std::string name;
  int64_t process = 0;
  int64_t thread = 0;
  int64_t start_ns = 0;  // after the trace's base
  int64_t duration_ns = 0;
  int64_t sequence = -1;  // of autograd
  int64_t correlation = -1;
  int64_t device = 0;
  int64_t stream = 0;
  int64_t event_stream = -1;  // that an event was recorded on, which a call waits for
  int64_t bytes = 0;
  int64_t registers = 0;
  int64_t shared_bytes = 0;
  // Of "[memory]"; bytes are negative if it is freed, totals 0 if not known.
  int64_t address = 0, memory_bytes = 0, memory_type = 0, memory_device = 0, allocated = 0, reserved = 0;
  std::vector<int64_t> grid, block;
  std::vector<Input> inputs;  // of which only input_count are this event's
  size_t input_count = 0;
  // Of a collective.
  std::string collective, group, group_ranks, type;
  int64_t group_size = 0, sent = 0, received = 0;  // elements
  std::string text;                                // the argument "name": of a thread's name
};

struct Device {
  int64_t ordinal = 0;
  std::string name;
  int64_t memory_bytes = 0, multiprocessors = 0, major = 0, minor = 0;
};

struct TraceFacts {
  std::string tool = "torch.profiler";
  int64_t base_ns = 0;
  std::map<std::string, std::string> values;  // plain ones: "cuda_driver_version", "host_name" …
  std::map<std::string, std::string> job;     // of distributedInfo: "rank", "world_size" …
  std::vector<Device> devices;
  bool has_events = false;
};

// Of a text that others wrote: at most kMaxNameBytes, in UTF-8, as protobuf refuses to read anything else.
void Assign(absl::string_view value, std::string* to);

// `take` gets each event. Not OK: why the rest was not read; DataLoss if what was read is a trace's beginning.
absl::Status ReadTraceJson(const std::string& path, const std::function<void(const Event&)>& take, TraceFacts* facts,
                           const std::function<void(uint64_t done)>& progress);

// By its name and first bytes: whether it is to be read as JSON.
bool LooksLikeJson(const std::string& path);

}  // namespace dlhook::analyzer::kineto
