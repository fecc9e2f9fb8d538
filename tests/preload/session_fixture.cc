#include "tests/preload/session_fixture.h"

#include <gtest/gtest.h>
#include <string.h>

#include <map>

#include "preload/drain/drain.h"
#include "preload/format/hook_table.h"

namespace dlhook {

TestSession::TestSession(uint64_t ring_bytes, uint32_t slots, uint64_t definitions_room, uint32_t chunks)
    : pages_((kSessionDataStart + definitions_room + ring_bytes * slots + chunks * kChunkBytes + sizeof(Page) - 1) /
             sizeof(Page)) {
  chunks_offset_ = kSessionDataStart + definitions_room + ring_bytes * slots;
  SessionHeader* session = header();
  session->magic = kSessionMagic;
  session->layout = kSessionLayout;
  session->hook_table_hash = kHookTableHash;
  session->mapping_bytes = bytes();
  session->pid = 4711;
  session->clock_kind = static_cast<uint32_t>(ClockKind::kTsc);
  session->ticks_per_second = 1000000000;
  session->clock_samples[0] = {1000, 1000, 5000, 1};
  session->clock_samples[1] = {2000, 2000, 6000, 1};
  strcpy(session->program, "victim");
  strcpy(session->tool_version, "0.1.0");
  session->slots_in_use = slots;
  session->chunks_offset = chunks_offset_;
  session->chunk_bytes = kChunkBytes;
  session->chunk_count = chunks;
  for (uint32_t i = 0; i < slots; ++i) {
    session->slots[i].data_offset = kSessionDataStart + definitions_room + i * ring_bytes;
    session->slots[i].bytes = ring_bytes;
  }
}

RingProducer TestSession::Producer(uint32_t slot) {
  RingProducer ring = {};
  ring.Start(&header()->slots[slot], reinterpret_cast<char*>(header()) + header()->slots[slot].data_offset);
  return ring;
}

void TestSession::MoveTo(uint32_t index, uint32_t slot, RingProducer* ring) {
  for (Chunk& chunk : header()->chunks) {
    if (chunk.owner == slot + 1 && chunk.end == 0) chunk.end = ring->head;
  }
  Chunk& chunk = header()->chunks[index];
  chunk.start = ring->head;
  chunk.end = 0;
  chunk.owner = slot + 1;
  if (header()->chunks_used <= index) header()->chunks_used = index + 1;
  ring->MoveTo(ChunkMemory(index), kChunkBytes, ring->head);
}

uint32_t TestSession::PutDefinition(DefinitionKind kind, const std::string& bytes) {
  const uint64_t offset = header()->definitions_bytes;
  char* at = reinterpret_cast<char*>(header()) + kSessionDataStart + offset;
  const Definition head = {static_cast<uint32_t>(kind), static_cast<uint32_t>(bytes.size())};
  memcpy(at, &head, sizeof head);
  memcpy(at + sizeof head, bytes.data(), bytes.size());
  header()->definitions_bytes = (offset + sizeof head + bytes.size() + 7) / 8 * 8;
  return static_cast<uint32_t>(offset / 8 + 1);
}

uint32_t TestSession::PutStackNode(const StackNode& node) {
  uint32_t number = header()->stack_nodes;
  if (number == 0) number = 1;  // node 0 is not used
  memcpy(reinterpret_cast<char*>(header()) + kStackNodesStart + number * sizeof node, &node, sizeof node);
  header()->stack_nodes = number + 1;
  return number;
}

namespace {

RecordHeader* ReserveSomehow(RingProducer* ring, uint32_t words) {
  RecordHeader* record = ring->Reserve(words);
  return record != nullptr ? record : ring->ReserveAfterLook(words);
}

}  // namespace

bool PutThread(RingProducer* ring, uint32_t thread_id, const char* name) {
  RecordHeader* space = ReserveSomehow(ring, sizeof(ThreadRecord) / 8);
  if (space == nullptr) return false;
  auto record = reinterpret_cast<ThreadRecord*>(space);
  *record = {};
  record->header = {sizeof(ThreadRecord) / 8, RecordType::kThreadBegin, 0, 0, 0, 0};
  record->thread_id = thread_id;
  record->tid = 100 + thread_id;
  strncpy(record->name, name, sizeof record->name - 1);
  ring->Commit(space);
  return true;
}

bool PutGemm(RingProducer* ring, const TestGemm& gemm) {
  const uint16_t words = sizeof(CallRecord) / 8 + kWords<GemmShape> + 3 + (gemm.native_stack != 0 ? 1 : 0);
  RecordHeader* space = ReserveSomehow(ring, words);
  if (space == nullptr) return false;
  auto record = reinterpret_cast<CallRecord*>(space);
  const auto hook = static_cast<HookId>(FindHook("sgemm_"));
  record->header = {words, RecordType::kGemmCall, 0, hook, kWords<GemmShape>, 3};
  record->start_ticks = gemm.start_ticks;
  record->end_ticks = gemm.end_ticks;
  record->sequence = gemm.sequence;
  record->parent_distance = gemm.parent_distance;
  record->status = 0;
  GemmShape shape = {};
  shape.a_type = shape.b_type = shape.c_type = DataType::kF32;
  shape.trans_a = 'T';
  shape.trans_b = 'N';
  shape.m = gemm.m;
  shape.n = gemm.n;
  shape.k = gemm.k;
  shape.lda = gemm.k;
  shape.ldb = gemm.k;
  shape.ldc = gemm.m;
  shape.batch = 1;
  memcpy(record->shape(), &shape, sizeof shape);
  for (int i = 0; i < 3; ++i) record->addresses()[i] = gemm.address + static_cast<uint64_t>(i) * 64;
  const CallTrailer trailer = {gemm.native_stack, 0};
  if (gemm.native_stack != 0) memcpy(record->addresses() + 3, &trailer, sizeof trailer);
  ring->Commit(space);
  return true;
}

bool PutTapLine(RingProducer* ring, uint64_t sequence, uint64_t end_ticks, const std::string& text,
                uint32_t native_stack) {
  const auto words = static_cast<uint16_t>((sizeof(TapLineRecord) + text.size() + 7) / 8);
  RecordHeader* space = ReserveSomehow(ring, words);
  if (space == nullptr) return false;
  auto record = reinterpret_cast<TapLineRecord*>(space);
  *record = {};
  record->header = {words, RecordType::kTapLine, 0, 0, 0, 0};
  record->end_ticks = end_ticks;
  record->sequence = sequence;
  record->text_bytes = static_cast<uint32_t>(text.size());
  record->native_stack = native_stack;
  memcpy(record + 1, text.data(), text.size());
  ring->Commit(space);
  return true;
}

std::string DrainAll(TestSession* session, uint64_t mapping_bytes) {
  MemorySink sink;
  Drain drain;
  EXPECT_TRUE(drain.Open(session->header(), mapping_bytes == 0 ? session->bytes() : mapping_bytes, &sink))
      << drain.error();
  drain.Finish(ProcessEnd::kVanished, false);
  return {sink.buffer().data(), sink.buffer().size()};
}

trace::Trace ParseTrace(const std::string& bytes) {
  trace::Trace trace;
  EXPECT_TRUE(trace.ParseFromString(bytes));
  return trace;
}

namespace {

struct Interning {
  std::map<uint32_t, trace::OpDefinition> ops;
  std::map<uint32_t, uint64_t> addresses;

  void Add(const trace::Interned& interned) {
    for (const trace::OpDefinition& op : interned.op()) ops[op.iid()] = op;
    for (int i = 0; i < interned.address_size(); ++i) {
      addresses[interned.first_address_iid() + static_cast<uint32_t>(i)] = interned.address(i);
    }
  }
};

void DecodeBatch(const trace::CallBatch& batch, const Interning& interning, std::vector<DecodedCall>* calls) {
  uint64_t sequence = batch.base_sequence();
  uint64_t end = batch.base_end_ticks();
  int address = 0;
  for (int i = 0; i < batch.op_iid_size(); ++i) {
    sequence += 1 + static_cast<uint64_t>(batch.sequence_delta(i));
    end += static_cast<uint64_t>(batch.end_delta_ticks(i));
    const trace::OpDefinition& op = interning.ops.at(batch.op_iid(i));
    DecodedCall call = {batch.thread_id(),
                        sequence,
                        end,
                        batch.duration(i),
                        batch.parent_distance(i) == 0 ? 0 : sequence - batch.parent_distance(i),
                        batch.op_iid(i),
                        {},
                        op.function()};
    for (uint32_t a = 0; a < op.address_count(); ++a) {
      call.addresses.push_back(interning.addresses.at(batch.address_iid(address++)));
    }
    calls->push_back(call);
  }
}

}  // namespace

std::vector<DecodedCall> DecodeCalls(const trace::Trace& trace) {
  std::vector<DecodedCall> calls;
  Interning interning;
  for (const trace::Packet& packet : trace.packet()) {
    if (packet.has_reset()) interning = {};
    if (packet.has_interned()) interning.Add(packet.interned());
    if (packet.has_call_batch()) DecodeBatch(packet.call_batch(), interning, &calls);
  }
  return calls;
}

}  // namespace dlhook
