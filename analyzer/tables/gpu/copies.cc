// Table `copies`: memory copied and filled through the CUDA runtime and driver.

#include "analyzer/gpu/gpu_division.h"
#include "analyzer/model/limits.h"
#include "analyzer/model/same_work.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/op_groups.h"

namespace dlhook::analyzer::inline tables {
namespace {

// How fast copies of known duration were, in bytes per nanosecond: GB/s.
struct Rates {
  int64_t bytes = 0;
  int64_t ns = 0;
  double min = 0, max = 0;

  void Add(int64_t more_bytes, int64_t more_ns, double slowest, double fastest) {
    min = ns == 0 ? slowest : std::min(min, slowest);
    max = std::max(max, fastest);
    AddSaturated(more_bytes, &bytes);
    ns += more_ns;
  }
};

// What GPUs did for the copies (or memsets) of one row.
struct GpuCopySum {
  int64_t copies = 0;
  int64_t bytes = 0;
  int64_t busy_ns = 0;
  int64_t beside_compute_ns = 0;  // part of busy_ns during which the same device computed
  Rates rates;
  double peak_bytes = 0;      // what their link could move in their time …
  int64_t peak_of_bytes = 0;  // … and what they moved; only copies over links with a known peak
  bool is_cupti = false;      // sources of these times
  bool is_events = false;

  const char* Source() const { return !is_cupti ? "events" : is_events ? "cupti, events" : "cupti"; }
};

// Peak bytes per second for such a copy; 0: not known. A copy inside a device reads and writes its memory.
double PeakOf(const GpuDevice& device, CopyDirection direction) {
  const auto link = static_cast<double>(device.link_bytes_per_second);
  const auto memory = static_cast<double>(device.memory_bytes_per_second);
  switch (direction) {
    case CopyDirection::kHostToDevice:
    case CopyDirection::kDeviceToHost:
      return link;
    case CopyDirection::kDeviceToDevice:
      return memory / 2;
    case CopyDirection::kSet:
      return memory;
    default:
      return 0;
  }
}

// Whether the activity is a copy or a memset, also inside a graph.
bool IsCopy(const TraceModel& model, GpuIndex activity) {
  const GpuActivityKind kind = model.gpu.kind[activity];
  return kind == GpuActivityKind::kCopy || kind == GpuActivityKind::kSet ||
         (kind == GpuActivityKind::kOp && GpuWorkOf(model, activity) == GpuWork::kCopy);
}

void AddCopy(const TraceModel& model, GpuIndex activity, const IntervalSet& compute, GpuCopySum* sum) {
  const GpuActivityColumns& gpu = model.gpu;
  const int64_t duration_ns = gpu.DurationNs(activity);
  const auto bytes = static_cast<int64_t>(gpu.bytes[activity]);
  ++sum->copies;
  sum->bytes += bytes;
  sum->busy_ns += duration_ns;
  sum->beside_compute_ns += compute.CoveredNs(gpu.start_ns[activity], gpu.end_ns[activity]);
  (gpu.source[activity] == GpuTimeSource::kEvents ? sum->is_events : sum->is_cupti) = true;
  if (duration_ns <= 0 || bytes == 0) return;
  const double rate = static_cast<double>(bytes) / static_cast<double>(duration_ns);
  sum->rates.Add(bytes, duration_ns, rate, rate);
  const double peak = PeakOf(model.gpu_devices[gpu.device[activity]], gpu.direction[activity]);
  if (peak <= 0) return;
  sum->peak_bytes += peak / 1e9 * static_cast<double>(duration_ns);
  sum->peak_of_bytes += bytes;
}

// How the call was made. A captured copy copies nothing: it becomes part of a CUDA graph. Not seen: the GPU copied on
// behalf of a library, without a hooked call.
enum class Form { kSync, kAsync, kCaptured, kNotSeen };

struct CopiesKey {
  CopyDirection direction = CopyDirection::kUnknown;
  HostMemory memory = HostMemory::kNone;
  Form form = Form::kSync;
  auto operator<=>(const CopiesKey&) const = default;

  bool IsCopied() const { return direction != CopyDirection::kSet && form != Form::kCaptured; }
};

struct SizeClass {
  uint64_t limit;
  const char* column;
  const char* words;
};
constexpr SizeClass kSizes[] = {{4 << 10, "up_to_4KiB", "up to 4 KiB"},
                                {64 << 10, "up_to_64KiB", "up to 64 KiB"},
                                {1 << 20, "up_to_1MiB", "up to 1 MiB"},
                                {16 << 20, "up_to_16MiB", "up to 16 MiB"},
                                {UINT64_MAX, "larger", "larger"}};
constexpr size_t kSizeCount = std::size(kSizes);

size_t SizeClassOf(uint64_t bytes) {
  size_t i = 0;
  while (bytes > kSizes[i].limit) ++i;
  return i;
}

struct CopyGroup : CopiesKey {
  int64_t calls = 0;   // that succeeded
  int64_t failed = 0;  // others; they moved nothing
  int64_t copies = 0;  // a batch call makes several
  int64_t bytes = 0;
  int64_t total_ns = 0;
  int64_t wall_share_ns = 0;
  Rates of_calls;  // of those that last as long as the copy
  GpuCopySum gpu;
  std::array<int64_t, kSizeCount> sizes = {};
  std::set<std::string> functions;

  // By GPU time if known, else by the time the caller waits.
  const Rates& rates() const { return gpu.rates.ns > 0 ? gpu.rates : of_calls; }
};

Form FormOf(const Op& op) {
  if (op.captured) return Form::kCaptured;
  return op.copy()->asynchronous ? Form::kAsync : Form::kSync;
}

CopiesKey KeyOf(const Op& op) { return {op.copy()->direction, op.copy()->host_memory, FormOf(op)}; }

// Whether the call lasts as long as the copy. CUDA's manual, "API synchronization behavior": a synchronous copy from or
// to the host returns when the host's memory has been read or written (pageable memory: copied into the staging
// buffer). Copies inside the device and memset return before they are done, even in their synchronous form.
bool IsTimed(const Op& op) {
  constexpr CopyDirection kTimed[] = {CopyDirection::kHostToDevice, CopyDirection::kDeviceToHost,
                                      CopyDirection::kHostToHost, CopyDirection::kFileToDevice,
                                      CopyDirection::kDeviceToFile};
  return FormOf(op) == Form::kSync && absl::c_linear_search(kTimed, op.copy()->direction);
}

struct Durations {
  int64_t sum_ns = 0, min_ns = 0, max_ns = 0;
};

void AddRates(const Op& op, int64_t calls, const Durations& durations, CopyGroup& group) {
  const auto bytes = static_cast<int64_t>(op.copy()->bytes);
  if (!IsTimed(op) || bytes == 0 || durations.min_ns <= 0) return;
  const double slowest = static_cast<double>(bytes) / static_cast<double>(durations.max_ns);
  const double fastest = static_cast<double>(bytes) / static_cast<double>(durations.min_ns);
  group.of_calls.Add(SaturatedProduct(calls, bytes), durations.sum_ns, slowest, fastest);
}

void AddCalls(const Op& op, int64_t calls, const Durations& durations, CopyGroup& group) {
  const CopyCall& copy = *op.copy();
  group.calls += calls;
  AddSaturated(SaturatedProduct(calls, std::max<int64_t>(copy.copies, 1)), &group.copies);
  AddSaturated(SaturatedProduct(calls, static_cast<int64_t>(copy.bytes)), &group.bytes);
  group.total_ns += durations.sum_ns;
  group.sizes[SizeClassOf(copy.bytes)] += calls;
  group.functions.insert(op.function);
  AddRates(op, calls, durations, group);
}

using CopyMap = std::map<CopiesKey, CopyGroup>;

// The GPU's record is exact; the call may have left the direction to the library (cudaMemcpyDefault).
CopiesKey KeyOf(const TraceModel& model, const Op& op, GpuIndex activity) {
  CopiesKey key = KeyOf(op);
  if (model.gpu.direction[activity] != CopyDirection::kUnknown) key.direction = model.gpu.direction[activity];
  const HostMemory memory = model.gpu.host_memory[activity];
  if (memory != HostMemory::kNone && memory != HostMemory::kUnknown) key.memory = memory;
  return key;
}

// The row of each call whose copy was seen on the GPU.
using KeyOfCall = absl::flat_hash_map<CallIndex, CopiesKey>;

// The GPUs' copies, assigned to the call that requested them.
KeyOfCall CollectGpu(const TraceModel& model, const SameWork& same_work, CopyMap& groups) {
  KeyOfCall keys;
  const std::vector<GpuTimeline> timelines = GpuTimelines(model);
  for (GpuIndex activity = 0; activity < model.gpu.size(); ++activity) {
    if (!IsCopy(model, activity)) continue;
    const CallIndex call = model.gpu.call[activity] == kNone ? kNone : same_work.Outermost(model.gpu.call[activity]);
    const bool is_seen = call != kNone && model.ops[model.calls.op[call]].copy();
    const CopiesKey key =
        is_seen ? KeyOf(model, model.ops[model.calls.op[call]], activity)
                : CopiesKey{model.gpu.direction[activity], model.gpu.host_memory[activity], Form::kNotSeen};
    if (is_seen) keys.try_emplace(call, key);
    CopyGroup& group = GroupOf(is_seen ? keys.at(call) : key, groups);
    AddCopy(model, activity, timelines[model.gpu.device[activity]].compute, &group.gpu);
    if (is_seen) continue;
    group.bytes += static_cast<int64_t>(model.gpu.bytes[activity]);
    ++group.sizes[SizeClassOf(model.gpu.bytes[activity])];
  }
  return keys;
}

// The driver's copy inside the runtime's is a second view of the same copy.
CopyMap Collect(const TraceModel& model, const RunTotals& totals, bool has_gpu) {
  const SameWork same_work(model);
  CopyMap groups;
  const KeyOfCall keys = has_gpu ? CollectGpu(model, same_work, groups) : KeyOfCall();
  std::map<OpIndex, CopiesKey> key_of_op;  // of the first call of each op
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    const Op& op = model.ops[model.calls.op[call]];
    if (!op.copy() || same_work.IsNested(call)) continue;
    const int64_t ns = model.calls.duration_ns[call];
    if (model.StatusOf(call) == 0) {
      const auto key = keys.find(call);
      if (key != keys.end()) key_of_op.try_emplace(model.calls.op[call], key->second);
      AddCalls(op, 1, {ns, ns, ns}, GroupOf(key != keys.end() ? key->second : KeyOf(op), groups));
    } else {
      CopyGroup& group = GroupOf(KeyOf(op), groups);
      ++group.failed;
      group.functions.insert(op.function);
    }
  }
  for (const AggregateRow& row : model.aggregates) {
    const Op& op = model.ops[row.op];
    const int64_t calls = row.count - row.nested_count;
    if (!op.copy() || calls == 0) continue;
    AddCalls(op, calls, {row.sum_ns - row.nested_sum_ns, row.min_ns, row.max_ns}, GroupOf(KeyOf(op), groups));
  }
  const std::vector<OpIndex> home = HomeOps(model, totals);
  for (OpIndex i = 0; i < model.ops.size(); ++i) {
    const Op& op = model.ops[home[i]];
    if (!op.copy() || totals.ops[i].calls == 0) continue;
    const auto key = key_of_op.find(home[i]);
    GroupOf(key != key_of_op.end() ? key->second : KeyOf(op), groups).wall_share_ns += totals.ops[i].wall_share_ns;
  }
  return groups;
}

constexpr const char* kDirections[] = {"unknown", "HtoD", "DtoH", "DtoD", "HtoH", "peer", "set", "FtoD", "DtoF"};
static_assert(static_cast<size_t>(CopyDirection::kDeviceToFile) + 1 == std::size(kDirections));
constexpr const char* kMemories[] = {"none", "unknown", "pageable", "pinned", "managed"};
static_assert(static_cast<size_t>(HostMemory::kManaged) + 1 == std::size(kMemories));
constexpr const char* kForms[] = {"sync", "async", "captured", "not seen by a hook"};

// The name at a value of an enumeration; "unknown": it has none, or the trace is of a later schema.
template <typename Enum, size_t N>
const char* NameAt(const char* const (&names)[N], Enum value) {
  return static_cast<size_t>(value) < N ? names[static_cast<size_t>(value)] : "unknown";
}

// What GPUs copied, if their times are known.
TypedColumns<CopyGroup> GpuColumns() {
  const auto known = [](int64_t GpuCopySum::*amount) {
    return [amount](const CopyGroup& group) { return group.gpu.copies == 0 ? Cell() : Cell(group.gpu.*amount); };
  };
  return {
      {TimeColumn("gpu_time"), "Durations on GPUs of all these copies, in launches of CUDA graphs, too.",
       known(&GpuCopySum::busy_ns)},
      {Within(Range::kMeasured, PercentColumn("peak_percent", Better::kHigher)),
       "Percentage of the path's peak: the link to the host in one direction; inside a device half its memory's rate, "
       "of sets all of it.",
       [](const CopyGroup& group) {
         const GpuCopySum& gpu = group.gpu;
         return gpu.peak_bytes > 0 ? Cell(100.0 * static_cast<double>(gpu.peak_of_bytes) / gpu.peak_bytes) : Cell();
       }},
      {PercentColumn("overlap_percent", Better::kHigher), "Part of gpu_time in which the same device computed.",
       [](const CopyGroup& group) { return Percent(group.gpu.beside_compute_ns, group.gpu.busy_ns); }},
      {Detail(TextColumn("rate_source")),
       "Where the time behind the rates comes from: cupti, events, or host: as the caller waits.",
       [](const CopyGroup& group) {
         if (group.gpu.rates.ns > 0) return Cell(group.gpu.Source());
         return group.of_calls.ns > 0 ? Cell("host") : Cell();
       }},
      {Detail(IntegerColumn("gpu_copies", "", Better::kLower)), "Copies that GPUs made.", known(&GpuCopySum::copies)},
      {Detail(IntegerColumn("gpu_bytes", "bytes", Better::kLower)), "Bytes that GPUs moved.",
       known(&GpuCopySum::bytes)},
  };
}

TypedColumns<CopyGroup> CopiesColumns(bool has_gpu, int64_t all_bytes, int64_t wall_ns) {
  const auto rate = [](double Rates::*of) {
    return [of](const CopyGroup& group) { return group.rates().ns > 0 ? Cell(group.rates().*of) : Cell(); };
  };
  TypedColumns<CopyGroup> columns = {
      {As(Role::kKey, TextColumn("direction")), "HtoD: host to device …; peer: between devices; set: memset.",
       [](const CopyGroup& group) { return NameAt(kDirections, group.direction); }},
      {As(Role::kKey, TextColumn("memory")), "What kind of host memory takes part.",
       [](const CopyGroup& group) { return NameAt(kMemories, group.memory); }},
      {TextColumn("form", has_gpu ? "sync, async, captured: recorded into a CUDA graph, copied with each launch of it; "
                                    "not seen by a hook: requested inside a library."
                                  : "sync, async, or captured: recorded into a CUDA graph, nothing was copied."),
       [](const CopyGroup& group) { return NameAt(kForms, group.form); }},
      {CallsColumn("Calls that succeeded, without the driver's inside the runtime's."),
       [](const CopyGroup& group) { return group.form == Form::kNotSeen ? Cell() : Cell(group.calls); }},
      {As(Role::kAmount, IntegerColumn("bytes", "bytes", Better::kLower)), "Of these calls together.",
       &CopyGroup::bytes},
      {PercentColumn("bytes_percent", Better::kNeither), "As a part of all bytes copied (not set, not captured).",
       [all_bytes](const CopyGroup& group) { return group.IsCopied() ? Percent(group.bytes, all_bytes) : Cell(); }},
      {TotalTimeColumn(), &CopyGroup::total_ns},
      {RealColumn("rate", "GB/s", Better::kHigher,
                  has_gpu ? "Bytes over GPU time; for calls without GPU time see rate_source."
                          : "Bytes over time, of synchronous copies from or to the host, as the caller waits for them: "
                            "waiting for earlier work is included. Others: not known."),
       [](const CopyGroup& group) { return Rate(group.rates().bytes, 1, group.rates().ns); }},
      {RealColumn("min_rate", "GB/s", Better::kHigher), "Of the slowest such copy.", rate(&Rates::min)},
      {RealColumn("max_rate", "GB/s", Better::kHigher), "Of the fastest such copy.", rate(&Rates::max)},
      {IntegerColumn("mean_bytes", "bytes", Better::kNeither), "Bytes of one call.",
       [](const CopyGroup& group) {
         return Mean(group.bytes, group.form == Form::kNotSeen ? group.gpu.copies : group.calls);
       }},
      {Detail(IntegerColumn("failed", "", Better::kLower)), "Calls that returned an error.", &CopyGroup::failed},
      {Detail(IntegerColumn("copies", "", Better::kLower)), "A batch call makes several.", &CopyGroup::copies},
      {Detail(WallPercentColumn()),
       [wall_ns](const CopyGroup& group) { return Percent(group.wall_share_ns, wall_ns); }},
      {WallShareColumn(), &CopyGroup::wall_share_ns},
  };
  for (size_t i = 0; i < kSizeCount; ++i) {
    columns.Add({Detail(IntegerColumn(kSizes[i].column, "", Better::kNeither,
                                      absl::StrCat("Calls by size: ", kSizes[i].words, "."))),
                 [i](const CopyGroup& group) { return group.sizes[i]; }});
  }
  columns.Add({Detail(TextColumn("functions")), "Functions that made these copies.", &CopyGroup::functions});
  if (!has_gpu) return columns;
  for (const char* name : {"bytes_percent", "total_time", "mean_bytes"}) columns.Find(name)->detail = true;
  columns.InsertAfter("total_time", GpuColumns());
  return columns;
}

// "HtoD by size: 12 up to 4 KiB, 3 up to 1 MiB", one sentence per direction.
void AddSizeNotes(const CopyMap& groups, Table& table) {
  std::map<CopyDirection, std::array<int64_t, kSizeCount>> sizes;
  for (const auto& [key, group] : groups) {
    if (key.form == Form::kCaptured) continue;
    for (size_t i = 0; i < kSizeCount; ++i) sizes[key.direction][i] += group.sizes[i];
  }
  for (const auto& [direction, counts] : sizes) {
    std::vector<std::string> words;
    for (size_t i = 0; i < kSizeCount; ++i) {
      if (counts[i] > 0) words.push_back(absl::StrCat(counts[i], " ", kSizes[i].words));
    }
    if (words.empty()) continue;
    table.Note(NameAt(kDirections, direction), " by size: ", absl::StrJoin(words, ", "), ".");
  }
}

}  // namespace

absl::StatusOr<Table> CopiesTable(const TraceModel& model, const TableOptions& options) {
  const bool has_gpu = GpuTimesOf(model, options) != GpuTimes::kNone;
  const CopyMap groups = Collect(model, *options.totals, has_gpu);
  int64_t all_bytes = 0;
  for (const auto& [key, group] : groups) {
    if (group.IsCopied()) AddSaturated(group.bytes, &all_bytes);
  }
  const auto order = ByWeight(groups, [](const CopyGroup& group) { return std::pair(group.IsCopied(), group.bytes); });
  Table table = NewTable("copies", "Memory copied and filled, by direction",
                         CopiesColumns(has_gpu, all_bytes, model.wall_ns()), order);
  AddSizeNotes(groups, table);
  return table;
}

}  // namespace dlhook::analyzer::tables
