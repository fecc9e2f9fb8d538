// One process trace: interned ids are resolved as packets come; times are mapped and calls nested
// at the end, because the clock sample that follows a call decides about its time.
#include "analyzer/model/process_builder.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "analyzer/model/nesting.h"

namespace dlhook::analyzer {
namespace {

constexpr char kCallBatchTag = 0x0A;       // field 1 of Packet, length-delimited
constexpr uint32_t kMaxOpIid = 1 << 22;    // ids count from 1: nothing real comes near
constexpr size_t kCallsAtATime = 1 << 14;  // moved from staging to the model
constexpr absl::string_view kUnknownFunction = "[unknown op]";

// The CallBatch in a packet that holds nothing else: parsed apart, so that its arrays are reused.
bool IsCallBatch(absl::string_view payload, absl::string_view* batch) {
  if (payload.empty() || payload.front() != kCallBatchTag) return false;
  payload.remove_prefix(1);
  uint64_t length = 0;
  if (!ConsumeVarint(&payload, &length) || length != payload.size()) return false;
  *batch = payload;
  return true;
}

template <typename T>
void GrowFor(std::vector<T>* column, size_t count) {
  const size_t needed = column->size() + count;
  if (needed > column->capacity()) {
    column->reserve(column->empty() ? needed : std::max(needed, column->capacity() * 2));
  }
}

template <typename Function>
void ForEachColumn(CallColumns* calls, Function function) {
  function(&calls->start_ns);
  function(&calls->duration_ns);
  function(&calls->self_ns);
  function(&calls->op);
  function(&calls->thread);
  function(&calls->parent);
  function(&calls->sequence);
}

// Products, convolutions and conversions of the GPU's libraries, which passes join by what they read and write, and times
// between events.
bool KeepsOperands(const trace::OpDefinition& definition) {
  const bool on_gpu = definition.has_cudnn() || (definition.has_gemm() && definition.gemm().has_cuda()) ||
                      (definition.has_matrix() && absl::StartsWith(definition.family(), "cu"));
  return on_gpu || absl::StrContains(definition.function(), "EventElapsedTime");
}

}  // namespace

bool ProcessBuilder::Add(PacketReader* reader) {
  absl::string_view batch;
  if (IsCallBatch(reader->payload(), &batch)) {
    if (!reader->Parse(batch, &batch_)) return false;
    AddCalls(batch_);
    return true;
  }
  trace::Packet packet;
  if (!reader->Parse(reader->payload(), &packet)) return false;
  AddPacket(&packet);
  return true;
}

void ProcessBuilder::AddPacket(trace::Packet* packet) {
  switch (packet->data_case()) {
    case trace::Packet::kCallBatch:
      return AddCalls(packet->call_batch());
    case trace::Packet::kInterned:
      return AddOps(packet->interned());
    case trace::Packet::kClockSample:
      return clock_samples_.push_back(packet->clock_sample());
    case trace::Packet::kCallAggregate:
      aggregates_.push_back(packet->call_aggregate());
      return aggregates_.back().set_op_iid(FindOp(packet->call_aggregate().op_iid()));
    case trace::Packet::kHeader:
      return AddHeader(packet->mutable_header());
    case trace::Packet::kThread:
      return AddThread(packet->thread());
    case trace::Packet::kMapping:
      return process_.mappings.push_back(packet->mapping());
    case trace::Packet::kCapability:
      return AddCapability(packet->capability());
    case trace::Packet::kLoss:
      return AddLoss(packet->loss());
    case trace::Packet::kReset:
      op_by_iid_.clear();
      operand_rules_.clear();
      addresses_.clear();
      keeps_operands_ = false;
      return;
    case trace::Packet::kCaptureState:
      return capture_states_.push_back(packet->capture_state());
    case trace::Packet::kFooter:
      process_.has_footer = true;
      footer_ = packet->footer();
      return;
    case trace::Packet::kScopeBatch:
    case trace::Packet::kGpuActivity:
    case trace::Packet::kCounterBatch:
      return run_->oddities_.Count(
          "a packet of scopes, GPU activity or counters, which this version does not read");
    case trace::Packet::DATA_NOT_SET:
      return run_->oddities_.Count("a packet of a kind that this version does not know");
  }
}

// Where a second writer took over (see Reset), it repeats the header; the first one tells more.
void ProcessBuilder::AddHeader(trace::Header* header) {
  if (!has_header_) process_.header = std::move(*header);
  has_header_ = true;
}

void ProcessBuilder::AddOps(const trace::Interned& interned) {
  for (const trace::OpDefinition& definition : interned.op()) {
    const uint32_t iid = definition.iid();
    if (iid == 0 || iid > kMaxOpIid) {
      run_->oddities_.Count("an op definition with an impossible id");
      continue;
    }
    if (iid >= op_by_iid_.size()) op_by_iid_.resize(iid + 1, kNone);
    const uint32_t tap = definition.time_source() == trace::ONEDNN_LOG ? kTapCall : 0;
    op_by_iid_[iid] = run_->InternOp(definition) | tap;
    if (iid >= operand_rules_.size()) operand_rules_.resize(iid + 1);
    operand_rules_[iid] = {definition.address_count(), KeepsOperands(definition)};
    keeps_operands_ = keeps_operands_ || operand_rules_[iid].is_kept;
  }
  AddAddresses(interned);
}

// Ids follow on each other; a gap (a definition that was lost) stays unknown.
void ProcessBuilder::AddAddresses(const trace::Interned& interned) {
  constexpr uint32_t kMaxAddressIid = 1 << 24;
  const uint32_t first = interned.first_address_iid();
  if (interned.address_size() == 0) return;
  if (first == 0 || first > kMaxAddressIid) {
    run_->oddities_.Count("an address definition with an impossible id");
    return;
  }
  const size_t end = size_t{first} + static_cast<size_t>(interned.address_size());
  if (end > addresses_.size()) addresses_.resize(end);
  std::copy(interned.address().begin(), interned.address().end(), addresses_.begin() + first);
}

uint32_t ProcessBuilder::FindOp(uint32_t iid) {
  if (iid < op_by_iid_.size() && op_by_iid_[iid] != kNone) return op_by_iid_[iid];
  run_->oddities_.Count("a call of an op that the trace does not define (its definition was lost)");
  trace::OpDefinition unknown;
  unknown.set_function(std::string(kUnknownFunction));
  return run_->InternOp(unknown);
}

ProcessBuilder::Thread& ProcessBuilder::FindThread(uint32_t thread_id) {
  if (current_thread_ == nullptr || current_thread_id_ != thread_id) {
    current_thread_ = &threads_[thread_id];
    current_thread_->data.thread_id = thread_id;
    current_thread_id_ = thread_id;
  }
  return *current_thread_;
}

void ProcessBuilder::AddThread(const trace::ThreadInfo& info) {
  ThreadData& data = FindThread(info.thread_id()).data;
  if (info.tid() != 0) data.tid = info.tid();
  if (!info.name().empty()) data.name = info.name();
}

size_t ProcessBuilder::UsableCalls(const trace::CallBatch& batch) {
  const auto [shortest, longest] =
      std::minmax({batch.op_iid_size(), batch.sequence_delta_size(), batch.end_delta_ticks_size(),
                   batch.duration_size(), batch.parent_distance_size()});
  if (shortest != longest) {
    run_->oddities_.Count(
        "a call that lacks some of its fields (arrays of a batch differ in length)",
        longest - shortest);
  }
  return shortest;
}

void ProcessBuilder::AddCalls(const trace::CallBatch& batch) {
  const size_t count = UsableCalls(batch);
  Thread& thread = FindThread(batch.thread_id());
  StagedCall* out = thread.calls.Reserve(count);
  uint64_t sequence = batch.base_sequence();
  uint64_t end_ticks = batch.base_end_ticks();
  int64_t duplicates = 0;
  for (size_t i = 0; i < count; ++i) {
    sequence += 1 + static_cast<uint64_t>(int64_t{batch.sequence_delta(i)});
    end_ticks += static_cast<uint64_t>(batch.end_delta_ticks(i));
    if (!thread.sequences.Insert(sequence)) {
      ++duplicates;
      continue;
    }
    if (end_ticks < thread.last_end_ticks) thread.in_order = false;
    thread.last_end_ticks = end_ticks;
    const uint32_t iid = batch.op_iid(i);
    const bool is_defined = iid < op_by_iid_.size() && op_by_iid_[iid] != kNone;
    *out++ = {static_cast<int64_t>(end_ticks), static_cast<int64_t>(batch.duration(i)), sequence,
              is_defined ? op_by_iid_[iid] : FindOp(iid), batch.parent_distance(i)};
  }
  thread.calls.Commit(count - duplicates);
  AddStatuses(batch, count, &thread);
  if (keeps_operands_) AddOperands(batch, count, &thread);
  recorded_calls_ += count;
  run_->oddities_.Count("a call that stands in the trace twice (the second was left out)",
                        duplicates);
}

// The indices of the failed calls ascend, so their sequence numbers are found in one pass.
void ProcessBuilder::AddStatuses(const trace::CallBatch& batch, size_t count, Thread* thread) {
  const int failed = std::min(batch.status_index_size(), batch.status_size());
  if (batch.status_index_size() != batch.status_size()) {
    run_->oddities_.Count("a status without a call, or a call without its status");
  }
  uint64_t sequence = batch.base_sequence();
  size_t next = 0;  // of the call whose sequence number is computed next
  for (int i = 0; i < failed; ++i) {
    const size_t index = batch.status_index(i);
    if (index >= count || index + 1 < next) {
      run_->oddities_.Count("a status without a call, or a call without its status");
      continue;
    }
    for (; next <= index; ++next) {
      sequence += 1 + static_cast<uint64_t>(int64_t{batch.sequence_delta(static_cast<int>(next))});
    }
    if (batch.status(i) != 0) thread->statuses.emplace(sequence, batch.status(i));
  }
}

void ProcessBuilder::AddOperands(const trace::CallBatch& batch, size_t count, Thread* thread) {
  uint64_t sequence = batch.base_sequence();
  int next = 0;  // in address_iid
  for (size_t i = 0; i < count; ++i) {
    sequence += 1 + static_cast<uint64_t>(int64_t{batch.sequence_delta(static_cast<int>(i))});
    const uint32_t iid = batch.op_iid(static_cast<int>(i));
    if (iid >= operand_rules_.size()) return;  // how many addresses its call has is not known
    const OperandRule rule = operand_rules_[iid];
    if (rule.count > static_cast<uint32_t>(batch.address_iid_size() - next)) return;
    if (rule.is_kept) {
      thread->operands.emplace(sequence, thread->operand_values.size());
      thread->operand_values.push_back(rule.count);
      for (uint32_t j = 0; j < rule.count; ++j) {
        const uint32_t address = batch.address_iid(next + static_cast<int>(j));
        thread->operand_values.push_back(address < addresses_.size() ? addresses_[address] : 0);
      }
    }
    next += static_cast<int>(rule.count);
  }
}

void ProcessBuilder::AddCapability(const trace::Capability& capability) {
  for (trace::Capability& known : process_.capabilities) {
    if (known.name() == capability.name() && known.object() == capability.object()) {
      known = capability;
      return;
    }
  }
  process_.capabilities.push_back(capability);
}

void ProcessBuilder::AddLoss(const trace::Loss& loss) {
  const auto key =
      std::make_tuple(static_cast<int>(loss.reason()), loss.thread_id(), loss.detail());
  const auto [place, is_new] = loss_index_.emplace(key, process_.losses.size());
  if (is_new) {
    process_.losses.push_back(loss);
    return;
  }
  trace::Loss& sum = process_.losses[place->second];
  sum.set_calls(sum.calls() + loss.calls());
  sum.set_bytes(sum.bytes() + loss.bytes());
}

void ProcessBuilder::Finish() {
  TraceModel& model = run_->model_;
  index_ = static_cast<ProcessIndex>(model.processes.size());
  ClockMap clock(process_.header.clock(), clock_samples_, &run_->oddities_);
  uint64_t first_ticks = process_.header.process().shim_loaded_ticks();
  if (first_ticks == 0 && !clock_samples_.empty()) first_ticks = clock_samples_[0].ticks();
  run_->PlaceOnAxis(process_.header, &clock, clock.ToNs(first_ticks));

  std::map<uint32_t, ThreadIndex> indices;
  for (auto& [thread_id, thread] : threads_) {
    indices[thread_id] = static_cast<ThreadIndex>(model.threads.size());
    FinishThread(&thread, clock);
  }
  FinishAggregates(clock, indices);
  for (const trace::CaptureState& state : capture_states_) {
    model.capture_states.emplace_back(index_, state);
  }
  FinishBounds(clock);
  CheckCallCount();
  model.processes.push_back(std::move(process_));
}

void ProcessBuilder::FinishThread(Thread* thread, const ClockMap& clock) {
  const ThreadIndex index = static_cast<ThreadIndex>(run_->model_.threads.size());
  thread->data.process = index_;
  run_->model_.threads.push_back(thread->data);
  const absl::Span<StagedCall> calls = thread->calls.calls();
  if (!thread->in_order) {
    std::stable_sort(calls.begin(), calls.end(), [](const StagedCall& a, const StagedCall& b) {
      return static_cast<uint64_t>(a.time) < static_cast<uint64_t>(b.time);
    });
  }
  NestingCounts counts;
  NestCalls(clock, calls, &counts);
  run_->oddities_.Count("a call whose surrounding call is not in the trace (it was lost)",
                        counts.lost_parents);
  run_->oddities_.Count("a call that overlapped another one of its thread and was shortened",
                        counts.clipped);
  AppendCalls(thread, index);
  thread->calls = StagingBuffer();
  thread->sequences = SequenceSet();
}

void ProcessBuilder::AppendCalls(Thread* thread, ThreadIndex index) {
  CallColumns& columns = run_->model_.calls;
  const absl::Span<const StagedCall> calls = thread->calls.calls();
  const size_t base = columns.size();
  if (calls.size() >= kNone - base) {
    run_->oddities_.Count("a call beyond the 2^32 that one report can hold",
                          static_cast<int64_t>(calls.size()));
    return;
  }
  ForEachColumn(&columns, [&](auto* column) { GrowFor(column, calls.size()); });
  for (size_t begin = 0; begin < calls.size(); begin += kCallsAtATime) {
    const size_t end = std::min(begin + kCallsAtATime, calls.size());
    ForEachColumn(&columns, [&](auto* column) { column->resize(base + end); });
    for (size_t i = begin; i < end; ++i) {
      const StagedCall& call = calls[i];
      const size_t to = base + i;
      columns.start_ns[to] = call.time;
      columns.duration_ns[to] = call.duration;
      columns.self_ns[to] = call.duration;
      columns.op[to] = call.op;
      columns.thread[to] = index;
      columns.sequence[to] = call.sequence;
      columns.parent[to] =
          call.parent == kNone ? kNone : static_cast<CallIndex>(base + call.parent);
      if (call.parent == kNone) {
        Observe(call.time, call.time + call.duration);
      } else {
        columns.self_ns[base + call.parent] -= call.duration;
      }
    }
    thread->calls.ReleaseFront(end);
  }
  AppendFailures(*thread, static_cast<CallIndex>(base));
  AppendOperands(*thread, static_cast<CallIndex>(base));
}

void ProcessBuilder::AppendFailures(const Thread& thread, CallIndex base) {
  if (thread.statuses.empty()) return;
  const CallColumns& calls = run_->model_.calls;
  for (size_t i = base; i < calls.size(); ++i) {
    const auto status = thread.statuses.find(calls.sequence[i]);
    if (status == thread.statuses.end()) continue;
    run_->model_.failed_calls.push_back({static_cast<CallIndex>(i), status->second});
  }
}

void ProcessBuilder::AppendOperands(const Thread& thread, CallIndex base) {
  if (thread.operands.empty()) return;
  const CallColumns& calls = run_->model_.calls;
  CallOperands& kept = run_->model_.operands;
  for (size_t i = base; i < calls.size(); ++i) {
    const auto place = thread.operands.find(calls.sequence[i]);
    if (place == thread.operands.end()) continue;
    const auto values = thread.operand_values.begin() + static_cast<ptrdiff_t>(place->second);
    kept.call.push_back(static_cast<CallIndex>(i));
    kept.begin.push_back(kept.value.size());
    kept.value.insert(kept.value.end(), values + 1, values + 1 + static_cast<ptrdiff_t>(*values));
  }
}

void ProcessBuilder::FinishAggregates(const ClockMap& clock,
                                      const std::map<uint32_t, ThreadIndex>& threads) {
  for (const trace::CallAggregate& aggregate : aggregates_) {
    const auto thread = threads.find(aggregate.thread_id());
    if (aggregate.count() == 0 || thread == threads.end()) {
      run_->oddities_.Count("a total of no calls, or of a thread that the trace does not name");
      continue;
    }
    const bool in_ticks = (aggregate.op_iid() & kTapCall) == 0;
    const auto ns = [&](uint64_t time) {
      return in_ticks ? clock.DurationNs(time) : static_cast<int64_t>(time);
    };
    AggregateRow row;
    row.op = aggregate.op_iid() & ~kTapCall;
    row.thread = thread->second;
    row.window_start_ns = clock.ToNs(aggregate.window_start_ticks());
    row.window_end_ns = std::max(row.window_start_ns, clock.ToNs(aggregate.window_end_ticks()));
    row.count = static_cast<int64_t>(aggregate.count());
    row.sum_ns = ns(aggregate.sum());
    row.min_ns = ns(aggregate.min());
    row.max_ns = ns(aggregate.max());
    row.nested_count = static_cast<int64_t>(std::min(aggregate.nested_count(), aggregate.count()));
    row.nested_sum_ns = std::min(row.sum_ns, ns(aggregate.nested_sum()));
    Observe(row.window_start_ns, row.window_end_ns);
    run_->model_.aggregates.push_back(row);
    recorded_calls_ += row.count;
  }
}

void ProcessBuilder::FinishBounds(const ClockMap& clock) {
  const uint64_t loaded_ticks = process_.header.process().shim_loaded_ticks();
  if (loaded_ticks != 0) Observe(clock.ToNs(loaded_ticks), clock.ToNs(loaded_ticks));
  if (footer_.end_ticks() != 0)
    Observe(clock.ToNs(footer_.end_ticks()), clock.ToNs(footer_.end_ticks()));
  if (first_ns_ > last_ns_) {  // nothing was recorded
    const uint64_t ticks = clock_samples_.empty() ? 0 : clock_samples_[0].ticks();
    first_ns_ = last_ns_ = clock.ToNs(ticks);
  }
  process_.start_ns = first_ns_;
  process_.end_ns = last_ns_;
  process_.end = footer_.end();
}

void ProcessBuilder::Observe(int64_t start_ns, int64_t end_ns) {
  first_ns_ = std::min(first_ns_, start_ns);
  last_ns_ = std::max(last_ns_, end_ns);
}

void ProcessBuilder::CheckCallCount() {
  if (!process_.has_footer || footer_.calls() == static_cast<uint64_t>(recorded_calls_)) return;
  run_->oddities_.Count(absl::StrCat(process_.file, ": its footer tells of ", footer_.calls(),
                                     " calls, it holds ", recorded_calls_));
}

}  // namespace dlhook::analyzer
