// One process trace, packet by packet: interned ids are resolved as they arrive. What follows the last packet is in
// process_finish.cc.
#include "analyzer/reader/process_builder.h"

#include "analyzer/model/limits.h"
#include "preload/format/packet_writer.h"
#include "preload/format/taps.h"

namespace dlhook::analyzer::inline reader {
namespace {

constexpr absl::string_view kUnknownFunction = "[unknown op]";

}  // namespace

void ProcessBuilder::Add(PacketReader* reader) {
  const OnlyField packet = OnlyFieldOf(reader->payload());
  if (packet.number == trace::Packet::kCallBatchFieldNumber) {
    if (!parts_.all()) {
      const std::optional<BatchOutline> outline = OutlineOfCalls(packet.contents, TicksPerNs());
      if (IsLeftOut(outline)) {
        recorded_calls_ += static_cast<uint64_t>(outline->count);
        return;
      }
    }
    if (reader->Parse(packet.contents, &batch_)) AddCalls(batch_);
  } else if (packet.number == trace::Packet::kScopeBatchFieldNumber) {
    if (!parts_.all() && IsLeftOut(OutlineOfScopes(packet.contents))) return;
    if (reader->Parse(packet.contents, &scope_batch_)) AddScopes(scope_batch_);
  } else {
    trace::Packet parsed;
    if (reader->Parse(reader->payload(), &parsed)) AddPacket(parsed);
  }
}

bool ProcessBuilder::IsLeftOut(const std::optional<BatchOutline>& outline) {
  if (!outline || parts_.Has(outline->start_ticks, outline->end_ticks)) return false;
  FindThread(outline->thread_id);
  return true;
}

// Rounded up; 1 where the clock counts nanoseconds.
uint64_t ProcessBuilder::TicksPerNs() const {
  return std::clamp<uint64_t>((facts_.header.clock().ticks_per_second() + 999'999'999) / 1'000'000'000, 1, 1000);
}

void ProcessBuilder::AddPacket(const trace::Packet& packet) {
  switch (packet.data_case()) {
    case trace::Packet::kCallBatch:
      return AddCalls(packet.call_batch());
    case trace::Packet::kInterned:
      return AddDefinitions(packet.interned());
    case trace::Packet::kClockSample:
      return clock_samples_.push_back(packet.clock_sample());
    case trace::Packet::kCallAggregate:
      aggregates_.push_back(packet.call_aggregate());
      return aggregates_.back().set_op_iid(FindOp(packet.call_aggregate().op_iid()));
    case trace::Packet::kHeader:
      // Of newer traces what is known is read.
      if (packet.header().schema_minor() > kSchemaMinor) run_->oddities_.Count(kNewerForm);
      return facts_.Add(packet.header());
    case trace::Packet::kThread:
      return AddThread(packet.thread());
    case trace::Packet::kMapping:
      return facts_.Add(packet.mapping());
    case trace::Packet::kCapability:
      return facts_.Add(packet.capability());
    case trace::Packet::kLoss:
      return facts_.Add(packet.loss());
    case trace::Packet::kReset:
      op_by_iid_.clear();
      operands_.Reset();
      native_stacks_.Reset();
      gpu_.Reset();
      return python_.Reset();
    case trace::Packet::kCaptureState:
      return captures_.push_back(packet.capture_state());
    case trace::Packet::kFooter:
      facts_.process.has_footer = true;
      footer_ = packet.footer();
      return;
    case trace::Packet::kScopeBatch:
      return AddScopes(packet.scope_batch());
    case trace::Packet::kPythonModule:
      return python_.AddModule(packet.python_module());
    case trace::Packet::kCompiledCode:
      return python_.AddCompiled(packet.compiled_code());
    case trace::Packet::kCounterBatch:
      return counters_.Add(packet.counter_batch(), &python_, &run_->oddities_);
    case trace::Packet::kGpuActivity:
      return gpu_.AddActivities(packet.gpu_activity());
    case trace::Packet::kGpuLink:
      FindThread(packet.gpu_link().thread_id());  // may have requested work without a recorded call
      return gpu_.AddLinks(packet.gpu_link());
    case trace::Packet::kGpuGraphNode:
      FindThread(packet.gpu_graph_node().thread_id());
      return gpu_.AddNodes(packet.gpu_graph_node());
    case trace::Packet::kGpuDevice:
      return gpu_.AddDevice(packet.gpu_device());
    case trace::Packet::kGpuWindow:
      return gpu_.AddWindow(packet.gpu_window());
    case trace::Packet::kLoadSample:
      return load_samples_.push_back(packet.load_sample());
    case trace::Packet::kCompilerProfile:
      return xla_.Add(packet.compiler_profile(), &run_->oddities_);
    case trace::Packet::kWaitBatch:
      return waits_.Add(packet.wait_batch(), operands_, &native_stacks_, &python_, &run_->oddities_);
    case trace::Packet::kMemoryBatch:
      FindThread(packet.memory_batch().thread_id());  // may have made no recorded call
      return memory_.Add(packet.memory_batch(), &run_->oddities_);
    case trace::Packet::kSampleBatch:
      FindThread(packet.sample_batch().thread_id());  // may have made no recorded call
      return samples_.Add(packet.sample_batch(), operands_, &native_stacks_, &python_, &run_->oddities_);
    case trace::Packet::DATA_NOT_SET:
      return run_->oddities_.Count("a packet of a kind that this version does not know");
  }
}

void ProcessBuilder::AddDefinitions(const trace::Interned& interned) {
  AddOps(interned);
  operands_.AddAddresses(interned);
  native_stacks_.AddDefinitions(interned, operands_);
  python_.AddDefinitions(interned);
  gpu_.AddDefinitions(interned, &python_);
}

void ProcessBuilder::AddOps(const trace::Interned& interned) {
  for (const trace::OpDefinition& definition : interned.op()) {
    const uint32_t iid = definition.iid();
    if (iid == 0 || iid > kMaxIid) {
      run_->oddities_.Count("an op definition with an impossible id");
      continue;
    }
    if (iid >= op_by_iid_.size()) op_by_iid_.resize(iid + 1, kNone);
    const uint32_t tap = TapOfSource(definition.time_source()) != nullptr ? kTapCall : 0;
    trace::OpDefinition mended = definition;
    if (definition.copy().bytes() > kMaxCounted) {
      run_->oddities_.Count("a copy of more bytes than any memory has (counted as none)");
      mended.mutable_copy()->clear_bytes();
    }
    op_by_iid_[iid] = run_->InternOp(std::move(mended)) | tap;
    operands_.Define(definition);
  }
}

uint32_t ProcessBuilder::FindOp(uint32_t iid) {
  if (iid < op_by_iid_.size() && op_by_iid_[iid] != kNone) return op_by_iid_[iid];
  run_->oddities_.Count("a call of an op that the trace does not define (its definition was lost)");
  trace::OpDefinition unknown;
  unknown.set_function(std::string(kUnknownFunction));
  return run_->InternOp(std::move(unknown));
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
  if (info.thread_id() == 0) return counters_.AddThreadName(info.tid(), info.name());
  Thread& thread = FindThread(info.thread_id());
  if (info.tid() != 0) thread.data.tid = info.tid();
  if (!info.name().empty()) thread.data.name = info.name();
  if (info.handle() != 0) thread.xla_id = XlaProfiles::ThreadId(info.handle());
}

size_t ProcessBuilder::UsableCalls(const trace::CallBatch& batch) {
  const auto [shortest, longest] =
      std::minmax({batch.op_iid_size(), batch.sequence_delta_size(), batch.end_delta_ticks_size(),
                   batch.duration_size(), batch.parent_distance_size()});
  if (shortest != longest) {
    run_->oddities_.Count("a call that lacks some of its fields (arrays of a batch differ in length)",
                          longest - shortest);
  }
  return shortest;
}

// `op`: as FindOp tells it.
bool ProcessBuilder::IsInParts(uint64_t duration, uint64_t end_ticks, uint32_t op) const {
  const uint64_t factor = (op & kTapCall) != 0 ? TicksPerNs() : 1;
  const uint64_t ticks = duration > UINT64_MAX / factor ? UINT64_MAX : duration * factor;
  return parts_.Has(end_ticks - std::min(ticks, end_ticks), end_ticks);
}

void ProcessBuilder::AddCalls(const trace::CallBatch& batch) {
  const size_t count = UsableCalls(batch);
  Thread& thread = FindThread(batch.thread_id());
  StagedCall* out = thread.calls.Reserve(count);
  sequences_.resize(count);
  uint64_t sequence = batch.base_sequence();
  uint64_t end_ticks = batch.base_end_ticks();
  int64_t duplicates = 0, left_out = 0;
  for (size_t i = 0; i < count; ++i) {
    sequence += 1 + static_cast<uint64_t>(int64_t{batch.sequence_delta(i)});
    sequences_[i] = sequence;
    end_ticks += static_cast<uint64_t>(batch.end_delta_ticks(i));
    const uint32_t iid = batch.op_iid(i);
    const bool is_defined = iid < op_by_iid_.size() && op_by_iid_[iid] != kNone;
    const uint32_t op = is_defined ? op_by_iid_[iid] : FindOp(iid);
    if (!parts_.all() && !IsInParts(batch.duration(i), end_ticks, op)) {
      ++left_out;
      continue;
    }
    if (!thread.sequences.Insert(sequence)) {
      ++duplicates;
      continue;
    }
    if (end_ticks < thread.last_end_ticks) thread.in_order = false;
    thread.last_end_ticks = end_ticks;
    *out++ = {static_cast<int64_t>(end_ticks), static_cast<int64_t>(batch.duration(i)), sequence, op,
              batch.parent_distance(i)};
  }
  thread.calls.Commit(count - static_cast<size_t>(duplicates + left_out));
  thread.attributes.Add(batch, sequences_, &python_, &native_stacks_, &run_->oddities_);
  operands_.Add(batch, sequences_, &thread.operands);
  recorded_calls_ += count;
  run_->oddities_.Count("a call that is in the trace twice (the second was left out)", duplicates);
}

void ProcessBuilder::AddScopes(const trace::ScopeBatch& batch) {
  Thread& thread = FindThread(batch.thread_id());
  for (const int kind : batch.kind()) thread.has_other_scopes |= kind != trace::ScopeBatch::XLA_COMPILATION;
  thread.scopes.Add(batch, parts_, &python_, &run_->oddities_);
}

}  // namespace dlhook::analyzer::reader
