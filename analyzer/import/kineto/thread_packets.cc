#include "analyzer/import/kineto/thread_packets.h"

#include "analyzer/import/kineto/operator_definitions.h"
#include "analyzer/model/op_kind.h"
#include "analyzer/model/scope_role.h"
#include "preload/format/hook_table.h"

namespace dlhook::analyzer::inline kineto {
namespace {

using absl::string_view;

// dlhook's families of functions; HIP's are those of CUDA with another prefix.
std::string FamilyOf(const std::string& function) {
  string_view bare = function;
  const std::string name = absl::ConsumePrefix(&bare, "hip") ? absl::StrCat("cuda", bare) : function;
  const int hook = FindHook(name.c_str());
  if (hook >= 0) return kFamilyNames[kHookNames[hook].family];
  if (absl::StrContains(name, "Launch")) return "cuda_launch";
  if (absl::StrContains(name, "Memcpy") || absl::StrContains(name, "Memset")) return "cuda_copy";
  // Intel's: urQueueFinish, urEventWait.
  for (const char* wait : {"Synchronize", "QueueFinish", "EventWait"}) {
    if (absl::StrContains(name, wait)) return "cuda_sync";
  }
  return "cuda_noise";
}

// Others of CUPTI's names are the driver's work, or tell nothing ("Unrecognized").
std::string FamilyOfOverhead(const std::string& name) {
  if (name == kQueueIsFull) return "cuda_sync";
  for (const char* own :
       {"Activity Buffer Request", "Buffer Flush", "Instrumentation", "Resource", "UVM Activity Init"}) {
    if (name == own) return kProfilerFamily;
  }
  return "cuda_noise";
}

}  // namespace

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

void ThreadPackets::Write(const ThreadKey& key, const std::vector<HostEvent>& events) {
  trace::Packet packet;
  ++thread_;
  packet.mutable_thread()->set_thread_id(thread_);
  packet.mutable_thread()->set_tid(Clamped<uint32_t>(key.second));
  const auto name = kept_.thread_names.find(key);
  if (name != kept_.thread_names.end()) packet.mutable_thread()->set_name(name->second);
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

void ThreadPackets::Begin(const std::vector<HostEvent>& events, size_t i) {
  const HostEvent& event = events[i];
  if (event.category == Category::kPython && kept_.names[event.name] != kInductorLoop) {
    frames_.Open(kept_.names[event.name], event.end_ns);
    return;
  }
  if (event.category == Category::kPython && !frames_.IsInInductorsCode()) return;
  Open open{&event, open_.empty() ? event.end_ns : std::min(event.end_ns, open_.back().end_ns)};
  if (open_with_weights_ > 0) BeginWeights(event.start_ns);
  if (!open_.empty()) {
    const Open& around = open_.back();
    open.caller = around.sequence != 0 ? std::ssize(open_) - 1 : around.caller;
    open.innermost_operator = around.innermost_operator;
    open.innermost_definition = around.innermost_definition;
  }
  if (event.category == Category::kOperator) open.innermost_operator = &event;
  if (event.definition != 0) open.innermost_definition = event.definition;
  open.stack = frames_.Stack();
  open.first_sequence = sequence_ + 1;
  open.call_start_ns = event.start_ns;
  if (event.category == Category::kRuntime || event.category == Category::kOverhead) {
    BeginCall(&open);
  } else {
    open.kind = KindOf(event);
    open.op = OpOf(events, i);
    if (open.op != 0 && HasBothGradients(kept_.definitions[open.op]) && !FindWeights(events, i, &open.weights_ns))
      open.op = 0;
    if (open.op != 0) open.sequence = ++sequence_;
    if (open.op != 0 && open.weights_ns != INT64_MAX) ++open_with_weights_;
  }
  open_.push_back(open);
}

// The call of the CUDA or HIP runtime that asked for GPU work, if the trace has it.
void ThreadPackets::BeginCall(Open* open) {
  open->sequence = ++sequence_;
  open->is_call = true;
  const GpuEvent* work = kept_.WorkOf(open->event->number);
  if (work == nullptr) return;
  for (auto around = open_.rbegin(); around != open_.rend() && !around->asks_gpu; ++around) around->asks_gpu = true;
  links_.push_back({static_cast<int64_t>(kept_.Ticks(open->event->start_ns)), open->event->number,
                    static_cast<int64_t>(open->sequence)});
  if (links_.size() == kBatch) FlushLinks();
}

trace::ScopeBatch::Kind ThreadPackets::KindOf(const HostEvent& event) const {
  if (event.category == Category::kAnnotation) return trace::ScopeBatch::USER_RANGE;
  const std::string& name = kept_.names[event.name];
  const HostEvent* const around = open_.empty() ? nullptr : open_.back().innermost_operator;
  const string_view outer = around == nullptr ? string_view() : string_view(kept_.names[around->name]);
  const string_view node = WithoutEngine(outer);
  const bool is_node = node.size() < outer.size() && node == name;
  return is_node ? trace::ScopeBatch::BACKWARD_NODE : trace::ScopeBatch::FRAMEWORK_OP;
}

// What the innermost of nested operators compute: an aten::linear consists of its aten::addmm.
uint32_t ThreadPackets::OpOf(const std::vector<HostEvent>& events, size_t i) const {
  const HostEvent& event = events[i];
  uint32_t op = event.definition;
  if (op == 0 && event.category == Category::kOperator && CarriesOut(kept_.names[event.name]) && !open_.empty())
    op = open_.back().innermost_definition;
  for (size_t inner = i + 1; op != 0 && inner < events.size() && events[inner].start_ns < event.end_ns; ++inner) {
    const bool computes = events[inner].definition != 0 || (events[inner].category == Category::kOperator &&
                                                            CarriesOut(kept_.names[events[inner].name]));
    if (computes) return 0;
  }
  return op;
}

// When the gradients of a convolution's weights begin to be computed: with the first kernel behind those of the input. False: names
// don't tell.
bool ThreadPackets::FindWeights(const std::vector<HostEvent>& events, size_t i, int64_t* weights_ns) const {
  bool has_data = false, has_weights = false;
  for (size_t inner = i + 1; inner < events.size() && events[inner].start_ns < events[i].end_ns; ++inner) {
    const GpuEvent* work = events[inner].category == Category::kRuntime ? kept_.WorkOf(events[inner].number) : nullptr;
    if (work == nullptr || work->category != Category::kKernel) continue;
    const std::string& name = kept_.names[work->name];
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

void ThreadPackets::BeginWeights(int64_t ns) {
  for (Open& open : open_) {
    if (open.is_of_weights || ns < open.weights_ns) continue;
    Open data = open;
    data.end_ns = ns;
    AddCall(data);
    open.is_of_weights = true;
    --open_with_weights_;
    open.sequence = ++sequence_;
    open.call_start_ns = ns;
  }
}

// Frames and scopes end independently: a range that a "with" opens begins in its __enter__, and outlives it.
void ThreadPackets::CloseUntil(int64_t ns) {
  frames_.CloseUntil(ns);
  while (!open_.empty() && open_.back().end_ns <= ns) {
    const Open open = open_.back();
    open_.pop_back();
    if (open.weights_ns != INT64_MAX && !open.is_of_weights && open.op != 0) --open_with_weights_;
    if (open.sequence != 0) AddCall(open);
    if (!open.is_call) AddScope(open);
  }
}

void ThreadPackets::AddCall(const Open& open) {
  if (calls_.op_iid_size() == 0) {
    call_ticks_ = kept_.Ticks(open.end_ns);
    call_sequence_ = open.sequence - 1;
    calls_.set_base_end_ticks(call_ticks_);
    calls_.set_base_sequence(call_sequence_);
  }
  ptrdiff_t caller = open.caller;
  while (caller >= 0 && open_[static_cast<size_t>(caller)].sequence >= open.sequence)
    caller = open_[static_cast<size_t>(caller)].caller;
  const uint64_t distance = caller < 0 ? 0 : open.sequence - open_[static_cast<size_t>(caller)].sequence;
  calls_.add_op_iid(writer_.Op(open.is_call ? CallDefinition(open) : OperatorDefinition(open)));
  calls_.add_sequence_delta(static_cast<int32_t>(open.sequence - call_sequence_ - 1));
  calls_.add_end_delta_ticks(static_cast<int64_t>(kept_.Ticks(open.end_ns) - call_ticks_));
  calls_.add_duration(static_cast<uint64_t>(open.end_ns - open.call_start_ns));
  calls_.add_parent_distance(static_cast<uint32_t>(distance));
  calls_.add_python_stack_iid(open.stack);
  call_ticks_ = kept_.Ticks(open.end_ns);
  call_sequence_ = open.sequence;
  ++call_count_;
  if (calls_.op_iid_size() == kBatch) FlushCalls();
}

trace::OpDefinition ThreadPackets::OperatorDefinition(const Open& open) const {
  trace::OpDefinition definition = kept_.definitions[open.op];
  const char* const family = definition.has_collective() ? "nccl" : "torch_gpu";
  definition.set_family(open.asks_gpu ? family : "torch");
  definition.set_function(kept_.names[open.event->name]);
  if (HasBothGradients(definition)) ChooseGradient(open.is_of_weights, &definition);
  if (definition.has_collective()) SetRank(definition.mutable_collective());
  return definition;
}

// The place of this process in the list of the group's ranks, "[0, 2, 4]".
void ThreadPackets::SetRank(trace::Collective* collective) const {
  const std::vector<string_view> ranks =
      absl::StrSplit(kept_.group_ranks.at(collective->communicator()), absl::ByAnyChar("[, ]"), absl::SkipEmpty());
  const auto own = absl::c_find(ranks, rank_);
  if (own == ranks.end() || std::ssize(ranks) != collective->ranks()) return;
  collective->set_rank(static_cast<int32_t>(own - ranks.begin()));
}

trace::OpDefinition ThreadPackets::CallDefinition(const Open& open) const {
  trace::OpDefinition definition;
  const std::string& function = kept_.names[open.event->name];
  definition.set_function(function);
  const bool is_overhead = open.event->category == Category::kOverhead;
  definition.set_family(is_overhead ? FamilyOfOverhead(function) : FamilyOf(function));
  definition.set_time_source(trace::CLOCK_TICKS);
  if (const auto wait = kept_.waits.find(open.event->number); wait != kept_.waits.end())
    definition.set_detail(wait->second);
  if (absl::EndsWith(function, "Malloc") || absl::EndsWith(function, "Free")) {  // of CUDA and HIP
    definition.mutable_allocation()->set_kind(trace::Allocation::DEVICE);
    definition.mutable_allocation()->set_is_free(absl::EndsWith(function, "Free"));
  }
  const GpuEvent* work = kept_.WorkOf(open.event->number);
  if (work == nullptr || definition.family() == "cuda_graph") return definition;
  if (work->category == Category::kKernel) {
    const trace::InternedGpuKernel& kernel = kept_.kernels[work->kernel];
    trace::KernelLaunch* launch = definition.mutable_launch();
    launch->set_kernel(kept_.names[work->name]);
    launch->set_grid_x(kernel.grid_x());
    launch->set_grid_y(kernel.grid_y());
    launch->set_grid_z(kernel.grid_z());
    launch->set_block_x(kernel.block_x());
    launch->set_block_y(kernel.block_y());
    launch->set_block_z(kernel.block_z());
    return definition;
  }
  *definition.mutable_copy() = CopyOf(kept_.names[work->name], work->bytes);
  if (work->category == Category::kSet) definition.mutable_copy()->set_direction(trace::Copy::SET);
  definition.mutable_copy()->set_asynchronous(absl::StrContains(function, "Async") ||
                                              absl::StrContains(function, "WithStream"));
  return definition;
}

void ThreadPackets::FlushCalls() {
  if (calls_.op_iid_size() == 0) return;
  trace::Packet packet;
  calls_.set_thread_id(thread_);
  packet.mutable_call_batch()->Swap(&calls_);
  writer_.Write(packet);
}

void ThreadPackets::AddScope(const Open& open) {
  if (scopes_.name_iid_size() == 0) {
    scope_ticks_ = kept_.Ticks(open.end_ns);
    scope_sequence_ = open.first_sequence;
    scope_link_ = 0;
    scopes_.set_base_end_ticks(scope_ticks_);
    scopes_.set_base_first_sequence(scope_sequence_);
  }
  scopes_.add_name_iid(writer_.String(kept_.names[open.event->name]));
  scopes_.add_end_delta_ticks(static_cast<int64_t>(kept_.Ticks(open.end_ns) - scope_ticks_));
  scopes_.add_duration_ticks(static_cast<uint64_t>(open.end_ns - open.event->start_ns));
  scopes_.add_kind(open.kind);
  scopes_.add_link_delta(open.event->number - scope_link_);
  scopes_.add_first_sequence_delta(static_cast<int64_t>(open.first_sequence - scope_sequence_));
  scopes_.add_call_count(static_cast<uint32_t>(sequence_ + 1 - open.first_sequence));
  scopes_.add_python_stack_iid(open.stack);
  scope_ticks_ = kept_.Ticks(open.end_ns);
  scope_sequence_ = open.first_sequence;
  scope_link_ = open.event->number;
  if (scopes_.name_iid_size() == kBatch) FlushScopes();
}

void ThreadPackets::FlushScopes() {
  if (scopes_.name_iid_size() == 0) return;
  trace::Packet packet;
  scopes_.set_thread_id(thread_);
  packet.mutable_scope_batch()->Swap(&scopes_);
  writer_.Write(packet);
}

void ThreadPackets::FlushLinks() {
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

void ThreadPackets::WriteMemory(const ThreadKey& key) {
  const auto found = kept_.memory.find(key);
  if (found == kept_.memory.end()) return;
  std::vector<MemoryEvent>& events = found->second;
  absl::c_stable_sort(events, [](auto& a, auto& b) { return a.ns < b.ns; });
  for (size_t begin = 0; begin < events.size(); begin += kBatch) {
    trace::Packet packet;
    trace::MemoryBatch* batch = packet.mutable_memory_batch();
    batch->set_thread_id(thread_);
    int64_t ticks = 0, address = 0;
    for (size_t i = begin; i < std::min(begin + kBatch, events.size()); ++i) {
      const MemoryEvent& event = events[i];
      const auto at = static_cast<int64_t>(kept_.Ticks(event.ns));
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

}  // namespace dlhook::analyzer::kineto
