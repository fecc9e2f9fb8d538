// A run, ready for tables: immutable, columnar, times in nanoseconds on one axis for all processes.
#pragma once

#include "analyzer/model/compact_column.h"
#include "analyzer/model/compiled_op.h"
#include "analyzer/model/op.h"
#include "analyzer/model/process_info.h"
#include "analyzer/model/scope_role.h"
#include "analyzer/model/trace_enums.h"
#include "preload/format/thread_states.h"

namespace dlhook::analyzer::inline model {

using OpIndex = uint32_t;
using ThreadIndex = uint32_t;
using ProcessIndex = uint32_t;
using CallIndex = uint32_t;
using ScopeIndex = uint32_t;
using StackIndex = uint32_t;      // of model.python_stacks
using ModuleIndex = uint32_t;     // of model.modules
using NameIndex = uint32_t;       // of model.names
using FrameIndex = uint32_t;      // of model.native_frames
using GpuIndex = uint32_t;        // of model.gpu
using GpuDeviceIndex = uint32_t;  // of model.gpu_devices
using GpuKernelIndex = uint32_t;  // of model.gpu_kernels
constexpr uint32_t kNone = 0xffffffff;

struct ThreadData {
  ProcessIndex process = 0;
  uint32_t thread_id = 0;  // in its process trace
  uint32_t tid = 0;
  std::string name;
};

// Calls as parallel arrays, ordered by (thread, start, longer first): parents precede their children. At most 64 bytes
// of memory per call.
struct CallColumns {
  std::vector<int64_t> start_ns;
  std::vector<int64_t> duration_ns;
  std::vector<int64_t> self_ns;  // duration minus the direct children's
  std::vector<OpIndex> op;
  std::vector<ThreadIndex> thread;
  std::vector<CallIndex> parent;  // kNone: top level
  std::vector<uint64_t> sequence;
  std::vector<ScopeIndex> scope;  // the innermost around the call; kNone: none. Empty if the run has no scopes
  std::vector<FrameIndex>
      native_stack;  // innermost frame of the caller; kNone: none. Empty if the run has no native stacks
  size_t size() const { return op.size(); }
  int64_t EndOf(CallIndex call) const { return start_ns[call] + duration_ns[call]; }
  ScopeIndex ScopeOf(CallIndex call) const { return scope.empty() ? kNone : scope[call]; }
  FrameIndex NativeStackOf(CallIndex call) const { return native_stack.empty() ? kNone : native_stack[call]; }
  // The calls [first, second) of one thread; all if `of_thread` is kNone.
  std::pair<CallIndex, CallIndex> RangeOf(ThreadIndex of_thread) const;
};
// Those that every run has.
constexpr std::tuple kCallColumns = {&CallColumns::start_ns, &CallColumns::duration_ns, &CallColumns::self_ns,
                                     &CallColumns::op,       &CallColumns::thread,      &CallColumns::parent,
                                     &CallColumns::sequence};

// Calls `function` with each of these members.
template <typename... Members, typename Function>
void ForEachOf(const std::tuple<Members...>& members, Function function) {
  std::apply([&](auto... member) { (function(member), ...); }, members);
}

// Samples of threads' CPU time as parallel arrays, ordered by (thread, time).
struct SampleColumns {
  std::vector<int64_t> time_ns;
  std::vector<int64_t> cpu_ns;  // that it stands for
  std::vector<ThreadIndex> thread;
  std::vector<FrameIndex> frame;         // where it computed; kNone: not known
  std::vector<StackIndex> python_stack;  // kNone: no Python, or not known
  std::vector<ScopeIndex> scope;         // the innermost around it; kNone: none
  std::vector<CallIndex>
      call;  // the recorded call that it fell into; kNone: none, or one of which only totals were kept
  std::vector<uint8_t> is_in_call;  // 1: that time is measured exactly
  std::vector<SampleState> state;
  size_t size() const { return time_ns.size(); }
  bool empty() const { return time_ns.empty(); }
};

// A time in which looks from outside found a thread blocked at one place.
struct Wait {
  int64_t start_ns = 0;
  int64_t duration_ns = 0;
  ThreadIndex thread = 0;
  FrameIndex frame = kNone;         // in which it was blocked; kNone: not known
  StackIndex python_stack = kNone;  // kNone: no Python, or not known
  BlockedIn blocked_in = BlockedIn::kOther;
};

// What a scope is, apart from when and where.
struct ScopeLook {
  NameIndex name = 0;
  ScopeKind kind = ScopeKind::kUnknown;
  StackIndex stack = kNone;  // of Python, when the scope began; kNone: not known
  friend bool operator==(const ScopeLook&, const ScopeLook&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const ScopeLook& look) {
    return H::combine(std::move(hash), look.name, look.kind, look.stack);
  }
};

// Scopes as parallel arrays, ordered by (thread, start, outer first). 12 to 15 bytes of memory per scope.
struct ScopeColumns {
  NearColumn<int64_t, int32_t> start_ns;
  CompactColumn<int64_t, int32_t> duration_ns;
  RecurringColumn<ScopeLook> look;
  NearColumn<int64_t, int8_t> link;                      // -1: none; see proto/call.proto
  RunColumn thread;                                      // ThreadIndex
  CompactColumn<ScopeIndex, int8_t, AsDistance> parent;  // kNone: top level
  size_t size() const { return look.size(); }
  int64_t EndOf(ScopeIndex scope) const { return start_ns[scope] + duration_ns[scope]; }
  // As many scopes; new ones are of this thread and otherwise to be Set before they are read.
  void Resize(size_t count, ThreadIndex of_thread);
};

struct PythonFrame {
  NameIndex file = 0;
  NameIndex function = 0;
  uint32_t line = 0;           // 0: not known
  ModuleIndex module = kNone;  // the module called in this frame, if any
  bool is_entry = false;       // see PythonFrame in proto/trace.proto
};

struct PythonStack {
  std::vector<PythonFrame> frames;  // innermost first
  bool is_cut = false;
};

// Frames of native stacks as a forest: a stack is identified by its innermost frame. Distinct over a process; parents
// precede their children.
struct NativeFrameColumns {
  std::vector<uint64_t> address;   // in the process; for a return address that of the call (one less)
  std::vector<FrameIndex> parent;  // the next outer frame; kNone: not known
  std::vector<ProcessIndex> process;
  std::vector<StackCut> cut;  // why there is no parent
  size_t size() const { return address.size(); }
};

// Symbols of native frames. Set after reading the run (analyzer/symbols), from files of this machine.
struct NativeSymbol {
  NameIndex function = kNone;  // demangled, with its arguments; kNone: not known
  NameIndex object = kNone;    // path of the mapped file; "[jit]" for a perf map or jitdump; kNone: in no mapping
  uint64_t offset = 0;         // of the address in the function, or in the object if the function is not known
  NameIndex file = kNone;      // of the source
  uint32_t line = 0;           // 0: not known
  bool is_inlined = false;     // into the next one
};
struct NativeSymbols {
  // Frame f has symbols[begin[f]] to symbols[begin[f + 1] - 1], at least one, the innermost inlined function first.
  std::vector<uint32_t> begin;
  std::vector<NativeSymbol> symbols;
  absl::Span<const NativeSymbol> Of(FrameIndex frame) const {
    return {symbols.data() + begin[frame], begin[frame + 1] - begin[frame]};
  }
  bool empty() const { return begin.empty(); }
  std::vector<std::string> notes;  // which names are missing, and why: for the user
};

// Readings of one set of counters on one thread, ascending in time (CounterBatch in proto/call.proto).
struct CounterSeries {
  ProcessIndex process = 0;
  ThreadIndex thread = kNone;  // kNone: a thread without recorded calls
  uint32_t tid = 0;
  std::string thread_name;  // of one without calls; empty: not known
  CounterKind kind = CounterKind::kUnknown;
  CounterSource source = CounterSource::kUnknown;
  std::vector<NameIndex> names;      // the counters
  std::vector<int64_t> time_ns;      // of the readings
  std::vector<uint64_t> value;       // names.size() per reading
  std::vector<uint64_t> enabled_ns;  // one per reading, or empty if nothing is multiplexed
  std::vector<uint64_t> running_ns;
};

// Time in which a tap in its light mode recorded scopes of ops; outside these windows it omitted them. Recorded as a
// user range (kScopeWindowName of preload/format/taps.h), which is not among the scopes.
struct ScopeWindow {
  ProcessIndex process = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  bool is_slow_step = false;  // kept because it was slow (kSlowStepName): no sample of the others
};

// A program that XLA compiled. A function has several if it was compiled again for other arguments.
struct CompiledProgram {
  ProcessIndex process = 0;
  std::string name;                    // "jit_train_step"
  std::vector<std::string> arguments;  // "x f32[24,40]"
};
// Before a program's name, as kXlaCompiles (preload/format/taps.h): NVTX ranges of XLA's, renamed.
constexpr char kXlaRuns[] = "XLA runs ";
constexpr char kXlaTries[] = "XLA tries ";  // an algorithm, to choose one

struct CompiledLink {
  static constexpr int kOpBits = 24;
  static constexpr size_t kMostOps = size_t{1} << kOpBits;
  uint32_t op = 0;  // of model.compiled_ops
  int64_t run = 0;  // an execution of the program, distinct in its process; 0: one that was recorded in part

  int64_t Encoded() const { return run << kOpBits | op; }
  static CompiledLink Of(int64_t link) { return {static_cast<uint32_t>(link & (kMostOps - 1)), link >> kOpBits}; }
};

// A span of a process's time that was read, if not all of it was (load_run.h). Calls and scopes outside such spans are
// unknown.
struct ReadSpan {
  ProcessIndex process = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// Time in which recording was stopped (dlhook ctl): nothing is known of what the process did then.
struct RecordingStop {
  ProcessIndex process = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

using LoadSample = values::LoadSample;  // load of a process and its machine
using GpuDevice = values::GpuDevice;  // a GPU from the view of one process. 0 and empty: not known. uuid: "GPU-6a1b…"

// A kernel with its launch parameters; distinct over the run.
struct GpuKernel {
  NameIndex name = kNone;        // full and demangled (names/fold_names.h); kNone: not known
  NameIndex short_name = kNone;  // without namespaces and template arguments
  bool is_collective = false;    // by its name (names/fold_names.h)
  uint32_t grid[3] = {};         // blocks
  uint32_t block[3] = {};        // threads
  uint32_t registers_per_thread = 0;
  uint32_t static_shared_bytes = 0;
  uint32_t dynamic_shared_bytes = 0;
};

// GPU activities as parallel arrays, ordered by (process, device, start, end). Times are on the run's axis, with the
// error of the clocks' correlation (gpu_clock_error_ns).
struct GpuActivityColumns {
  static constexpr int64_t kNotKnown = INT64_MIN;
  std::vector<int64_t> start_ns;
  std::vector<int64_t> end_ns;
  std::vector<GpuActivityKind> kind;
  std::vector<GpuTimeSource> source;
  std::vector<GpuDeviceIndex> device;
  std::vector<uint32_t> stream;          // unique within the process
  std::vector<GpuKernelIndex> kernel;    // kNone: no kernel, or not known which
  std::vector<uint64_t> bytes;           // of copies and memsets
  std::vector<CopyDirection> direction;  // of copies and memsets, as far as CUPTI reports it
  std::vector<HostMemory> host_memory;
  std::vector<uint32_t> graph;  // id of the launched graph that contains it; 0: none
  // The innermost recorded call that requested it (for a graph's node: the launch of the graph); kNone: not known.
  std::vector<CallIndex> launch_call;
  // The call that it was done for: launch_call or, for a graph's node, the captured call that created the node.
  std::vector<CallIndex> call;
  std::vector<ThreadIndex> thread;    // which requested it; kNone: not known
  std::vector<int64_t> requested_ns;  // when it was requested, on the host's clock; kNotKnown
  std::vector<ScopeIndex>
      scope;  // innermost around `call`, or around requested_ns if there is no call. kNone. Empty if the run has no scopes
  size_t size() const { return start_ns.size(); }
  bool empty() const { return start_ns.empty(); }
  int64_t DurationNs(GpuIndex activity) const { return end_ns[activity] - start_ns[activity]; }
};
// Those that every run with a GPU has.
constexpr std::tuple kGpuColumns = {
    &GpuActivityColumns::start_ns,    &GpuActivityColumns::end_ns, &GpuActivityColumns::kind,
    &GpuActivityColumns::source,      &GpuActivityColumns::device, &GpuActivityColumns::stream,
    &GpuActivityColumns::kernel,      &GpuActivityColumns::bytes,  &GpuActivityColumns::direction,
    &GpuActivityColumns::host_memory, &GpuActivityColumns::graph,  &GpuActivityColumns::launch_call,
    &GpuActivityColumns::call,        &GpuActivityColumns::thread, &GpuActivityColumns::requested_ns};

// Time of a process in which GPU times came from one source (kNone: from none, and why). By process, ascending, without
// gaps after the first one.
struct GpuWindow {
  ProcessIndex process = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  GpuTimeSource source = GpuTimeSource::kNone;
  std::string reason;
};

// What was allocated by a framework's allocator, or freed.
struct MemoryEvent {
  int64_t time_ns = 0;
  uint64_t address = 0;
  int64_t bytes = 0;    // 0: freed
  uint32_t device = 0;  // 0: the host; GPUs: CUDA's number + 1
  ThreadIndex thread = 0;
  ScopeIndex scope = kNone;     // the innermost around it; kNone: none
  int64_t allocated_bytes = 0;  // all that the allocator has given out on the device, after this; 0: not known
  int64_t reserved_bytes = 0;   // with what it keeps for later; 0: not known
};

// A layer object of a Python framework: see PythonModule in proto/trace.proto.
struct Module {
  ProcessIndex process = 0;
  uint32_t object = 0;
  std::string type;  // "torch.nn.modules.conv.Conv2d"; empty if unknown
  ModuleIndex root = kNone;
  ModuleIndex parent = kNone;      // the enclosing module at its first call
  std::vector<std::string> names;  // qualified, in the root's tree; empty if unknown
};

using CompiledCode = values::CompiledCode;  // what torch.compile kept of its work

// A call that returned something other than success.
struct FailedCall {
  CallIndex call = 0;
  int32_t status = 0;
};

// Calls of which only totals were kept (CallAggregate in proto/call.proto).
struct AggregateRow {
  OpIndex op = 0;
  ThreadIndex thread = 0;
  int64_t window_start_ns = 0;
  int64_t window_end_ns = 0;
  int64_t count = 0;
  int64_t sum_ns = 0;
  int64_t min_ns = 0;
  int64_t max_ns = 0;
  int64_t nested_count = 0;
  int64_t nested_sum_ns = 0;
  AggregateCause cause = AggregateCause::kTraceLimit;
};

// Totals of one op over calls and aggregates, for tables that weigh by time. Times are thread time.
struct OpTotals {
  int64_t calls = 0;         // all calls, including nested ones
  int64_t nested_calls = 0;  // of these, inside another view of the same work (same_work.h)
  int64_t total_ns = 0;      // of calls that are not nested in that sense
  int64_t self_ns = 0;
  int64_t min_ns = 0;
  int64_t max_ns = 0;
  int64_t wall_share_ns = 0;  // every instant divided equally among the calls (innermost per thread) active in it
};

// Operand addresses of calls of CUDA's libraries, from which tables prove that one call reads what another wrote.
struct CallOperands {
  std::vector<CallIndex> call;  // ascending
  std::vector<uint64_t> begin;  // of the call's values
  std::vector<uint64_t> value;
};

// What all parts of a run have in common, whichever of its calls, scopes and GPU work they have.
struct CommonModel {
  std::string name;  // the name of its folder or file
  std::vector<ProcessInfo> processes;
  std::vector<ThreadData> threads;
  std::vector<Op> ops;  // distinct over the run (same definition, same index, in all processes and interning periods)
  std::vector<ScopeWindow> scope_windows;  // by process, ascending; a process without windows has all scopes
  std::vector<std::string> names;          // distinct over the run; appended by AddName
  std::vector<ScopeRole> roles;            // by name
  std::vector<PythonStack> python_stacks;
  std::vector<Module> modules;
  std::vector<CompiledCode> compiled;  // by process; kernels of a region and direction in their order
  NativeFrameColumns native_frames;
  NativeSymbols native_symbols;        // empty before they are looked up
  std::vector<GpuDevice> gpu_devices;  // by process, ordinal; including devices known only from activities
  // By device: by how much later than it was its work may still seem to be (reader/gpu_links.h). May be shorter.
  std::vector<int64_t> gpu_clock_error_ns;
  std::vector<GpuKernel> gpu_kernels;
  std::vector<GpuWindow> gpu_windows;
  std::vector<RecordingStop> recording_stops;  // by process, ascending
};

struct TraceModel : CommonModel {
  CallColumns calls;
  std::vector<FailedCall> failed_calls;  // in the order of `call`; few, so separate from the columns
  CallOperands operands;
  ScopeColumns scopes;
  SampleColumns samples;
  std::vector<Wait> waits;  // by process, where samples were taken
  std::vector<CompiledOp> compiled_ops;
  std::vector<CompiledProgram> compiled_programs;  // by process, in the order in which they became known
  std::vector<ReadSpan> read_spans;                // by process, ascending; a process without spans was read whole
  std::vector<CounterSeries> counters;             // by process, thread (series without a thread last), kind
  std::vector<CounterSeries> states;  // what threads did (preload/format/thread_states.h), in the same order
  std::vector<LoadSample> loads;      // by process, ascending; what counts from the start never decreases
  GpuActivityColumns gpu;             // except OVERHEAD
  std::vector<MemoryEvent> memory;    // by process, ascending
  // For calls that are not made directly by a framework's operator: call -> stack, ascending by call.
  std::vector<std::pair<CallIndex, StackIndex>> call_stacks;
  std::vector<AggregateRow> aggregates;
  int64_t start_ns = 0;  // earliest start and latest end of the processes
  int64_t end_ns = 0;
  // Oddities found while reading: sentence -> count.
  std::map<std::string, int64_t> oddities;

  int64_t wall_ns() const { return end_ns - start_ns; }
  NameIndex AddName(absl::string_view name) {
    names.emplace_back(name);
    roles.push_back(RoleOfName(name));
    return static_cast<NameIndex>(names.size() - 1);
  }
  ScopeRole RoleOf(ScopeIndex scope) const { return roles[scopes.look[scope].name]; }
  // Whether any scope may have it.
  bool HasRole(ScopeRole role) const { return absl::c_linear_search(roles, role); }
  // 0: success, or a function that returns no status.
  int32_t StatusOf(CallIndex call) const;
  // Whether a GPU was asked for anything, with success: frameworks look for one on machines without.
  bool UsesGpu() const;
  bool HasReachedLimit() const;  // of some process a part is known by totals and the times of steps (DLHOOK_MAX_BYTES)
  // In the order of the op's message in proto/op.proto; for an elapsed time between events, its nanoseconds. Empty if
  // none are kept: calls of CPU libraries, launches, copies.
  absl::Span<const uint64_t> OperandsOf(CallIndex call) const;
  // The Python stack under which the call was made: its own, else that of the innermost scope around it that has one.
  // kNone: not known.
  StackIndex PythonStackOf(CallIndex call) const;
};

// One OpTotals per element of model.ops, executions and creations alike.
// wall_share_ns of all ops plus unattributed_ns equals model.wall_ns() exactly.
struct RunTotals {
  std::vector<OpTotals> ops;
  int64_t unattributed_ns = 0;     // no call active
  int64_t in_library_wall_ns = 0;  // wall_ns - unattributed_ns
  int64_t thread_time_ns = 0;      // sum of top-level durations
};
RunTotals ComputeTotals(const TraceModel& model);

}  // namespace dlhook::analyzer::model
