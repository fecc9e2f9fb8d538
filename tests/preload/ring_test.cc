// The ring: order, wrap-around, refusal when full, and one producer with one concurrent consumer (run it under TSan).
#include "preload/format/ring.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <thread>

#include "preload/drain/drain.h"
#include "tests/preload/session_fixture.h"

namespace dlhook {
namespace ring_test {

constexpr uint64_t kRingBytes = 16384;

// tests/bench/torch_steps.py switches recording there.
static_assert(offsetof(SessionHeader, enabled_families) == 320 && offsetof(SessionHeader, configured_families) == 324);

TEST(RingTest, RefusesWhenFullAndTakesAgainAfterTheDrain) {
  TestSession session(kRingBytes);
  RingProducer ring = session.Producer(0);
  ASSERT_TRUE(PutThread(&ring, 1, "t"));
  uint64_t sequence = 0;
  while (PutGemm(&ring, {.sequence = sequence + 1})) ++sequence;
  EXPECT_GT(sequence, 80u);  // 136 bytes each
  EXPECT_LE(sequence, kRingBytes / 136);
  EXPECT_FALSE(PutGemm(&ring, {.sequence = sequence + 1}));
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &sink)) << drain.error();
  drain.Step(true, false);
  EXPECT_TRUE(PutGemm(&ring, {.sequence = sequence + 1}));
}

TEST(RingTest, ASignalHandlersRecordIsRefusedWhileOneIsBeingWritten) {
  TestSession session(kRingBytes);
  RingProducer ring = session.Producer(0);
  ASSERT_NE(ring.Reserve(4), nullptr);
  EXPECT_EQ(ring.Reserve(4), nullptr);
  EXPECT_EQ(ring.ReserveAfterLook(4), nullptr);
}

// Wherever the stacks lie: only memory that has another use now shows that the reserver is gone.
TEST(RingTest, AReserverIsInUseUntilItsFrameIsUsedAgain) {
  TestSession session(kRingBytes);
  RingProducer ring = session.Producer(0);
  FrameMark marks[3];
  EXPECT_FALSE(ring.IsInUse(&marks[1]));
  ASSERT_NE(ring.Reserve(4, &marks[1]), nullptr);
  EXPECT_TRUE(ring.IsInUse(&marks[0]));
  EXPECT_TRUE(ring.IsInUse(&marks[2]));
  EXPECT_FALSE(ring.IsInUse(&marks[1])) << "the asker's frame is where that of the reserver was";
  marks[1].word = 0;
  EXPECT_FALSE(ring.IsInUse(&marks[0]));
  EXPECT_FALSE(ring.IsInUse(&marks[2]));
}

TEST(RingTest, AReserverWhoseStackIsUnmappedIsGone) {
  TestSession session(kRingBytes);
  RingProducer ring = session.Producer(0);
  FrameMark own;
  void* stack = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(ring.Reserve(4, static_cast<FrameMark*>(stack)), nullptr);
  EXPECT_TRUE(ring.IsInUse(&own));
  munmap(stack, 4096);
  EXPECT_FALSE(ring.IsInUse(&own));
}

TEST(RingTest, ARefusedReservationLeavesTheRingFree) {
  TestSession session(kRingBytes);
  RingProducer ring = session.Producer(0);
  EXPECT_EQ(ring.Reserve(kRingBytes / 8 + 1), nullptr);
  EXPECT_EQ(ring.ReserveAfterLook(kRingBytes / 8 + 1), nullptr);
  EXPECT_TRUE(PutGemm(&ring, {.sequence = 1}));
}

TEST(RingTest, AWipedProducerRefuses) {
  RingProducer ring = {};
  EXPECT_EQ(ring.Reserve(4), nullptr);
  EXPECT_EQ(ring.ReserveAfterLook(4), nullptr);
}

TEST(RingTest, EveryRecordArrivesOnceAndInOrderOverManyWraps) {
  constexpr uint64_t kCalls = 20000;
  TestSession session(kRingBytes);
  std::atomic<bool> done{false};
  std::thread producer([&] {
    RingProducer ring = session.Producer(0);
    while (!PutThread(&ring, 7, "producer")) std::this_thread::yield();
    for (uint64_t i = 1; i <= kCalls; ++i) {
      // Lengths vary so that records end at every distance from the end of the ring.
      bool tap = i % 3 == 0;
      std::string line =
          "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,,,," + std::string(i % 100, 'x') + ",1";
      while (!(tap ? PutTapLine(&ring, i, i * 10, line)
                   : PutGemm(&ring, {.sequence = i, .start_ticks = i * 10 - 5, .end_ticks = i * 10}))) {
        std::this_thread::yield();
      }
    }
    done = true;
  });
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &sink));
  while (!done) drain.Step(true, false);
  producer.join();
  drain.Finish(ProcessEnd::kExited, false);
  const std::vector<DecodedCall> calls =
      DecodeCalls(ParseTrace(std::string(sink.buffer().data(), sink.buffer().size())));
  ASSERT_EQ(calls.size(), kCalls);
  for (uint64_t i = 0; i < kCalls; ++i) {
    ASSERT_EQ(calls[i].sequence, i + 1);
    ASSERT_EQ(calls[i].end_ticks, (i + 1) * 10);
    ASSERT_EQ(calls[i].thread_id, 7u);
    ASSERT_EQ(calls[i].function, (i + 1) % 3 == 0 ? "onednn:exec" : "sgemm_");
  }
}

}  // namespace ring_test
}  // namespace dlhook
