// Events are kept small until all are known, because a file has them in no particular order; then each thread is walked in the
// order of time, and what was open around what becomes scopes, calls and stacks.
#include "analyzer/import/kineto/kineto_import.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "analyzer/import/kineto/operator_definitions.h"
#include "analyzer/import/kineto/packet_writer.h"
#include "analyzer/import/kineto/python_frames.h"
#include "analyzer/import/kineto/trace_json.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/model/limits.h"
#include "analyzer/model/scope_role.h"
#include "preload/format/hook_table.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline kineto {
namespace {

using absl::string_view;

constexpr int64_t kOriginTicks = 1'000'000'000'000;  // of the trace's first event; Python's frames may begin earlier
constexpr size_t kBatch = 1024;
constexpr size_t kMostThreads = 1 << 16;
constexpr int64_t kMostRunNs = int64_t{1} << 53;  // 104 days

struct HostEvent {
  int64_t start_ns;
  int64_t end_ns;
  int64_t number;       // of an operator its sequence number, of a call its correlation
  uint32_t name;        // in names_
  uint32_t definition;  // in definitions_; 0: none
  Category category;
};

struct GpuEvent {
  int64_t start_ns;
  int64_t duration_ns;
  int64_t correlation;
  uint64_t bytes;
  uint32_t name;    // in names_
  uint32_t kernel;  // in kernels_
  uint32_t context;
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

// "Memcpy HtoD (Pageable -> Device)", "Memcpy PtoP (Device -> Device)"
trace::Copy CopyOf(const std::string& name, uint64_t bytes) {
  trace::Copy copy;
  copy.set_bytes(bytes);
  const auto direction = absl::StrContains(name, "HtoD")   ? trace::Copy::HOST_TO_DEVICE
                         : absl::StrContains(name, "DtoH") ? trace::Copy::DEVICE_TO_HOST
                         : absl::StrContains(name, "DtoD") ? trace::Copy::DEVICE_TO_DEVICE
                         : absl::StrContains(name, "HtoH") ? trace::Copy::HOST_TO_HOST
                         : absl::StrContains(name, "PtoP") ? trace::Copy::PEER
                                                           : trace::Copy::DIRECTION_UNKNOWN;
  copy.set_direction(direction);
  const size_t arrow = name.find(" -> ");
  if (arrow == name.npos) return copy;
  const string_view side =
      direction == trace::Copy::DEVICE_TO_HOST ? string_view(name).substr(arrow) : string_view(name).substr(0, arrow);
  if (absl::StrContains(side, "Pageable")) copy.set_host_memory(trace::Copy::PAGEABLE);
  if (absl::StrContains(side, "Pinned")) copy.set_host_memory(trace::Copy::PINNED);
  if (absl::StrContains(side, "Managed")) copy.set_host_memory(trace::Copy::MANAGED);
  return copy;
}

// dlhook's families of functions; HIP's are those of CUDA with another prefix.
std::string FamilyOf(const std::string& function) {
  string_view bare = function;
  const std::string name = absl::ConsumePrefix(&bare, "hip") ? absl::StrCat("cuda", bare) : function;
  const int hook = FindHook(name.c_str());
  if (hook >= 0) return kFamilyNames[kHookNames[hook].family];
  if (absl::StrContains(name, "Launch")) return "cuda_launch";
  if (absl::StrContains(name, "Memcpy") || absl::StrContains(name, "Memset")) return "cuda_copy";
  if (absl::StrContains(name, "Synchronize")) return "cuda_sync";
  return "cuda_noise";
}

class KinetoImport {
 public:
  explicit KinetoImport(std::string path) : path_(std::move(path)) {}

  void Take(const Event& event) {
    if (event.category == Category::kInstant) return TakeMemory(event);
    if (event.category == Category::kOther || !event.is_complete) return TakeName(event);
    if (!event.has_time || event.duration_ns < 0 || event.duration_ns > kMostRunNs) {
      ++without_time_;
    } else if (IsOnHost(event.category)) {
      TakeHost(event);
    } else {
      TakeGpu(event);
    }
  }

  absl::StatusOr<ImportedTrace> Finish(const TraceFacts& facts, absl::Status damage) {
    if (first_ns_ > last_ns_) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, damage.ok() ? "" : absl::StrCat(": ", damage.message()),
                       ": this trace has no operators, calls or GPU work; expected some of what torch.profiler records "
                       "(cpu_op, cuda_runtime, kernel …)"));
    }
    facts_ = &facts;
    JoinPythonOfNoThread();
    LinkReplays();
    std::stable_sort(gpu_.begin(), gpu_.end(), [](auto& a, auto& b) { return a.correlation < b.correlation; });
    WriteHeader();
    WriteCapabilities();
    WriteThreads();
    WriteGpu();
    WriteEnd();
    return ImportedTrace{writer_.Take(), program_, pid_, std::move(damage)};
  }

 private:
  void TakeName(const Event& event) {
    if (event.text.empty()) return;
    if (event.name == "process_name") process_names_.try_emplace(event.process, event.text);
    if (event.name != "thread_name" || thread_names_.size() > kMostThreads) return;
    thread_names_[{event.process, event.thread}] = event.text;  // "thread 4711 (python3)"
  }

  uint32_t NameOf(const std::string& name) {
    const auto [place, is_new] = name_ids_.try_emplace(name, static_cast<uint32_t>(names_.size()));
    if (is_new) names_.push_back(name);
    return place->second;
  }

  void NoteTime(const Event& event) {
    first_ns_ = std::min(first_ns_, event.start_ns);
    last_ns_ = std::max(last_ns_, event.start_ns + event.duration_ns);
  }

  void TakeHost(const Event& event) {
    if (event.category == Category::kPython && !IsPythonFrame(event.name)) return;
    std::vector<HostEvent>& events = threads_[{event.process, event.thread}];
    if (threads_.size() > kMostThreads) throw LimitError(absl::StrCat("more than ", kMostThreads, " threads"));
    if (event.category != Category::kPython) {
      NoteTime(event);
      ++events_of_process_[event.process];
    }
    HostEvent& kept = events.emplace_back();
    kept.start_ns = event.start_ns;
    kept.end_ns = event.start_ns + event.duration_ns;
    kept.number = event.category == Category::kRuntime ? event.correlation : event.sequence;
    kept.name = NameOf(event.name);
    kept.definition = event.category == Category::kOperator ? DefinitionOf(event) : 0;
    kept.category = event.category;
  }

  void TakeMemory(const Event& event) {
    constexpr int64_t kHost = 0;  // c10::DeviceType::CPU
    if (event.name != "[memory]" || !event.has_time || event.address == 0 || event.memory_bytes == 0) return;
    threads_.try_emplace({event.process, event.thread});
    memory_[{event.process, event.thread}].push_back(
        {event.start_ns, event.address, Clamped<uint64_t>(event.memory_bytes), Clamped<uint64_t>(event.allocated),
         Clamped<uint64_t>(event.reserved),
         event.memory_type == kHost ? 0 : Clamped<uint16_t>(event.memory_device) + 1u});
  }

  uint32_t DefinitionOf(const Event& event) {
    std::optional<trace::OpDefinition> definition = DefineOperator(event);
    if (!definition) return 0;
    definition->set_function(event.name);
    definition->set_time_source(trace::CLOCK_TICKS);
    if (definition->has_collective()) AddGroup(event, definition->mutable_collective());
    const auto [place, is_new] =
        definition_ids_.try_emplace(definition->SerializeAsString(), static_cast<uint32_t>(definitions_.size()));
    if (is_new) definitions_.push_back(*std::move(definition));
    return place->second;
  }

  // Groups have names; the ranks of one are a list, as long as they are few.
  void AddGroup(const Event& event, trace::Collective* collective) {
    const auto [place, is_new] = groups_.try_emplace(event.group, groups_.size() + 1);
    collective->set_communicator(place->second);
    group_ranks_.try_emplace(place->second, event.group_ranks);
  }

  void TakeGpu(const Event& event) {
    NoteTime(event);
    GpuEvent& kept = gpu_.emplace_back();
    kept.start_ns = event.start_ns;
    kept.duration_ns = event.duration_ns;
    kept.correlation = event.correlation;
    kept.bytes = Clamped<uint64_t>(event.bytes);
    kept.name = NameOf(event.name);
    kept.kernel = event.category == Category::kKernel ? KernelOf(event, kept.name) : 0;
    kept.context = Clamped<uint32_t>(event.context);
    kept.stream = static_cast<uint32_t>(event.stream);
    kept.device = Clamped<uint32_t>(event.device);
    kept.category = event.category;
  }

  uint32_t KernelOf(const Event& event, uint32_t name) {
    const auto at = [](const std::vector<int64_t>& list, size_t i) {
      return i < list.size() ? Clamped<uint32_t>(list[i]) : 0;
    };
    trace::InternedGpuKernel kernel;
    kernel.set_name_iid(name + 1);  // until it is written
    kernel.set_grid_x(at(event.grid, 0));
    kernel.set_grid_y(at(event.grid, 1));
    kernel.set_grid_z(at(event.grid, 2));
    kernel.set_block_x(at(event.block, 0));
    kernel.set_block_y(at(event.block, 1));
    kernel.set_block_z(at(event.block, 2));
    kernel.set_registers_per_thread(Clamped<uint32_t>(event.registers));
    kernel.set_dynamic_shared_bytes(Clamped<uint32_t>(event.shared_bytes));
    const auto [place, is_new] =
        kernel_ids_.try_emplace(kernel.SerializeAsString(), static_cast<uint32_t>(kernels_.size()));
    if (is_new) kernels_.push_back(std::move(kernel));
    return place->second;
  }

  // Some versions of Kineto write Python's functions of the main thread as of process 0 and thread 0.
  void JoinPythonOfNoThread() {
    const auto most = std::max_element(events_of_process_.begin(), events_of_process_.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    if (most != events_of_process_.end()) pid_ = Clamped<uint32_t>(most->first);
    const auto none = threads_.find({0, 0});
    const auto main = threads_.find({pid_, pid_});
    if (none == threads_.end() || main == threads_.end() || pid_ == 0) return;
    const auto is_python = [](const HostEvent& event) { return event.category == Category::kPython; };
    if (!std::all_of(none->second.begin(), none->second.end(), is_python)) return;
    if (std::any_of(main->second.begin(), main->second.end(), is_python)) return;
    main->second.insert(main->second.end(), none->second.begin(), none->second.end());
    threads_.erase(none);
  }

  // Some recorders do not give the work of a graph the id of its launch. What begins after a launch without work is that
  // launch's, up to the next one, unless other such work ran at the launch or that of an earlier launch may still come.
  void LinkReplays() {
    absl::flat_hash_set<int64_t> calls, linked;
    std::vector<const HostEvent*> replays;
    for (const auto& [key, events] : threads_) {
      for (const HostEvent& event : events) {
        if (event.category != Category::kRuntime) continue;
        calls.insert(event.number);
        if (absl::StrContains(names_[event.name], "GraphLaunch")) replays.push_back(&event);
      }
    }
    std::vector<GpuEvent*> unlinked;
    for (GpuEvent& event : gpu_) {
      if (!calls.contains(event.correlation)) unlinked.push_back(&event);
      linked.insert(event.correlation);
    }
    std::erase_if(replays, [&](const HostEvent* replay) { return linked.contains(replay->number); });
    std::sort(replays.begin(), replays.end(), [](auto* a, auto* b) { return a->start_ns < b->start_ns; });
    std::sort(unlinked.begin(), unlinked.end(), [](auto* a, auto* b) { return a->start_ns < b->start_ns; });
    auto next = replays.begin();
    bool fits = false;
    int64_t busy_until_ns = INT64_MIN;
    for (GpuEvent* event : unlinked) {
      const auto last = next;
      while (next != replays.end() && (*next)->start_ns <= event->start_ns) ++next;
      if (next != last) fits = next - last == 1 && busy_until_ns <= (*last)->start_ns;
      busy_until_ns = std::max(busy_until_ns, event->start_ns + event->duration_ns);
      if (fits) event->correlation = (*(next - 1))->number;
    }
  }

  uint64_t Ticks(int64_t ns) const { return static_cast<uint64_t>(ns - first_ns_ + kOriginTicks); }
  uint64_t RealNs(int64_t ns) const { return static_cast<uint64_t>(facts_->base_ns + ns); }

  std::string Value(const std::map<std::string, std::string>& values, const std::string& name) const {
    const auto found = values.find(name);
    return found == values.end() ? "" : found->second;
  }

  void WriteHeader() {
    const auto name = process_names_.find(pid_);
    if (name != process_names_.end()) program_ = BaseName(name->second);
    trace::Packet packet;
    trace::Header* header = packet.mutable_header();
    header->set_schema_major(1);
    header->set_tool_version("Kineto");
    trace::Process* process = header->mutable_process();
    process->set_pid(pid_);
    process->set_program(program_);
    process->set_script(ScriptName());
    process->set_host(Value(facts_->values, "host_name"));
    process->set_shim_loaded_ticks(kOriginTicks);
    header->mutable_clock()->set_kind(trace::Clock::MONOTONIC);
    header->mutable_clock()->set_ticks_per_second(1'000'000'000);
    for (const auto& [variable, key] : {std::pair("RANK", "rank"), std::pair("WORLD_SIZE", "world_size")}) {
      const std::string value = Value(facts_->job, key);
      if (value.empty()) continue;
      trace::RankVariable* rank = header->add_rank_variable();
      rank->set_name(variable);
      rank->set_value(value);
    }
    for (const auto& [key, value] : facts_->values) {
      if (!absl::EndsWith(key, "_version") || key == "schemaVersion") continue;
      trace::Setting* setting = header->add_setting();
      setting->set_name(key);
      setting->set_value(value);
    }
    writer_.Write(packet);
    WriteClock(first_ns_);
  }

  // Known only from Python's frames: see PythonFrames::script.
  std::string ScriptName() {
    for (const auto& [key, events] : threads_) {
      for (const HostEvent& event : events) {
        if (event.category != Category::kPython) continue;
        const std::string script = ScriptOf(names_[event.name]);
        if (!script.empty()) return script;
      }
    }
    return "";
  }

  void WriteClock(int64_t ns) {
    trace::Packet packet;
    trace::ClockSample* sample = packet.mutable_clock_sample();
    sample->set_ticks(Ticks(ns));
    sample->set_monotonic_ns(Ticks(ns));
    sample->set_realtime_ns(RealNs(ns));
    writer_.Write(packet);
  }

  void WriteCapability(const char* name, trace::Capability::State state, const char* reason, const char* object = "") {
    trace::Packet packet;
    packet.mutable_capability()->set_name(name);
    packet.mutable_capability()->set_state(state);
    packet.mutable_capability()->set_object(object);
    packet.mutable_capability()->set_reason(reason);
    writer_.Write(packet);
  }

  void WriteCapabilities() {
    const auto has = [this](Category category) {
      return std::any_of(threads_.begin(), threads_.end(), [&](const auto& thread) {
        return std::any_of(thread.second.begin(), thread.second.end(),
                           [&](const HostEvent& event) { return event.category == category; });
      });
    };
    using trace::Capability;
    WriteCapability(kRecordFunctionTap.capability, has(Category::kOperator) ? Capability::ON : Capability::ABSENT, "",
                    "libtorch_cpu.so");
    if (has(Category::kPython)) {
      WriteCapability("python-frames", Capability::ON, "lines are those where functions begin");
    } else {
      WriteCapability("python-frames", Capability::OFF, "torch.profiler recorded no stacks (with_stack)");
    }
    if (definitions_.size() == 1) {
      WriteCapability("shapes", Capability::OFF,
                      "torch.profiler recorded no shapes (record_shapes): what products compute is not known");
    }
    if (memory_.empty()) {
      WriteCapability("memory", Capability::OFF, "torch.profiler recorded no memory (profile_memory)");
    } else {
      WriteCapability("memory", Capability::ON, "");
    }
    WriteCapability("gpu-time", gpu_.empty() ? Capability::ABSENT : Capability::ON,
                    gpu_.empty() ? "the trace has no GPU work" : "");
    WriteCapability(
        "library-calls", Capability::ABSENT,
        "torch.profiler does not record calls of BLAS, cuBLAS, cuDNN and oneDNN: which algorithm they chose, and why, "
        "is not known");
    WriteCapability("native-stacks", Capability::ABSENT, "torch.profiler does not record them");
  }

  // ---- Threads

  struct Open {
    const HostEvent* event;
    int64_t end_ns;
    uint64_t first_sequence = 0;  // of what begins in it
    uint64_t sequence = 0;        // of the call that it is, or of what it computes; 0: neither
    int64_t call_start_ns = 0;
    uint32_t op = 0;                 // index in definitions_ of what it computes; 0: nothing
    int64_t weights_ns = INT64_MAX;  // of both gradients of a convolution: when those of the weights begin
    bool is_of_weights = false;
    bool is_call = false;
    bool asks_gpu = false;
    uint32_t stack = 0;
    trace::ScopeBatch::Kind kind = trace::ScopeBatch::FRAMEWORK_OP;
  };

  void WriteThreads() {
    std::vector<std::pair<int64_t, ThreadKey>> order;
    for (auto& [key, events] : threads_) {
      // What surrounds comes first; of what has the same times, operators surround calls.
      std::stable_sort(events.begin(), events.end(), [](const HostEvent& a, const HostEvent& b) {
        return std::tie(a.start_ns, b.end_ns, a.category) < std::tie(b.start_ns, a.end_ns, b.category);
      });
      order.emplace_back(events.empty() ? INT64_MAX : events.front().start_ns, key);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [start_ns, key] : order) {
      std::vector<HostEvent>& events = threads_[key];
      WriteThread(key, events);
      std::vector<HostEvent>().swap(events);
    }
  }

  void WriteThread(const ThreadKey& key, const std::vector<HostEvent>& events) {
    trace::Packet packet;
    thread_ = ++thread_count_;
    packet.mutable_thread()->set_thread_id(thread_);
    packet.mutable_thread()->set_tid(Clamped<uint32_t>(key.second));
    const auto name = thread_names_.find(key);
    if (name != thread_names_.end()) packet.mutable_thread()->set_name(name->second);
    writer_.Write(packet);
    sequence_ = 0;
    for (size_t i = 0; i < events.size(); ++i) {
      CloseUntil(events[i].start_ns);
      Begin(events, i);
    }
    CloseUntil(INT64_MAX);
    FlushCalls();
    FlushScopes();
    FlushLinks();
    WriteMemory(key);
  }

  void Begin(const std::vector<HostEvent>& events, size_t i) {
    const HostEvent& event = events[i];
    Open open{&event, open_.empty() ? event.end_ns : std::min(event.end_ns, open_.back().end_ns)};
    if (event.category == Category::kPython) {
      frames_.Open(names_[event.name]);
      open_.push_back(open);
      return;
    }
    BeginWeights(event.start_ns);
    open.stack = frames_.Stack();
    open.first_sequence = sequence_ + 1;
    open.call_start_ns = event.start_ns;
    if (event.category == Category::kRuntime) {
      BeginCall(&open);
    } else {
      open.kind = KindOf(event);
      open.op = OpOf(events, i);
      if (open.op != 0 && HasBothGradients(definitions_[open.op]) && !FindWeights(events, i, &open.weights_ns))
        open.op = 0;
      if (open.op != 0) open.sequence = ++sequence_;
    }
    open_.push_back(open);
  }

  // The call of the CUDA or HIP runtime that asked for GPU work, if the trace has it.
  void BeginCall(Open* open) {
    open->sequence = ++sequence_;
    open->is_call = true;
    const GpuEvent* work = WorkOf(open->event->number);
    if (work == nullptr) return;
    for (Open& around : open_) around.asks_gpu = true;
    links_.push_back({static_cast<int64_t>(Ticks(open->event->start_ns)), open->event->number,
                      static_cast<int64_t>(open->sequence)});
    if (links_.size() == kBatch) FlushLinks();
  }

  const GpuEvent* WorkOf(int64_t correlation) const {
    if (correlation < 0) return nullptr;
    const auto found =
        std::lower_bound(gpu_.begin(), gpu_.end(), correlation,
                         [](const GpuEvent& event, int64_t wanted) { return event.correlation < wanted; });
    return found == gpu_.end() || found->correlation != correlation ? nullptr : &*found;
  }

  trace::ScopeBatch::Kind KindOf(const HostEvent& event) const {
    if (event.category == Category::kAnnotation) return trace::ScopeBatch::USER_RANGE;
    const std::string& name = names_[event.name];
    const Open* around = nullptr;
    for (auto open = open_.rbegin(); open != open_.rend() && around == nullptr; ++open) {
      if (open->event->category == Category::kOperator) around = &*open;
    }
    const string_view outer = around == nullptr ? string_view() : string_view(names_[around->event->name]);
    const bool is_node = RoleOfName(outer) == ScopeRole::kEvaluate && WithoutEngine(outer) == name;
    return is_node ? trace::ScopeBatch::BACKWARD_NODE : trace::ScopeBatch::FRAMEWORK_OP;
  }

  // What the innermost of nested operators compute: an aten::linear consists of its aten::addmm.
  uint32_t OpOf(const std::vector<HostEvent>& events, size_t i) const {
    const HostEvent& event = events[i];
    uint32_t op = event.definition;
    if (op == 0 && event.category == Category::kOperator && CarriesOut(names_[event.name])) {
      for (auto open = open_.rbegin(); open != open_.rend() && op == 0; ++open) op = open->event->definition;
    }
    for (size_t inner = i + 1; op != 0 && inner < events.size() && events[inner].start_ns < event.end_ns; ++inner) {
      const bool computes = events[inner].definition != 0 ||
                            (events[inner].category == Category::kOperator && CarriesOut(names_[events[inner].name]));
      if (computes) return 0;
    }
    return op;
  }

  // When the gradients of a convolution's weights begin to be computed: with the first kernel behind those of the input. False: names
  // don't tell.
  bool FindWeights(const std::vector<HostEvent>& events, size_t i, int64_t* weights_ns) const {
    bool has_data = false, has_weights = false;
    for (size_t inner = i + 1; inner < events.size() && events[inner].start_ns < events[i].end_ns; ++inner) {
      const GpuEvent* work = events[inner].category == Category::kRuntime ? WorkOf(events[inner].number) : nullptr;
      if (work == nullptr || work->category != Category::kKernel) continue;
      const std::string& name = names_[work->name];
      const Gradient gradient = GradientOfKernel(name);
      if (gradient == Gradient::kData && has_weights) return false;
      if (gradient == Gradient::kData) *weights_ns = INT64_MAX;
      has_data = has_data || gradient == Gradient::kData;
      has_weights = has_weights || gradient == Gradient::kWeights;
      const bool converts_back = absl::StrContains(name, "nhwcToNchw");
      if (has_data && gradient != Gradient::kData && !converts_back)
        *weights_ns = std::min(*weights_ns, events[inner].start_ns);
    }
    return has_data && has_weights;
  }

  void BeginWeights(int64_t ns) {
    for (Open& open : open_) {
      if (open.is_of_weights || ns < open.weights_ns) continue;
      Open data = open;
      data.end_ns = ns;
      AddCall(data);
      open.is_of_weights = true;
      open.sequence = ++sequence_;
      open.call_start_ns = ns;
    }
  }

  void CloseUntil(int64_t ns) {
    while (!open_.empty() && open_.back().end_ns <= ns) {
      const Open open = open_.back();
      open_.pop_back();
      if (open.event->category == Category::kPython) {
        frames_.Close();
      } else {
        if (open.sequence != 0) AddCall(open);
        if (!open.is_call) AddScope(open);
      }
    }
  }

  void AddCall(const Open& open) {
    if (calls_.op_iid_size() == 0) {
      call_ticks_ = Ticks(open.end_ns);
      call_sequence_ = open.sequence - 1;
      calls_.set_base_end_ticks(call_ticks_);
      calls_.set_base_sequence(call_sequence_);
    }
    const auto parent = std::find_if(open_.rbegin(), open_.rend(), [&](const Open& around) {
      return around.sequence != 0 && around.sequence < open.sequence;
    });
    calls_.add_op_iid(writer_.Op(open.is_call ? CallDefinition(open) : OperatorDefinition(open)));
    calls_.add_sequence_delta(static_cast<int32_t>(open.sequence - call_sequence_ - 1));
    calls_.add_end_delta_ticks(static_cast<int64_t>(Ticks(open.end_ns) - call_ticks_));
    calls_.add_duration(static_cast<uint64_t>(open.end_ns - open.call_start_ns));
    calls_.add_parent_distance(parent == open_.rend() ? 0 : static_cast<uint32_t>(open.sequence - parent->sequence));
    calls_.add_caller_iid(0);
    calls_.add_python_stack_iid(open.stack);
    call_ticks_ = Ticks(open.end_ns);
    call_sequence_ = open.sequence;
    ++call_count_;
    if (calls_.op_iid_size() == kBatch) FlushCalls();
  }

  trace::OpDefinition OperatorDefinition(const Open& open) const {
    trace::OpDefinition definition = definitions_[open.op];
    const char* const family = definition.has_collective() ? "nccl" : "torch_gpu";
    definition.set_family(open.asks_gpu ? family : "torch");
    definition.set_function(names_[open.event->name]);
    if (HasBothGradients(definition)) ChooseGradient(open.is_of_weights, &definition);
    if (definition.has_collective()) SetRank(definition.mutable_collective());
    return definition;
  }

  // The place of this process in the list of the group's ranks, "[0, 2, 4]".
  void SetRank(trace::Collective* collective) const {
    const std::string rank = Value(facts_->job, "rank");
    const std::vector<string_view> ranks =
        absl::StrSplit(group_ranks_.at(collective->communicator()), absl::ByAnyChar("[, ]"), absl::SkipEmpty());
    const auto own = std::find(ranks.begin(), ranks.end(), rank);
    if (own == ranks.end() || std::ssize(ranks) != collective->ranks()) return;
    collective->set_rank(static_cast<int32_t>(own - ranks.begin()));
  }

  trace::OpDefinition CallDefinition(const Open& open) const {
    trace::OpDefinition definition;
    const std::string& function = names_[open.event->name];
    definition.set_function(function);
    definition.set_family(FamilyOf(function));
    definition.set_time_source(trace::CLOCK_TICKS);
    const GpuEvent* work = WorkOf(open.event->number);
    if (work == nullptr || definition.family() == "cuda_graph") return definition;
    if (work->category == Category::kKernel) {
      const trace::InternedGpuKernel& kernel = kernels_[work->kernel];
      trace::KernelLaunch* launch = definition.mutable_launch();
      launch->set_kernel(names_[work->name]);
      launch->set_grid_x(kernel.grid_x());
      launch->set_grid_y(kernel.grid_y());
      launch->set_grid_z(kernel.grid_z());
      launch->set_block_x(kernel.block_x());
      launch->set_block_y(kernel.block_y());
      launch->set_block_z(kernel.block_z());
      return definition;
    }
    *definition.mutable_copy() = CopyOf(names_[work->name], work->bytes);
    if (work->category == Category::kSet) definition.mutable_copy()->set_direction(trace::Copy::SET);
    definition.mutable_copy()->set_asynchronous(absl::StrContains(function, "Async") ||
                                                absl::StrContains(function, "WithStream"));
    return definition;
  }

  void FlushCalls() {
    if (calls_.op_iid_size() == 0) return;
    trace::Packet packet;
    calls_.set_thread_id(thread_);
    packet.mutable_call_batch()->Swap(&calls_);
    writer_.Write(packet);
  }

  void AddScope(const Open& open) {
    if (scopes_.name_iid_size() == 0) {
      scope_ticks_ = Ticks(open.end_ns);
      scope_sequence_ = open.first_sequence;
      scope_link_ = 0;
      scopes_.set_base_end_ticks(scope_ticks_);
      scopes_.set_base_first_sequence(scope_sequence_);
    }
    scopes_.add_name_iid(writer_.String(names_[open.event->name]));
    scopes_.add_end_delta_ticks(static_cast<int64_t>(Ticks(open.end_ns) - scope_ticks_));
    scopes_.add_duration_ticks(static_cast<uint64_t>(open.end_ns - open.event->start_ns));
    scopes_.add_kind(open.kind);
    scopes_.add_link_delta(open.event->number - scope_link_);
    scopes_.add_first_sequence_delta(static_cast<int64_t>(open.first_sequence - scope_sequence_));
    scopes_.add_call_count(static_cast<uint32_t>(sequence_ + 1 - open.first_sequence));
    scopes_.add_python_stack_iid(open.stack);
    scope_ticks_ = Ticks(open.end_ns);
    scope_sequence_ = open.first_sequence;
    scope_link_ = open.event->number;
    if (scopes_.name_iid_size() == kBatch) FlushScopes();
  }

  void FlushScopes() {
    if (scopes_.name_iid_size() == 0) return;
    trace::Packet packet;
    scopes_.set_thread_id(thread_);
    packet.mutable_scope_batch()->Swap(&scopes_);
    writer_.Write(packet);
  }

  struct Link {
    int64_t ticks;
    int64_t correlation;
    int64_t sequence;
  };

  void FlushLinks() {
    if (links_.empty()) return;
    trace::Packet packet;
    trace::GpuLinkBatch* batch = packet.mutable_gpu_link();
    batch->set_thread_id(thread_);
    int64_t ticks = 0, correlation = 0, sequence = 0;
    for (const Link& link : links_) {
      batch->add_tick_delta(link.ticks - std::exchange(ticks, link.ticks));
      batch->add_correlation_delta(link.correlation - std::exchange(correlation, link.correlation));
      batch->add_sequence_delta(link.sequence - std::exchange(sequence, link.sequence));
    }
    links_.clear();
    writer_.Write(packet);
  }

  void WriteMemory(const ThreadKey& key) {
    const auto found = memory_.find(key);
    if (found == memory_.end()) return;
    std::vector<MemoryEvent>& events = found->second;
    std::stable_sort(events.begin(), events.end(), [](auto& a, auto& b) { return a.ns < b.ns; });
    for (size_t begin = 0; begin < events.size(); begin += kBatch) {
      trace::Packet packet;
      trace::MemoryBatch* batch = packet.mutable_memory_batch();
      batch->set_thread_id(thread_);
      int64_t ticks = 0, address = 0;
      for (size_t i = begin; i < std::min(begin + kBatch, events.size()); ++i) {
        const MemoryEvent& event = events[i];
        const auto at = static_cast<int64_t>(Ticks(event.ns));
        batch->add_tick_delta(at - std::exchange(ticks, at));
        batch->add_address_delta(event.address - std::exchange(address, event.address));
        batch->add_bytes(event.bytes);
        batch->add_device(event.device);
        batch->add_allocated(event.allocated);
        batch->add_reserved(event.reserved);
      }
      writer_.Write(packet);
    }
  }

  // ---- GPUs

  void WriteGpu() {
    if (gpu_.empty()) return;
    std::sort(gpu_.begin(), gpu_.end(), [](auto& a, auto& b) { return a.start_ns < b.start_ns; });
    WriteDevices();
    trace::Packet window;
    window.mutable_gpu_window()->set_ticks(Ticks(first_ns_));
    window.mutable_gpu_window()->set_source(trace::GPU_TIME_CUPTI);
    writer_.Write(window);
    for (size_t begin = 0; begin < gpu_.size(); begin += kBatch) {
      WriteGpuBatch(begin, std::min(begin + kBatch, gpu_.size()));
    }
  }

  // Those that did something: a job's trace lists all GPUs of its machine.
  void WriteDevices() {
    std::map<uint32_t, trace::GpuDevice> used;
    for (const GpuEvent& event : gpu_) used[event.device].set_ordinal(event.device);
    for (const Device& device : facts_->devices) {
      const auto found = used.find(Clamped<uint32_t>(device.ordinal));
      if (found == used.end()) continue;
      found->second.set_name(device.name);
      found->second.set_multiprocessors(Clamped<uint32_t>(device.multiprocessors));
      found->second.set_memory_bytes(Clamped<uint64_t>(device.memory_bytes));
      found->second.set_compute_capability(
          Clamped<uint32_t>(std::min<int64_t>(device.major, 1000) * 10 + device.minor % 10));
    }
    for (auto& [ordinal, device] : used) {
      trace::Packet packet;
      packet.mutable_gpu_device()->Swap(&device);
      writer_.Write(packet);
    }
  }

  uint32_t KernelId(const GpuEvent& event) {
    if (event.category != Category::kKernel) return 0;
    trace::InternedGpuKernel kernel = kernels_[event.kernel];
    kernel.set_name_iid(writer_.String(names_[event.name]));
    return writer_.Kernel(std::move(kernel));
  }

  void WriteGpuBatch(size_t begin, size_t end) {
    trace::Packet packet;
    trace::GpuActivityBatch* batch = packet.mutable_gpu_activity();
    batch->set_source(trace::GPU_TIME_CUPTI);
    batch->set_base_start_ns(RealNs(gpu_[begin].start_ns));
    int64_t start_ns = gpu_[begin].start_ns, correlation = 0;
    for (size_t i = begin; i < end; ++i) {
      const GpuEvent& event = gpu_[i];
      const trace::Copy copy = event.category == Category::kCopy ? CopyOf(names_[event.name], 0) : trace::Copy();
      batch->add_kind(event.category == Category::kKernel ? trace::GpuActivityBatch::KERNEL
                      : event.category == Category::kCopy ? trace::GpuActivityBatch::COPY
                                                          : trace::GpuActivityBatch::SET);
      batch->add_device(event.device);
      batch->add_context(event.context);
      batch->add_stream(event.stream);
      batch->add_start_delta_ns(event.start_ns - std::exchange(start_ns, event.start_ns));
      batch->add_duration_ns(static_cast<uint64_t>(event.duration_ns));
      batch->add_correlation_delta(event.correlation - std::exchange(correlation, event.correlation));
      batch->add_kernel_iid(KernelId(event));
      batch->add_bytes(event.bytes);
      batch->add_direction(event.category == Category::kSet ? trace::Copy::SET : copy.direction());
      batch->add_host_memory(copy.host_memory());
    }
    writer_.Write(packet);
  }

  void WriteEnd() {
    WriteClock(last_ns_);
    trace::Packet packet;
    if (without_time_ > 0) {
      packet.mutable_loss()->set_reason(trace::Loss::BAD_RECORD);
      packet.mutable_loss()->set_calls(without_time_);
      packet.mutable_loss()->set_detail("events without a possible time");
      writer_.Write(packet);
    }
    packet.mutable_footer()->set_end(trace::Footer::EXITED);
    packet.mutable_footer()->set_end_ticks(Ticks(last_ns_));
    packet.mutable_footer()->set_calls(call_count_);
    writer_.Write(packet);
  }

  const std::string path_;
  const TraceFacts* facts_ = nullptr;
  PacketWriter writer_;
  PythonFrames frames_{&writer_};

  std::map<ThreadKey, std::vector<HostEvent>> threads_;
  std::map<ThreadKey, std::vector<MemoryEvent>> memory_;
  std::vector<GpuEvent> gpu_;
  std::vector<std::string> names_;
  absl::flat_hash_map<std::string, uint32_t> name_ids_;
  std::vector<trace::OpDefinition> definitions_{1};
  absl::flat_hash_map<std::string, uint32_t> definition_ids_;
  std::vector<trace::InternedGpuKernel> kernels_;
  absl::flat_hash_map<std::string, uint32_t> kernel_ids_;
  std::map<std::string, uint64_t> groups_;
  std::map<uint64_t, std::string> group_ranks_;
  std::map<int64_t, std::string> process_names_;
  std::map<ThreadKey, std::string> thread_names_;
  std::map<int64_t, uint64_t> events_of_process_;
  int64_t first_ns_ = INT64_MAX, last_ns_ = INT64_MIN;
  uint64_t without_time_ = 0;
  uint32_t pid_ = 0;
  std::string program_ = "python";

  // Of the thread that is being written.
  uint32_t thread_ = 0, thread_count_ = 0;
  uint64_t sequence_ = 0;
  std::vector<Open> open_;
  trace::CallBatch calls_;
  uint64_t call_ticks_ = 0, call_sequence_ = 0, call_count_ = 0;
  trace::ScopeBatch scopes_;
  uint64_t scope_ticks_ = 0, scope_sequence_ = 0;
  int64_t scope_link_ = 0;
  std::vector<Link> links_;
};

}  // namespace

bool IsKinetoTrace(const std::string& path) { return !absl::EndsWith(path, kTraceSuffix) && LooksLikeJson(path); }

absl::StatusOr<ImportedTrace> ImportKineto(const std::string& path, const std::function<void(uint64_t)>& progress) {
  KinetoImport import(path);
  TraceFacts facts;
  absl::Status status = ReadTraceJson(
      path, [&](const Event& event) { import.Take(event); }, &facts, progress);
  if (!status.ok() && !absl::IsDataLoss(status)) return status;
  return import.Finish(facts, std::move(status));
}

}  // namespace dlhook::analyzer::kineto
