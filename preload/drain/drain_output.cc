// The drain's output: open batches and aggregates -> packets -> sink, with losses, checkpoints and the footer.

#include "preload/drain/describe.h"
#include "preload/drain/drain.h"

namespace dlhook::inline drain {
namespace {

constexpr uint64_t kMaxAggregateWindowSeconds = 600;
constexpr uint64_t kMaxWindowOfFewSeconds = 86'400;  // where there was no room for totals by shape

// The increase of a counter of the session beyond `*reported`.
void WriteGrowth(LossReason reason, const std::atomic<uint64_t>& counter, const char* detail, uint64_t* reported,
                 Buffer* out) {
  uint64_t now = counter.load(std::memory_order_relaxed);
  if (now == *reported) return;
  fields::Loss::WritePacket({reason, 0, now - *reported, 0, detail}, out);
  *reported = now;
}

// What the drain itself dropped since the last time.
void WriteLeftOut(LossReason reason, const char* detail, uint64_t* count, Buffer* out) {
  if (*count != 0) fields::Loss::WritePacket({reason, 0, *count, 0, detail}, out);
  *count = 0;
}

}  // namespace

// Definitions first, then the calls that use them.
void Drain::FlushBatch() {
  const Buffer& addresses = interner_.new_addresses();
  if (pending_strings_.size() + pending_.size() + addresses.size() > 0) {
    PacketScope packet(&out_, fields::Packet::kInterned);
    out_.Append(pending_strings_);
    out_.Append(pending_);
    if (addresses.size() > 0) {
      packet.writer.UInt(fields::Interned::kFirstAddressIid, interner_.first_new_address_iid());
      packet.writer.Packed(fields::Interned::kAddress, addresses);
    }
    pending_strings_.Clear();
    pending_.Clear();
    interner_.ClearNewAddresses();
  }
  batch_.Flush(&out_);
  scopes_.Flush(&out_);
  samples_.Flush(&out_);
  for (CounterBatch& batch : counters_) batch.Flush(&out_);
  memory_.Flush(&out_);
  gpu_nodes_.Flush(&out_);
  for (auto& links : gpu_links_) links.Flush(&out_);
  gpu_activities_.Flush(&out_);
}

void Drain::FlushAggregates(uint64_t now_ticks, bool force) {
  if (aggregates_.empty()) return;
  if (!force && now_ticks < next_aggregate_flush_ticks_) return;
  FlushBatch();
  unwritten_calls_ += aggregates_.calls();
  const uint64_t before = out_.size();
  aggregates_.Flush(state_.last_record_ticks, &out_);
  state_.detail.totals_bytes += out_.size() - before;
  // Windows grow, so that a run of days stays within its limit.
  const uint64_t most = state_.left_out_shapes != 0 ? kMaxWindowOfFewSeconds : kMaxAggregateWindowSeconds;
  if (aggregate_window_ticks_ < most * TicksPerSecond(*session_)) aggregate_window_ticks_ *= 2;
  next_aggregate_flush_ticks_ = NowTicks(*session_) + aggregate_window_ticks_;
}

void Drain::WriteCaptureState() {
  uint32_t switches = session_->switches.load(std::memory_order_acquire);
  if (switches == state_.switches) return;
  const auto write = [&](bool is_recording) {
    const std::atomic<uint64_t>& ticks = is_recording ? session_->started_ticks : session_->stopped_ticks;
    fields::CaptureState::WritePacket({is_recording, ticks.load(std::memory_order_relaxed)}, &out_);
  };
  bool is_recording = switches % 2 == 0;
  if (switches - state_.switches > 1) write(!is_recording);
  write(is_recording);
  state_.switches = switches;
}

// Calls that the slot's current thread had to drop, up to the slot's count `dropped`.
void Drain::WriteDropped(uint32_t slot, uint64_t dropped) {
  if (dropped <= state_.reported.dropped[slot]) return;
  const char* detail = session_->collector_lost != 0 ? "the collector died before the process" : "";
  LossReason reason = session_->collector_lost != 0 ? LossReason::kCollectorGone : LossReason::kRingFull;
  fields::Loss::WritePacket({reason, state_.thread_ids[slot], dropped - state_.reported.dropped[slot], 0, detail},
                            &out_);
  state_.reported.dropped[slot] = dropped;
}

// Called when all rings have been drained to their heads, or nearly so: calls that a slot dropped belong to its current
// thread.
void Drain::WriteLosses(bool is_end) {
  for (uint32_t i = 0; i < kMaxSlots; ++i) {
    bool caught_up = session_->slots[i].head.load(std::memory_order_acquire) == state_.tails[i];
    if (caught_up || is_end) WriteDropped(i, session_->slots[i].dropped.load(std::memory_order_relaxed));
  }
  WriteGrowth(LossReason::kNoRing, session_->no_ring_calls, "", &state_.reported.no_ring, &out_);
  WriteGrowth(LossReason::kDlsymPlainPointer, session_->plain_pointers, "dlsym", &state_.reported.plain_pointers,
              &out_);
  WriteGrowth(LossReason::kDefinitionsFull, session_->refused_definitions, "names, plans and stacks",
              &state_.reported.refused_definitions, &out_);
  WriteGrowth(LossReason::kScopesTooDeep, session_->deep_scopes, "scopes", &state_.reported.deep_scopes, &out_);
  WriteGrowth(LossReason::kReadingsDropped, session_->dropped_readings, "ring full", &state_.reported.dropped_readings,
              &out_);
  WriteGrowth(LossReason::kSamplesDropped, session_->dropped_samples, "ring full or being written",
              &state_.reported.dropped_samples, &out_);
  WriteGrowth(LossReason::kGpuBuffersFull, session_->gpu_dropped_cupti, "", &state_.reported.gpu_dropped_cupti, &out_);
  WriteGrowth(LossReason::kGpuRecordsDropped, session_->gpu_dropped_ring, "ring full",
              &state_.reported.gpu_dropped_ring, &out_);
  if (is_end) WriteAllLeftOut();
  if (state_.lost_bytes != 0) {
    LossReason reason = state_.lost_errno == ENOENT ? LossReason::kOutputGone : LossReason::kOutputFull;
    fields::Loss::WritePacket(
        {reason, 0, state_.lost_calls, state_.lost_bytes, strerror(static_cast<int>(state_.lost_errno))}, &out_);
    state_.reported.lost_calls += state_.lost_calls;
    state_.lost_calls = state_.lost_bytes = state_.lost_errno = 0;
  }
}

// At the end only: packets each second would add up to megabytes a day.
void Drain::WriteAllLeftOut() {
  WriteLeftOut(LossReason::kTraceLimit, "", &state_.left_out_scopes, &out_);
  WriteLeftOut(LossReason::kReadingsDropped, "trace at its limit", &state_.left_out_readings, &out_);
  WriteLeftOut(LossReason::kSamplesDropped, "trace at its limit", &state_.left_out_samples, &out_);
  WriteLeftOut(LossReason::kShapesDropped, "", &state_.left_out_shapes, &out_);
  WriteLeftOut(LossReason::kProfilesDropped, "", &state_.left_out_profiles, &out_);
  WriteLeftOut(LossReason::kGpuRecordsDropped, "trace at its limit", &state_.left_out_gpu, &out_);
}

void Drain::Publish(bool last) {
  if (out_.size() == 0) {  // records that went into aggregates or had no output
    if (tails_moved_) SaveCheckpoint();
    return;
  }
  const Checkpoint& durable = session_->checkpoints[session_->current_checkpoint.load(std::memory_order_relaxed) & 1];
  const bool lacks_memory = out_.has_failed();  // for a part of it
  WriteResult result = lacks_memory ? WriteResult::kFailed : sink_->Write(out_.data(), out_.size(), last);
  if (result == WriteResult::kOk) {
    state_.file_bytes += out_.size();
    out_.Clear();
    unwritten_calls_ = 0;
    SaveCheckpoint();
    return;
  }
  // The contents of out_ are lost, including definitions, and with them the aggregates that use them; reported losses
  // must be reported again. If the file was removed, its contents are lost, too.
  static const Checkpoint kNothing = {};
  const bool is_gone = result == WriteResult::kGone;
  const Checkpoint& held = is_gone ? kNothing : durable;
  state_.lost_calls = is_gone ? state_.calls : durable.lost_calls + unwritten_calls_ + aggregates_.calls();
  aggregates_.Drop();
  state_.lost_bytes = durable.lost_bytes + out_.size() + (is_gone ? durable.file_bytes : 0);
  state_.lost_errno = is_gone ? ENOENT : lacks_memory ? ENOMEM : static_cast<uint32_t>(sink_->error());
  state_.reported = held.reported;
  unwritten_calls_ = 0;
  if (is_gone) state_.file_bytes = 0, state_.detail = {};
  out_.Clear();
  SaveCheckpoint();
  if (state_.file_bytes == 0) {
    StartOver(ResetReason::kUnknown);
  } else {
    ForgetDefinitions();
    fields::Reset::WritePacket({ResetReason::kNewWriter}, &out_);
  }
  WriteLosses(false);
}

void Drain::SaveCheckpoint() {
  uint32_t current = session_->current_checkpoint.load(std::memory_order_relaxed) & 1;
  uint32_t next = current ^ 1;
  session_->checkpoint_generation.fetch_add(1, std::memory_order_acq_rel);
  memcpy(&session_->checkpoints[next], &state_, sizeof state_);
  session_->current_checkpoint.store(next, std::memory_order_release);
  session_->checkpoint_generation.fetch_add(1, std::memory_order_acq_rel);
  for (uint32_t i = 0; i < kMaxSlots; ++i) {
    session_->slots[i].tail.store(state_.tails[i], std::memory_order_release);
  }
  FreeChunks();
  tails_moved_ = false;
}

// Frees chunks whose records are durable and whose threads have left them.
void Drain::FreeChunks() {
  uint32_t used = session_->chunks_used.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < used && i < kMaxChunks; ++i) {
    Chunk& chunk = session_->chunks[i];
    uint32_t owner = chunk.owner.load(std::memory_order_acquire);
    uint64_t end = chunk.end.load(std::memory_order_acquire);
    bool is_done = owner != 0 && owner <= kMaxSlots && end != 0 && end <= state_.tails[owner - 1];
    if (is_done) chunk.owner.store(0, std::memory_order_release);
  }
}

void Drain::Suspend() {
  Step(true, false);
  TakeWaiting(UINT64_MAX);
  FlushAggregates(0, true);
  FlushBatch();
  Publish(false);
}

void Drain::Finish(ProcessEnd end, bool take_clock_sample) {
  Step(true, false);
  TakeWaiting(UINT64_MAX);
  FlushAggregates(0, true);
  if (take_clock_sample) {
    fields::ClockSample::WritePacket(TakeClockSample(static_cast<ClockKind>(session_->clock_kind)), &out_);
  }
  FlushBatch();
  Publish(false);
  TakeLeftTotals();  // in the same write as the footer: a drain that takes over must not take them again
  FlushAggregates(0, true);
  WriteLosses(true);
  uint64_t end_ticks = end == ProcessEnd::kExited ? session_->exit_ticks
                       : end == ProcessEnd::kLeft ? session_->left_ticks.load()
                                                  : state_.last_record_ticks;
  fields::Footer::WritePacket({end, end_ticks, state_.calls - state_.reported.lost_calls}, &out_);
  state_.finished = 1;
  Publish(true);
}

}  // namespace dlhook::inline drain
