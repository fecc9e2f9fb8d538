// Rings that grow: order and completeness over chunks, chunks that are released, drains that take over, threads that
// leave in the middle, room reserved for scopes.
#include <gtest/gtest.h>
#include <string.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "preload/drain/drain.h"
#include "preload/format/call_totals.h"
#include "preload/runtime/full_ring.h"
#include "tests/preload/session_fixture.h"
#include "tests/preload/test_process.h"

namespace dlhook {
namespace {

constexpr uint16_t kWords = sizeof(CallRecord) / 8;
constexpr uint64_t kManyCalls = 60000;  // 2.9 MB: more than a ring's own memory

bool Put(ThreadState* thread, uint64_t sequence) {
  FrameMark mark;
  RecordHeader* space = ReserveCall(thread, kWords, &mark);
  if (space == nullptr) return false;
  auto record = reinterpret_cast<CallRecord*>(space);
  *record = {};
  record->header = {kWords, RecordType::kCall, 0, static_cast<HookId>(FindHook("sgemm_")), 0, 0};
  record->start_ticks = sequence * 10;
  record->end_ticks = sequence * 10 + 5;
  record->sequence = sequence;
  CommitRecord(thread, space);
  return true;
}

void PutUpTo(ThreadState* thread, uint64_t* sequence, uint64_t last) {
  while (*sequence < last) ASSERT_TRUE(Put(thread, ++*sequence));
}

uint32_t OwnedChunks() {
  uint32_t owned = 0;
  for (const Chunk& chunk : GetProcess()->session->chunks) owned += chunk.owner.load() != 0;
  return owned;
}

// A thread with its own slot; `body` gets its state and a drain of the session.
class RingGrowthTest : public ::testing::Test {
 protected:
  void OnThread(const std::function<void(ThreadState* thread)>& body) {
    std::thread([&] {
      ThreadState* thread = Attach();
      ASSERT_NE(thread, nullptr);
      SessionHeader* session = thread->session;
      session->magic = kSessionMagic;
      session->layout = kSessionLayout;
      session->hook_table_hash = kHookTableHash;
      body(thread);
      Take();  // the records of the thread's end would go to the next test
    }).join();
    drain_.Step(true, false);
  }
  void Take() {
    SessionHeader* session = GetProcess()->session;
    if (!is_open_) {
      for (Checkpoint& checkpoint : session->checkpoints) checkpoint.file_bytes = 0;  // each test has its own output
      ASSERT_TRUE(drain_.Open(session, session->mapping_bytes, &sink_)) << drain_.error();
    }
    is_open_ = true;
    drain_.Step(true, false);
  }
  trace::Trace Trace() { return ParseTrace({sink_.buffer().data(), sink_.buffer().size()}); }
  std::vector<DecodedCall> Calls() { return DecodeCalls(Trace()); }
  void ExpectInOrder(uint64_t count) {
    const std::vector<DecodedCall> calls = Calls();
    ASSERT_EQ(calls.size(), count);
    for (uint64_t i = 0; i < count; ++i) ASSERT_EQ(calls[i].sequence, i + 1);
  }

  MemorySink sink_;
  Drain drain_;
  bool is_open_ = false;
};

TEST_F(RingGrowthTest, WhatDoesNotFitGoesIntoChunksAndComesOutInOrder) {
  OnThread([&](ThreadState* thread) {
    uint64_t sequence = 0;
    PutUpTo(thread, &sequence, kManyCalls);
    EXPECT_GT(OwnedChunks(), 10u);
    Take();
    EXPECT_LE(OwnedChunks(), 1u);  // the thread's current one
    PutUpTo(thread, &sequence, 2 * kManyCalls);
    Take();
    ExpectInOrder(2 * kManyCalls);
  });
  EXPECT_EQ(OwnedChunks(), 0u);
}

TEST_F(RingGrowthTest, GoesHomeWhenTheDrainHasCaughtUp) {
  OnThread([&](ThreadState* thread) {
    uint64_t sequence = 0;
    PutUpTo(thread, &sequence, kManyCalls);
    EXPECT_NE(thread->chunk, 0u);
    Take();
    for (uint64_t round = 0; round < 20; ++round) {
      PutUpTo(thread, &sequence, sequence + 500);
      Take();
    }
    EXPECT_EQ(thread->chunk, 0u);
    ExpectInOrder(kManyCalls + 20 * 500);
  });
}

TEST_F(RingGrowthTest, ADrainTakesOverInTheMiddleOfAChunk) {
  OnThread([&](ThreadState* thread) {
    uint64_t sequence = 0;
    PutUpTo(thread, &sequence, kManyCalls);
    Take();
    PutUpTo(thread, &sequence, kManyCalls + 100);
    Drain other;
    ASSERT_TRUE(other.Open(thread->session, thread->session->mapping_bytes, &sink_));
    other.Step(true, false);
    ExpectInOrder(kManyCalls + 100);
  });
}

// A signal handler leaves GrowRing after the first `stores` stores, and the drain may run before the thread continues.
class LeftInTheMiddleTest : public RingGrowthTest, public ::testing::WithParamInterface<std::tuple<int, bool>> {};

TEST_P(LeftInTheMiddleTest, NothingIsLost) {
  const auto [stores, is_drained] = GetParam();
  OnThread([&, stores = stores, is_drained = is_drained](ThreadState* thread) {
    SessionHeader* session = thread->session;
    uint64_t sequence = 0;
    PutUpTo(thread, &sequence, kManyCalls);
    Chunk& left = session->chunks[thread->chunk - 1];
    uint32_t next = 0;
    while (session->chunks[next].owner.load() != 0) ++next;
    if (session->chunks_used.load() <= next) session->chunks_used = next + 1;
    session->chunks[next].owner = kChunkTaken;
    session->chunks[next].start = thread->ring.head;
    session->chunks[next].end = 0;
    FrameMark mark;
    thread->ring.Take(&mark);
    thread->next_chunk = next + 1;
    thread->moves = 1;
    if (stores > 0) left.end = thread->ring.head;
    if (stores > 1) thread->chunk = next + 1;
    if (stores > 2) session->chunks[next].owner = static_cast<uint32_t>(thread->ring.slot - session->slots) + 1;
    if (is_drained) Take();
    EndGrowth(thread);
    thread->ring.Release();
    PutUpTo(thread, &sequence, 2 * kManyCalls);
    Take();
    ExpectInOrder(2 * kManyCalls);
  });
  EXPECT_EQ(OwnedChunks(), 0u);
}

INSTANTIATE_TEST_SUITE_P(AnyStore, LeftInTheMiddleTest, ::testing::Combine(::testing::Range(0, 4), ::testing::Bool()));

// With room for one chunk of records and one of totals.
TEST_F(RingGrowthTest, CallsGoIntoTotalsBeforeScopesAreRefused) {
  OnThread([&](ThreadState* thread) {
    const uint32_t chunks = std::exchange(thread->session->chunk_count, 2);
    uint64_t sequence = 0;
    while (!IsKeepingTotals(thread)) PutUpTo(thread, &sequence, sequence + 1);
    PutUpTo(thread, &sequence, sequence + 1000);
    FrameMark mark;
    EXPECT_NE(ReserveDescription(thread, 128, &mark), nullptr);
    thread->ring.Release();
    Take();
    PutUpTo(thread, &sequence, sequence + 10);
    EXPECT_FALSE(IsKeepingTotals(thread));
    Take();
    uint64_t in_totals = 0;
    const trace::Trace trace = Trace();
    for (const trace::Packet& packet : trace.packet()) {
      if (!packet.has_call_aggregate()) continue;
      const trace::CallAggregate& totals = packet.call_aggregate();
      EXPECT_EQ(totals.cause(), trace::CallAggregate::RING_FULL);
      EXPECT_EQ(totals.sum(), 5 * totals.count());
      EXPECT_EQ(totals.min(), 5u);
      EXPECT_EQ(totals.max(), 5u);
      EXPECT_EQ(totals.thread_id(), thread->thread_id);
      EXPECT_EQ(totals.window_end_ticks() - totals.window_start_ticks(), (totals.count() - 1) * 10 + 5);
      in_totals += totals.count();
    }
    EXPECT_GE(in_totals, 1000u);
    EXPECT_EQ(Calls().size() + in_totals, sequence);
    EXPECT_EQ(thread->ring.slot->dropped.load(), 0u);
    thread->session->chunk_count = chunks;
  });
}

// Killed with totals in the table, one of them being changed: its state before that change counts.
TEST_F(RingGrowthTest, WhatIsLeftOfTotalsIsTakenAtTheEndOnce) {
  OnThread([&](ThreadState* thread) {
    const uint32_t chunks = std::exchange(thread->session->chunk_count, 2);
    uint64_t sequence = 0;
    while (!IsKeepingTotals(thread)) PutUpTo(thread, &sequence, sequence + 1);
    PutUpTo(thread, &sequence, sequence + 999);
    TotalsTable* table = thread->totals[0];
    auto entry = reinterpret_cast<TotalsEntry*>(table + 1);
    table->sums_before = entry->record.sums;
    table->end_ticks_before = entry->record.end_ticks;
    table->changed = sizeof *table;
    entry->record.sums.count += 7;
    Take();
    drain_.Finish(ProcessEnd::kVanished, false);
    Drain other;
    ASSERT_TRUE(other.Open(thread->session, thread->session->mapping_bytes, &sink_));
    other.Finish(ProcessEnd::kVanished, false);
    uint64_t in_totals = 0;
    const trace::Trace trace = Trace();
    for (const trace::Packet& packet : trace.packet()) {
      in_totals += packet.call_aggregate().count();
    }
    EXPECT_EQ(in_totals, 1000u);
    table->changed = 0;
    thread->session->chunk_count = chunks;
  });
}

TEST_F(RingGrowthTest, EveryRecordArrivesBesideADrain) {
  OnThread([&](ThreadState* thread) {
    Take();
    std::atomic<bool> is_done{false};
    std::thread drain([&] {
      while (!is_done) drain_.Step(true, false);
    });
    uint64_t sequence = 0;
    PutUpTo(thread, &sequence, 5 * kManyCalls);
    is_done = true;
    drain.join();
    Take();
    ExpectInOrder(5 * kManyCalls);
  });
}

}  // namespace
}  // namespace dlhook
