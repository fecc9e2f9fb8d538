#include "tests/fuzz/hostile_session.h"

#include <cstddef>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "preload/drain/drain.h"
#include "preload/format/call_totals.h"
#include "preload/format/gpu_records.h"
#include "preload/format/hook_table.h"
#include "preload/format/record.h"

namespace dlhook {
namespace {

constexpr uint32_t kSlots = 3;
constexpr uint64_t kDefinitionsRoom = 16 << 10;
constexpr int kMaxSteps = 400;
constexpr uint32_t kChunks = 4;  // the last one for totals
constexpr char kTapLine[] =
    "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,forward_training,src:f32:a:"
    "blocked:abcd::f0 "
    "wei:f32:a:blocked:Acdb16a::f0,attr-scratchpad:user,alg:convolution_direct,mb8_ic3oc16,0.5";

uint8_t ShapeWordsOf(RecordType type) {
  switch (type) {
    case RecordType::kGemmCall:
      return kWords<GemmShape>;
    case RecordType::kMatrixCall:
      return kWords<MatrixShape>;
    case RecordType::kCudaGemmCall:
      return kWords<CudaGemmShape>;
    case RecordType::kCopyCall:
      return kWords<CopyShape>;
    case RecordType::kLaunchCall:
      return kWords<LaunchShape>;
    case RecordType::kCudnnCall:
      return kWords<CudnnShape>;
    case RecordType::kPlanCall:
      return kWords<PlanShape>;
    case RecordType::kSearchCall:
      return kWords<SearchShape>;
    case RecordType::kCollectiveCall:
      return kWords<CollectiveShape>;
    case RecordType::kAllocationCall:
      return kWords<AllocationShape>;
    default:
      return 0;
  }
}

}  // namespace

HostileSession::HostileSession(Input* input) : HostileSession(input, input->Byte()) {}

// The complete layout, with native stacks, is 8 MiB: too large for every input.
HostileSession::HostileSession(Input* input, uint8_t size)
    : input_(input),
      has_stacks_(size / 4 % 16 == 5),
      session_(uint64_t{2048} << size % 4, kSlots, has_stacks_ ? TestSession::kStackRoom : kDefinitionsRoom, kChunks) {
  for (uint32_t i = 0; i < kSlots; ++i) {
    rings_[i] = session_.Producer(i);
    PutThread(&rings_[i], i + 1, "fuzz");
  }
  auto table = reinterpret_cast<TotalsTable*>(session_.ChunkMemory(kChunks - 1));
  table->used = sizeof *table;
  session_.header()->chunks[kChunks - 1].owner = kTotalsOwner + 1;
}

void HostileSession::Play(const std::function<void(uint8_t choice)>& pause) {
  for (int i = 0; i < kMaxSteps && !input_->empty(); ++i) Step(input_->Byte(), pause);
}

void HostileSession::Step(uint8_t choice, const std::function<void(uint8_t choice)>& pause) {
  RingProducer* ring = &rings_[choice / 16 % kSlots];
  switch (choice % 16) {
    case 0:
    case 1:
      return PutCall(ring, static_cast<RecordType>(input_->Byte() % 17));
    case 2:
      return PutTapLine(ring);
    case 3:
      return PutScope(ring);
    case 4:
      return PutText(ring, RecordType::kMapping, sizeof(MappingRecord));
    case 5:
      return PutText(ring, RecordType::kCapability, sizeof(CapabilityRecord));
    case 6:
      if (choice >= 128) return PutGpu(ring);
      if (choice >= 64) return PutText(ring, RecordType::kCompiledCode, sizeof(CompiledCodeRecord));
      return PutText(ring, RecordType::kPythonModule, sizeof(PythonModuleRecord));
    case 7:
      if (choice >= 128) return PutCounters(ring);
      return PutText(ring, RecordType::kPythonStack, sizeof(PythonStackRecord));
    case 8:
      PutThread(ring, static_cast<uint32_t>(input_->Size()), input_->Bytes(15).c_str());
      return;
    case 9:
    case 10:
      return has_stacks_ && choice % 16 == 10 ? PutStackNode() : PutDefinition();
    case 11:
      if (choice >= 192) return LeaveTotals();
      return choice >= 128 ? PutTotals(ring) : PutRubbish(ring);
    case 12:
    case 13:
      return Scribble();
    case 14: {
      // Counters that any host changes.
      SessionHeader* header = session_.header();
      header->slots[choice / 16 % kSlots].dropped += input_->Byte();
      header->no_ring_calls += input_->Byte();
      header->gpu_dropped_ring += header->no_ring_calls % 3;
      header->switches = input_->Byte() % 4;
      return;
    }
    default:
      return pause(input_->Byte());
  }
}

RecordHeader* HostileSession::Reserve(RingProducer* ring, size_t bytes) {
  const auto words = static_cast<uint32_t>((bytes + 7) / 8);
  RecordHeader* record = ring->Reserve(words);
  if (record == nullptr) record = ring->ReserveAfterLook(words);
  for (uint32_t i = 0; record == nullptr && i < kChunks - 1; ++i) {
    if (session_.header()->chunks[i].owner != 0) continue;
    session_.MoveTo(i, static_cast<uint32_t>(ring - rings_), ring);
    record = ring->ReserveAfterLook(words);
  }
  if (record != nullptr) *record = {static_cast<uint16_t>(words), RecordType::kPad, 0, 0, 0, 0};
  return record;
}

void HostileSession::PutCall(RingProducer* ring, RecordType type) {
  if (!IsCall(type)) type = RecordType::kCall;
  const uint8_t odd = input_->Byte();  // a size that differs from the type's
  const auto shape_words = static_cast<uint8_t>(ShapeWordsOf(type) + (odd >= 224 ? odd : 0));
  const uint8_t addresses = input_->Byte() % 8;
  const std::string shape = input_->Bytes(8u * shape_words);
  const CallTrailer trailer = {has_stacks_ ? input_->Byte() % 64u : 0, 0};
  const size_t trailer_bytes = trailer.native_stack != 0 ? sizeof trailer : 0;
  RecordHeader* space = Reserve(ring, sizeof(CallRecord) + 8u * shape_words + 8u * addresses + trailer_bytes);
  if (space == nullptr) return;
  auto call = reinterpret_cast<CallRecord*>(space);
  const uint16_t words = space->words;
  memset(call, 0, 8u * words);
  call->header = {words, type, 0, static_cast<HookId>(input_->Byte() * 7), shape_words, addresses};
  call->sequence = input_->Size();
  call->start_ticks = input_->Size();
  call->end_ticks = call->start_ticks + input_->Size();
  call->parent_distance = input_->Byte() % 4;
  call->status = static_cast<int8_t>(input_->Byte());
  memcpy(call->shape(), shape.data(), shape.size());
  for (uint8_t i = 0; i < addresses; ++i) call->addresses()[i] = 0x1000u + input_->Byte() * 64u;
  memcpy(call->addresses() + addresses, &trailer, trailer_bytes);
  ring->Commit(space);
  ++calls_;
}

void HostileSession::PutTapLine(RingProducer* ring) {
  std::string text = kTapLine;
  const uint8_t change = input_->Byte();
  if (change >= 64) text.replace(change % text.size(), change % 16, input_->Bytes(change % 32));
  RecordHeader* space = Reserve(ring, sizeof(TapLineRecord) + text.size());
  if (space == nullptr) return;
  auto line = reinterpret_cast<TapLineRecord*>(space);
  const uint16_t words = space->words;
  memset(line, 0, 8u * words);
  line->header = {words, RecordType::kTapLine, 0, 0, 0, 0};
  line->sequence = input_->Size();
  line->end_ticks = input_->Size();
  line->text_bytes = static_cast<uint32_t>(text.size());
  line->source = input_->Byte() % (kMaxTapSources + 1);
  line->cut = input_->Byte() == 255;
  line->native_stack = has_stacks_ ? input_->Byte() % 64u : 0;
  memcpy(line + 1, text.data(), text.size());
  ring->Commit(space);
  if (change < 64 && line->source < kMaxTapSources) ++calls_;
  if (change >= 64) is_scribbled_ = true;  // may no longer be a call
}

void HostileSession::PutScope(RingProducer* ring) {
  const std::string name = input_->Bytes(input_->Byte() % 64);
  RecordHeader* space = Reserve(ring, sizeof(ScopeRecord) + name.size());
  if (space == nullptr) return;
  auto scope = reinterpret_cast<ScopeRecord*>(space);
  const uint16_t words = space->words;
  memset(scope, 0, 8u * words);
  scope->header = {words, RecordType::kScope, input_->Byte(), 0, 0, 0};
  scope->start_ticks = input_->Size();
  scope->end_ticks = scope->start_ticks + input_->Size();
  scope->first_sequence = input_->Size();
  scope->link = static_cast<int64_t>(input_->Size()) - 1;
  scope->call_count = input_->Byte();
  scope->python_stack = input_->Number<uint16_t>() % (kDefinitionsRoom / 8);
  scope->name_bytes = static_cast<uint16_t>(name.size());
  scope->kind = static_cast<ScopeKind>(input_->Byte() % 16);
  memcpy(scope + 1, name.data(), name.size());
  ring->Commit(space);
}

// Any number of values, of a set that may not exist or have other names.
void HostileSession::PutCounters(RingProducer* ring) {
  const uint8_t count = input_->Byte() % 20;
  const std::string values = input_->Bytes(8u * count);
  RecordHeader* space = Reserve(ring, sizeof(CounterRecord) + 8u * count);
  if (space == nullptr) return;
  auto record = reinterpret_cast<CounterRecord*>(space);
  const uint16_t words = space->words;
  memset(static_cast<void*>(record), 0, 8u * words);
  record->header = {words, RecordType::kCounters, 0, 0, count, 0};
  record->ticks = input_->Size();
  record->set = input_->Number<uint16_t>() % (kDefinitionsRoom / 8);
  record->source = static_cast<CounterSource>(input_->Byte() % 8);
  record->is_process = input_->Byte() % 4 == 0;
  record->enabled_ns = input_->Size();
  record->running_ns = input_->Size();
  memcpy(record + 1, values.data(), values.size());
  ring->Commit(space);
}

// GPU work of any kind: everything except the type is from the input.
void HostileSession::PutGpu(RingProducer* ring) {
  constexpr std::pair<RecordType, size_t> kTypes[] = {{RecordType::kGpuActivity, sizeof(GpuActivityRecord)},
                                                      {RecordType::kGpuLink, sizeof(GpuLinkRecord)},
                                                      {RecordType::kGpuGraphNode, sizeof(GpuGraphNodeRecord)},
                                                      {RecordType::kGpuDevice, sizeof(GpuDeviceRecord)},
                                                      {RecordType::kGpuWindow, sizeof(GpuWindowRecord)}};
  const auto& [type, size] = kTypes[input_->Byte() % std::size(kTypes)];
  PutText(ring, type, size);
}

// Records of which only the text must fit: everything before it is from the input.
void HostileSession::PutText(RingProducer* ring, RecordType type, size_t fixed_bytes) {
  const std::string fixed = input_->Bytes(fixed_bytes - sizeof(RecordHeader));
  const std::string text = input_->Bytes(input_->Byte());
  RecordHeader* space = Reserve(ring, fixed_bytes + text.size());
  if (space == nullptr) return;
  const uint16_t words = space->words;
  memset(space, 0, 8u * words);
  *space = {words, type, 0, 0, 0, 0};
  memcpy(space + 1, fixed.data(), fixed.size());
  const auto bytes = static_cast<uint32_t>(text.size());
  if (type == RecordType::kMapping) reinterpret_cast<MappingRecord*>(space)->text_bytes = bytes;
  if (type == RecordType::kCapability) reinterpret_cast<CapabilityRecord*>(space)->text_bytes = bytes;
  if (type == RecordType::kPythonModule) reinterpret_cast<PythonModuleRecord*>(space)->text_bytes = bytes;
  if (type == RecordType::kCompiledCode) reinterpret_cast<CompiledCodeRecord*>(space)->text_bytes = bytes;
  if (type == RecordType::kGpuDevice) reinterpret_cast<GpuDeviceRecord*>(space)->name_bytes = bytes;
  if (type == RecordType::kGpuWindow) reinterpret_cast<GpuWindowRecord*>(space)->text_bytes = bytes;
  memcpy(reinterpret_cast<char*>(space) + fixed_bytes, text.data(), text.size());
  ring->Commit(space);
}

// Of calls of an op without operands; counts them.
std::string HostileSession::Totals() {
  const RecordType types[] = {RecordType::kCall, RecordType::kGemmCall, RecordType::kSearchCall};
  CallRecord call = {};
  call.header.type = types[input_->Byte() % std::size(types)];
  call.header.shape_words = ShapeWordsOf(call.header.type);
  call.header.hook = static_cast<HookId>(input_->Byte());
  const std::string shape = input_->Bytes(8u * call.header.shape_words);
  CallTotalsRecord totals = {};
  totals.thread_id = input_->Byte();
  totals.start_ticks = input_->Size();
  totals.end_ticks = input_->Size();
  totals.sums = {1u + input_->Byte(), input_->Size(), input_->Size(), input_->Size(), input_->Byte(), input_->Size()};
  calls_ += totals.sums.count;
  totals.header = {static_cast<uint16_t>((sizeof totals + sizeof call) / 8 + call.header.shape_words),
                   RecordType::kCallTotals,
                   0,
                   0,
                   0,
                   0};
  std::string bytes(reinterpret_cast<const char*>(&totals), sizeof totals);
  bytes.append(reinterpret_cast<const char*>(&call), sizeof call).append(shape);
  bytes.resize(8u * totals.header.words);
  return bytes;
}

void HostileSession::PutTotals(RingProducer* ring) {
  const uint64_t before = calls_;
  const std::string bytes = Totals();
  RecordHeader* space = Reserve(ring, bytes.size());
  if (space == nullptr) {
    calls_ = before;
    return;
  }
  memcpy(static_cast<void*>(space), bytes.data(), bytes.size());
  ring->Commit(space);
}

// In the table of a thread that has ended: possibly in the ring already, possibly being changed.
void HostileSession::LeaveTotals() {
  auto table = reinterpret_cast<TotalsTable*>(session_.ChunkMemory(kChunks - 1));
  const uint64_t before = calls_;
  const std::string bytes = Totals();
  const uint32_t used = table->used;
  const uint64_t handed_over = input_->Byte() % 4 == 0 ? input_->Byte() : 0;
  const bool fits =
      used >= sizeof *table && used + sizeof handed_over + bytes.size() <= TestSession::kChunkBytes - kStagingBytes / 4;
  if (!fits || handed_over != 0) calls_ = before;
  if (!fits) return;
  char* entry = reinterpret_cast<char*>(table) + used;
  memcpy(entry, &handed_over, sizeof handed_over);
  memcpy(entry + sizeof handed_over, bytes.data(), bytes.size());
  table->used = used + static_cast<uint32_t>(sizeof handed_over + bytes.size());
  is_scribbled_ = is_scribbled_ || handed_over != 0;  // the ring's head may not have reached it
}

// A record of any type with any size field.
void HostileSession::PutRubbish(RingProducer* ring) {
  const std::string bytes = input_->Bytes(8 + input_->Byte());
  RecordHeader* space = Reserve(ring, bytes.size() + 8);
  if (space == nullptr) return;
  const RecordHeader true_size = *space;
  ring->Commit(&true_size);
  memcpy(static_cast<void*>(space), bytes.data(), bytes.size());
  is_scribbled_ = true;
}

void HostileSession::PutDefinition() {
  SessionHeader* header = session_.header();
  const auto kind = static_cast<DefinitionKind>(1 + input_->Byte() % 5);
  const std::string bytes = input_->Bytes(input_->Byte() * 2u);
  if (header->definitions_bytes + sizeof(Definition) + bytes.size() + 8 > kDefinitionsRoom) return;
  session_.PutDefinition(kind, bytes);
}

// With a parent outside of it as written by the capture, or any.
void HostileSession::PutStackNode() {
  if (session_.header()->stack_nodes >= kMaxStackNodes) return;
  const uint8_t parent = input_->Byte();
  const uint32_t next = session_.header()->stack_nodes;
  StackNode node = {};
  node.address = 0x2000u + input_->Byte();
  node.parent = parent >= 240 ? input_->Number<uint32_t>() : next == 0 ? 0 : parent % next;
  node.cut = static_cast<StackCut>(input_->Byte() % 8);
  node.is_signal_frame = parent % 2;
  if (parent >= 240) is_scribbled_ = true;
  session_.PutStackNode(node);
}

// Writes at any place that a stray pointer of the host may reach: header, checkpoints, slots, definitions, rings. The
// fields that identify a ring file are kept, or nothing would be drained.
void HostileSession::Scribble() {
  is_scribbled_ = true;
  const uint64_t kPlaces[][2] = {
      {offsetof(SessionHeader, enabled_families), offsetof(SessionHeader, tap_sources)},
      {offsetof(SessionHeader, tap_sources), offsetof(SessionHeader, chunks_offset)},
      {offsetof(SessionHeader, chunks_offset), offsetof(SessionHeader, chunks) + kChunks * sizeof(Chunk)},
      {offsetof(SessionHeader, current_checkpoint), offsetof(SessionHeader, checkpoints)},
      {offsetof(SessionHeader, checkpoints), offsetof(SessionHeader, checkpoints) + 96},
      {offsetof(SessionHeader, checkpoints) + offsetof(Checkpoint, tails),
       offsetof(SessionHeader, checkpoints) + offsetof(Checkpoint, tails) + 8 * kSlots},
      {offsetof(SessionHeader, slots), offsetof(SessionHeader, slots) + kSlots * sizeof(Slot)},
      {kSessionDataStart, kSessionDataStart + 2048},
      {kSessionDataStart + kDefinitionsRoom, session_.bytes()},
      {kStackNodesStart, kStackNodesStart + 1024}};
  const size_t places = sizeof kPlaces / sizeof kPlaces[0] - (has_stacks_ ? 0 : 1);
  const auto& [begin, end] = kPlaces[input_->Byte() % places];
  const std::string bytes = input_->Bytes(1 + input_->Byte() % 16);
  const uint64_t at = begin + input_->Number<uint16_t>() % (end - begin);
  if (at + bytes.size() > session_.bytes()) return;
  memcpy(reinterpret_cast<char*>(session_.header()) + at, bytes.data(), bytes.size());
}

}  // namespace dlhook
