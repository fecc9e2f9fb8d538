// The drain's input: rings -> records -> batches. Its output is drain_output.cc.
#include "preload/drain/drain.h"

#include <stdio.h>

#include "preload/drain/describe.h"
#include "preload/format/gpu_records.h"
#include "preload/format/hook_table.h"

namespace dlhook::inline drain {
namespace {

constexpr size_t kPublishBytes = 256 << 10;
constexpr uint64_t kWorthDrainingBytes = 32 << 10;
constexpr size_t kWorthWritingBytes = 64 << 10;
constexpr uint32_t kWorryingFullness = 64;       // a quarter of a ring
constexpr uint64_t kMostSecondsPerSample = 600;  // of the clock
// How long a slot may wait for others: small packets cost bytes and time. Where only ends of steps are kept, longer.
constexpr uint64_t kSweepsPerSecond = 10, kSweepsBetweenWindows = 1;

// clang-format off
// Records that are not calls: their types and structs.
#define DLHOOK_RECORDS(DO) \
  DO(kTapLine, TapLineRecord) DO(kThreadBegin, ThreadRecord) DO(kThreadEnd, ThreadRecord) DO(kMapping, MappingRecord) \
  DO(kCapability, CapabilityRecord) DO(kScope, ScopeRecord) DO(kPythonStack, PythonStackRecord) \
  DO(kPythonModule, PythonModuleRecord) DO(kCompiledCode, CompiledCodeRecord) DO(kCounters, CounterRecord) \
  DO(kGpuActivity, GpuActivityRecord) DO(kGpuLink, GpuLinkRecord) DO(kGpuGraphNode, GpuGraphNodeRecord) \
  DO(kGpuDevice, GpuDeviceRecord) DO(kGpuWindow, GpuWindowRecord) DO(kCallTotals, CallTotalsRecord) \
  DO(kProfile, ProfileRecord) DO(kSample, SampleRecord) DO(kMemory, MemoryRecord)
// clang-format on

// function(record) for the record of this header, by its type; false: a pad, or an unknown type.
template <typename Function>
bool VisitRecord(const RecordHeader& header, Function function) {
  if (IsCall(header.type)) return function(reinterpret_cast<const CallRecord&>(header)), true;
  switch (header.type) {
#define DLHOOK_VISIT(type, Record) \
  case RecordType::type:           \
    return function(reinterpret_cast<const Record&>(header)), true;
    DLHOOK_RECORDS(DLHOOK_VISIT)
    default:
      return false;
  }
}

// Of what is counted in the headers of calls and readings.
size_t WordsBytes(const RecordHeader& header) { return 8u * header.shape_words + 8u * header.address_count; }

// Minimum size of a record by its type, in bytes; 0: unknown type.
size_t MinimumBytes(const RecordHeader& header) {
  if (header.type == RecordType::kPad) return sizeof header;
  if (header.type == RecordType::kMemory && header.hook == 0) return offsetof(MemoryRecord, allocated);
  size_t bytes = 0;
  VisitRecord(header, [&](const auto& record) { bytes = sizeof record + WordsBytes(header); });
  return bytes;
}

// The value after the operand addresses, if the record is long enough.
uint32_t NativeStackIn(const CallRecord& record) {
  size_t words = (sizeof record + WordsBytes(record.header)) / 8;
  if (record.header.words <= words) return 0;
  return reinterpret_cast<const CallTrailer*>(reinterpret_cast<const uint64_t*>(&record) + words)->native_stack;
}

// Whether the text that follows a record lies within it.
template <typename Record>
bool TextFits(const Record& record) {
  uint64_t bytes = 0;
  if constexpr (requires { record.text_bytes; }) bytes = record.text_bytes;
  if constexpr (requires { record.name_bytes; }) bytes = record.name_bytes;
  return sizeof record + bytes <= uint64_t{record.header.words} * 8 || bytes == 0;
}

}  // namespace

bool Drain::Open(SessionHeader* session, uint64_t mapping_bytes, ByteSink* sink) {
  if (mapping_bytes < kSessionDataStart || session->magic != kSessionMagic) {
    error_ = "not a ring file of dlhook";
    return false;
  }
  if (session->layout != kSessionLayout || session->hook_table_hash != kHookTableHash) {
    error_ = "written by another build of dlhook, which must drain it";
    return false;
  }
  if (!interner_.Init() || !out_.Reserve(kPublishBytes)) {
    error_ = "out of memory";
    return false;
  }
  session_ = session;
  mapping_bytes_ = mapping_bytes;
  sink_ = sink;
  uint32_t current = session->current_checkpoint.load(std::memory_order_acquire) & 1;
  memcpy(&state_, &session->checkpoints[current], sizeof state_);
  if (!sink->Truncate(state_.file_bytes)) {
    error_ = "the trace file is shorter than what its rings say was written";
    return false;
  }
  last_sweep_ticks_ = last_sample_ticks_ = NowTicks(*session_);
  PlanLimits(last_sweep_ticks_);
  aggregate_window_ticks_ = sample_ticks_ = TicksPerSecond(*session);
  if (state_.file_bytes > 0) {
    fields::Reset::WritePacket({ResetReason::kNewWriter}, &out_);
  } else {
    StartOver(ResetReason::kUnknown);
  }
  return true;
}

// Starts a trace from its first byte: header and the clock samples that the process took itself.
void Drain::StartOver(ResetReason reset_reason) {
  ForgetDefinitions();
  out_.Clear();
  WriteHeaderPacket(*session_, &out_);
  for (const ClockSample& sample : session_->clock_samples) fields::ClockSample::WritePacket(sample, &out_);
  if (reset_reason != ResetReason::kUnknown) fields::Reset::WritePacket({reset_reason}, &out_);
}

// Uses only values that were checked, whatever the host does to the originals.
Drain::Segment Drain::MemoryAt(uint64_t offset, uint64_t bytes) const {
  bool power_of_two = bytes >= 64 && (bytes & (bytes - 1)) == 0;
  bool inside =
      offset >= kSessionDataStart && offset % 8 == 0 && offset <= mapping_bytes_ && bytes <= mapping_bytes_ - offset;
  return {power_of_two && inside ? reinterpret_cast<const char*>(session_) + offset : nullptr, bytes, UINT64_MAX};
}

Drain::Segment Drain::SegmentAt(uint32_t index, uint64_t position) const {
  const Slot& slot = session_->slots[index];
  Segment home =
      MemoryAt(__atomic_load_n(&slot.data_offset, __ATOMIC_RELAXED), slot.bytes.load(std::memory_order_acquire));
  uint32_t used = session_->chunks_used.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < used && i < kMaxChunks; ++i) {
    const Chunk& chunk = session_->chunks[i];
    if (chunk.owner.load(std::memory_order_acquire) != index + 1) continue;
    uint64_t start = chunk.start.load(std::memory_order_relaxed);
    uint64_t end = chunk.end.load(std::memory_order_acquire);
    if (start > position && start < home.end) home.end = start;
    if (start > position || (end != 0 && end <= position)) continue;
    uint64_t bytes = __atomic_load_n(&session_->chunk_bytes, __ATOMIC_RELAXED);
    uint64_t offset = __atomic_load_n(&session_->chunks_offset, __ATOMIC_RELAXED);
    bool whole = bytes <= mapping_bytes_ && offset <= mapping_bytes_;  // no overflow in the following sum
    Segment segment = whole ? MemoryAt(offset + i * bytes, bytes) : Segment{};
    segment.end = end == 0 ? UINT64_MAX : end;
    return segment;
  }
  return home;
}

// The space for waiting records of a slot.
uint64_t Drain::RoomOf(const Slot& slot) const {
  uint32_t used = session_->chunks_used.load(std::memory_order_acquire);
  uint64_t chunk = __atomic_load_n(&session_->chunk_bytes, __ATOMIC_RELAXED);
  uint64_t home = slot.bytes.load(std::memory_order_acquire);
  return home + (chunk <= mapping_bytes_ && used <= kMaxChunks ? used * chunk : 0);
}

uint32_t Drain::Step(bool everything, bool take_clock_sample) {
  uint64_t now = NowTicks(*session_);
  uint64_t second = TicksPerSecond(*session_);
  const uint64_t sweeps = state_.detail.end_ticks == 0 ? kSweepsPerSecond : kSweepsBetweenWindows;
  const bool was_settled = is_settled_;
  bool sweep = everything || !was_settled || now - last_sweep_ticks_ > second / sweeps;
  if (sweep) last_sweep_ticks_ = now;
  WriteCaptureState();
  PlanLimits(now);
  uint32_t fullest = 0;
  uint32_t slots = session_->slots_in_use.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < slots && i < kMaxSlots; ++i) {
    uint32_t fullness = DrainSlot(i, sweep);
    if (fullness > fullest) fullest = fullness;
  }
  is_settled_ = is_settled_ || !was_settled;
  FollowTime();
  // A step may hang: what it did must be seen, and not end with the process that drains.
  if (waiting_.size() != 0 && now > state_.detail.last_turn_ticks + kMostWaitingSeconds * second) {
    TakeWaiting(UINT64_MAX);
    is_watching_ = false;
  }
  if (take_clock_sample && now - last_sample_ticks_ > sample_ticks_) {
    last_sample_ticks_ = now;
    if (IsFull() && sample_ticks_ < kMostSecondsPerSample * second) sample_ticks_ *= 2;
    fields::ClockSample::WritePacket(TakeClockSample(static_cast<ClockKind>(session_->clock_kind)), &out_);
    WriteLosses(false);
  }
  FlushAggregates(now, false);
  // Small writes cost more than their bytes, but ring space is freed only after writing.
  if (sweep || out_.size() >= kWorthWritingBytes || fullest > kWorryingFullness) {
    FlushBatch();
    Publish(false);
  }
  return fullest;
}

// Ids end here: later records must not refer to earlier definitions.
void Drain::ForgetDefinitions() {
  interner_.Clear();
  pending_strings_.Clear();
  pending_.Clear();
}

void Drain::ForgetIfNearlyFull() {
  if (!interner_.NearlyFull()) return;
  FlushAggregates(0, true);
  FlushBatch();
  fields::Reset::WritePacket({ResetReason::kTablesFull}, &out_);
  ForgetDefinitions();
}

// Returns the fill level of the ring, in 1/256.
uint32_t Drain::DrainSlot(uint32_t index, bool everything) {
  const Slot& slot = session_->slots[index];
  uint64_t head = slot.head.load(std::memory_order_acquire);
  uint64_t waiting = head - state_.tails[index];
  uint64_t bytes = slot.bytes.load(std::memory_order_acquire);
  uint64_t used = head - slot.tail.load(std::memory_order_relaxed);  // including what was taken but not yet written
  uint32_t fullness = bytes == 0 ? 0 : used < bytes ? static_cast<uint32_t>(used * 256 / bytes) : 256;
  if (waiting == 0) return fullness;
  Segment segment = SegmentAt(index, state_.tails[index]);
  if (segment.data == nullptr || waiting > RoomOf(slot)) {
    fields::Loss::WritePacket({LossReason::kBadRecord, state_.thread_ids[index], 0, waiting, "ring header"}, &out_);
    state_.tails[index] = head;
    return 0;
  }
  if (!everything && waiting < kWorthDrainingBytes && waiting < bytes / 8) return fullness;
  while (const RecordHeader* record = NextRecord(index, head, &segment)) {
    // The records were written by another core, so each line comes from its cache. Prefetching a few records ahead
    // hides that.
    __builtin_prefetch(reinterpret_cast<const char*>(record) + 768);
    __builtin_prefetch(reinterpret_cast<const char*>(record) + 832);
    const uint64_t bytes = uint64_t{record->words} * 8;
    TakeRecord(index, record, bytes);
    state_.tails[index] += bytes;
    tails_moved_ = true;
    ForgetIfNearlyFull();
    if (out_.size() + pending_.size() > kPublishBytes) {
      FlushBatch();
      Publish(false);
    }
  }
  return fullness;
}

// Null: it is invalid. `position` is before `head`.
const RecordHeader* Drain::RecordAt(uint32_t index, uint64_t position, uint64_t head, Segment* segment) const {
  if (position >= segment->end) *segment = SegmentAt(index, position);
  if (position % 8 != 0 || segment->data == nullptr) return nullptr;
  uint64_t offset = position & (segment->bytes - 1);
  auto record = reinterpret_cast<const RecordHeader*>(segment->data + offset);
  uint64_t size = uint64_t{record->words} * 8;
  size_t minimum = MinimumBytes(*record);
  bool whole = size >= minimum && size <= head - position && offset + size <= segment->bytes;
  return size != 0 && minimum != 0 && whole ? record : nullptr;
}

// Null at the end, or at an invalid record: the rest of the ring is then dropped and counted.
const RecordHeader* Drain::NextRecord(uint32_t index, uint64_t head, Segment* segment) {
  uint64_t tail = state_.tails[index];
  if (tail == head) return nullptr;
  if (const RecordHeader* record = RecordAt(index, tail, head, segment)) return record;
  fields::Loss::WritePacket({LossReason::kBadRecord, state_.thread_ids[index], 0, head - tail, "record"}, &out_);
  state_.tails[index] = head;
  return nullptr;
}

// When a record's subject ended; 0: it has no time.
uint64_t Drain::EndOf(const RecordHeader& header) {
  uint64_t end_ticks = 0;
  VisitRecord(header, [&](const auto& record) {
    if constexpr (requires { record.end_ticks; }) {
      end_ticks = record.end_ticks;
    } else if constexpr (requires { record.ticks; }) {
      end_ticks = record.ticks;
    }
  });
  return end_ticks;
}

void Drain::TakeRecord(uint32_t slot, const RecordHeader* header, size_t bytes) {
  if (!Waits(slot, *header)) {
    TakeNow(slot, header);
  } else {
    AddWaiting(slot, header, bytes);
  }
  if (header->type != RecordType::kScope) return;
  auto scope = reinterpret_cast<const ScopeRecord*>(header);
  if (TextFits(*scope) && EndsStep(*scope)) EndStep(state_.thread_ids[slot], *scope);
}

void Drain::AddWaiting(uint32_t slot, const RecordHeader* header, size_t bytes) {
  const size_t before = waiting_.size(), size = before + sizeof(Waiting) + bytes;
  if (size > kMostWaitingBytes || !waiting_.Reserve(size)) {
    TakeWaiting(UINT64_MAX);
    is_watching_ = false;
    return TakeNow(slot, header);
  }
  const Waiting waiting = {slot, static_cast<uint32_t>(bytes)};
  waiting_.Append(&waiting, sizeof waiting);
  waiting_.Append(header, bytes);
  // The process may have changed it meanwhile.
  auto copy = reinterpret_cast<const RecordHeader*>(waiting_.data() + size - bytes);
  const size_t minimum = MinimumBytes(*copy);
  if (copy->words != bytes / 8 || minimum == 0 || minimum > bytes) return waiting_.Resize(before);
  ++waiting_of_[slot];
}

// Of a thread, what follows a record that must wait waits, too.
void Drain::TakeWaiting(uint64_t end_ticks) {
  bool holds[kMaxSlots] = {};
  size_t left = 0;
  for (size_t at = 0, size = 0; at < waiting_.size(); at += size) {
    char* const place = waiting_.data() + at;
    auto waiting = reinterpret_cast<const Waiting*>(place);
    auto header = reinterpret_cast<const RecordHeader*>(waiting + 1);
    size = sizeof *waiting + waiting->bytes;
    const uint32_t slot = waiting->slot;
    holds[slot] = holds[slot] || EndOf(*header) > end_ticks;
    if (holds[slot]) {
      memmove(waiting_.data() + left, place, size);
      left += size;
      continue;
    }
    --waiting_of_[slot];
    TakeNow(slot, header);
    ForgetIfNearlyFull();
  }
  waiting_.Resize(left);
}

void Drain::TakeNow(uint32_t slot, const RecordHeader* header) {
  VisitRecord(*header, [&](const auto& record) {
    if (TextFits(record)) Take(slot, &record);
  });
}

void Drain::Take(uint32_t, const ProfileRecord* record) {
  if (record->number != profile_) keeps_profile_ = KeepsProfile(*record);
  profile_ = record->number;
  if (keeps_profile_) return WriteProfilePacket(*record, &out_);
  // Counted by its last piece; a whole that lacks a piece is an oddity of the report, too.
  if (record->offset + record->text_bytes >= record->total_bytes) ++state_.left_out_profiles;
}

uint32_t Drain::OpOf(const CallRecord* record) {
  uint32_t key_bytes = 8u * record->header.shape_words;
  scratch_.Clear();
  scratch_.Append(&record->header.type, 1);
  scratch_.Append(&record->header.hook, 2);
  scratch_.Append(&record->header.shape_words, 2);  // and address_count
  scratch_.Append(record + 1, key_bytes);
  const auto [op, is_new] = interner_.ops.Find(scratch_.data(), static_cast<uint32_t>(scratch_.size()));
  if (!is_new) return op;
  const size_t before = pending_.size();
  WriteCallDefinition(op, *record, {session_, mapping_bytes_}, &pending_);
  CountDefinition(pending_.size() - before);
  return op;
}

uint32_t Drain::OpAt(uint64_t end_ticks, const CallRecord& record) {
  if (KeepsShape(end_ticks)) return HintedOpOf(&record);
  CallRecord plain = record;
  plain.header.type = RecordType::kCall;
  plain.header.shape_words = plain.header.address_count = 0;
  return OpOf(&plain);
}

uint32_t Drain::HintedOpOf(const CallRecord* record) {
  if (record->header.shape_words != Interner::kHintShapeWords) return OpOf(record);
  uint64_t head;
  memcpy(&head, &record->header, sizeof head);
  head &= 0xffffffff00ff0000;  // not the record's size and depth
  auto shape = reinterpret_cast<const uint64_t*>(record + 1);
  Interner::OpHint* hint = interner_.Hint(head, shape);
  if (!Interner::Matches(*hint, head, shape)) {
    const uint32_t op = OpOf(record);
    if (op == 0) return 0;  // without memory; the next call may find some
    hint->iid = op;
    hint->head = head;
    memcpy(hint->shape, shape, sizeof hint->shape);
  }
  return hint->iid;
}

void Drain::Take(uint32_t slot, const CallRecord* record) {
  BatchedCall call = {.op_iid = OpAt(record->end_ticks, *record),
                      .sequence = record->sequence,
                      .end_ticks = record->end_ticks,
                      .duration = record->end_ticks - record->start_ticks,
                      .parent_distance = record->parent_distance,
                      .returned = record->status,
                      .addresses = const_cast<CallRecord*>(record)->addresses()};
  AddCall(slot, &call, record->header.address_count, NativeStackIn(*record));
}

// Splitting a line is the most expensive step: only new ops need it.
uint32_t Drain::TapOpAt(uint64_t end_ticks, const TapLineRecord& record, const TapLine& line) {
  const bool has_shape = KeepsShape(end_ticks);
  TextSpan identity = line.identity;
  for (size_t i = 0, commas = 0; i < identity.size && !has_shape; ++i) {  // operation, engine, primitive
    if (identity.data[i] == ',' && ++commas == 3) identity.size = i;
  }
  scratch_.Clear();
  scratch_.Append(&record.header.type, 1);
  scratch_.Append(&record.source, 4);
  scratch_.Append(identity.data, identity.size);
  const auto [op, is_new] = interner_.ops.Find(scratch_.data(), static_cast<uint32_t>(scratch_.size()));
  if (is_new) DefineTapOp(op, record, has_shape);
  return op;
}

void Drain::Take(uint32_t slot, const TapLineRecord* record) {
  if (record->source >= kMaxTapSources) return;
  auto text = reinterpret_cast<const char*>(record + 1);
  TapLine line = ParseTapLine(text, record->text_bytes, nullptr);
  if (record->cut != 0)
    fields::Loss::WritePacket({LossReason::kRecordTooLong, state_.thread_ids[slot], 1, 0, "onednn"}, &out_);
  if (!line.is_call) return;
  BatchedCall call = {TapOpAt(record->end_ticks, *record, line), record->sequence, record->end_ticks, line.duration_ns,
                      record->parent_distance};
  AddCall(slot, &call, 0, record->native_stack);
}

void Drain::DefineTapOp(uint32_t op, const TapLineRecord& record, bool has_shape) {
  const TapSource& source = session_->tap_sources[record.source];
  char fields[sizeof source.template_fields];
  char version[sizeof source.version];
  snprintf(fields, sizeof fields, "%.*s", static_cast<int>(sizeof fields - 1), source.template_fields);
  snprintf(version, sizeof version, "%.*s", static_cast<int>(sizeof version - 1), source.version);
  TapLine line = ParseTapLine(reinterpret_cast<const char*>(&record + 1), record.text_bytes, fields);
  for (uint32_t i = kPrimitive + 1; i < kOneDnnFieldCount && !has_shape; ++i) line.fields[i] = {};
  const size_t before = pending_.size();
  WriteTapDefinition(op, line, version, &pending_);
  CountDefinition(pending_.size() - before);
}

void Drain::AddCall(uint32_t slot, BatchedCall* call, uint32_t address_count, uint32_t native_stack) {
  uint32_t thread_id = state_.thread_ids[slot];
  ++state_.calls;
  if (call->op_iid == 0) LoseForMemory();
  if (call->end_ticks > state_.last_record_ticks) state_.last_record_ticks = call->end_ticks;
  if (!KeepsDetail(call->end_ticks)) {
    if (aggregates_.full()) FlushAggregates(call->end_ticks, true);
    if (!KeepsShape(call->end_ticks)) ++state_.left_out_shapes;
    CallSums sums = {};
    sums.Add(call->duration, call->parent_distance != 0);
    aggregates_.Add(thread_id, call->op_iid, sums, call->end_ticks);
    return;
  }
  if (!batch_.Takes(thread_id, call->sequence)) FlushBatch();
  call->python_stack_iid = PythonStackOf(state_.python_stacks[slot]);
  if (native_stack != 0) call->stack_iid = NativeStackOf(native_stack);
  if (!batch_.Add(thread_id, *call)) {
    ++state_.lost_calls;
    return LoseForMemory();
  }
  ++unwritten_calls_;
  for (uint32_t i = 0; i < address_count; ++i) batch_.AddAddress(interner_.Address(call->addresses[i]));
}

void Drain::Take(uint32_t slot, const ThreadRecord* record) {
  FlushBatch();
  bool begins = record->header.type == RecordType::kThreadBegin;
  WriteDropped(slot, record->slot_dropped);
  if (begins) state_.thread_ids[slot] = record->thread_id;
  if (begins) tids_[slot] = record->tid;
  state_.python_stacks[slot] = 0;
  fields::ThreadInfo::WritePacket(*record, &out_);
}

}  // namespace dlhook::inline drain
