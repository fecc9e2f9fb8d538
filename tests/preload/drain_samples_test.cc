// Samples of CPU time through the drain: a reader decodes their batches by proto/call.proto's rules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "preload/drain/drain.h"
#include "tests/preload/session_fixture.h"

namespace dlhook {
namespace drain_samples_test {

using ::testing::ElementsAre;

constexpr uint64_t kRingBytes = 65536;
constexpr uint64_t kIntervalNs = 10'000'000;

bool PutSample(RingProducer* ring, SampleRecord sample) {
  RecordHeader* space = ring->Reserve(sizeof sample / 8);
  if (space == nullptr) space = ring->ReserveAfterLook(sizeof sample / 8);
  if (space == nullptr) return false;
  const uint8_t depth = sample.header.depth;
  sample.header = {sizeof sample / 8, RecordType::kSample, depth, 0, 0, 0};
  *reinterpret_cast<SampleRecord*>(space) = sample;
  ring->Commit(space);
  return true;
}

SampleRecord Sample(uint64_t ticks, uint64_t address, uint32_t stack = 0) {
  SampleRecord sample = {};
  sample.ticks = ticks;
  sample.address = address;
  sample.native_stack = stack;
  sample.intervals = 1;
  sample.state = SampleState::kWhole;
  return sample;
}

// "thread ticks address<stack xINTERVALS state", and how many batches there are.
struct Reader {
  std::vector<std::string> samples;
  int batches = 0;

  explicit Reader(const trace::Trace& trace) {
    std::map<uint32_t, uint64_t> addresses = {{0, 0}};
    std::map<uint32_t, uint64_t> stacks = {{0, 0}};  // address of the frame
    for (const trace::Packet& packet : trace.packet()) {
      const trace::Interned& interned = packet.interned();
      for (int i = 0; i < interned.address_size(); ++i) {
        addresses[interned.first_address_iid() + static_cast<uint32_t>(i)] = interned.address(i);
      }
      for (const trace::InternedStack& stack : interned.stack())
        stacks[stack.iid()] = addresses.at(stack.address_iid());
      if (!packet.has_sample_batch()) continue;
      const trace::SampleBatch& batch = packet.sample_batch();
      EXPECT_EQ(batch.interval_ns(), kIntervalNs);
      ++batches;
      int64_t ticks = 0;
      for (int i = 0; i < batch.tick_delta_size(); ++i) {
        ticks += batch.tick_delta(i);
        samples.push_back(std::to_string(batch.thread_id()) + " " + std::to_string(ticks) + " " +
                          std::to_string(addresses.at(batch.address_iid(i))) + "<" +
                          std::to_string(stacks.at(batch.stack_iid(i))) + " x" + std::to_string(batch.intervals(i)) +
                          " " + trace::SampleBatch::State_Name(batch.state(i)));
      }
    }
  }
};

TEST(DrainSamplesTest, TheyComeOutAsTheyWentIn) {
  TestSession session(kRingBytes, 2, TestSession::kStackRoom);
  session.header()->sample_interval_ns = kIntervalNs;
  const uint32_t frame = session.PutStackNode({77, 0, StackCut::kWhole, 0, {}});
  RingProducer first = session.Producer(0), second = session.Producer(1);
  PutThread(&first, 1, "main");
  PutThread(&second, 2, "other");
  EXPECT_TRUE(PutSample(&first, Sample(5000, 10, frame)));
  SampleRecord late = Sample(4000, 0);  // an interrupted sample's clock may be behind
  late.intervals = 12;
  late.state = SampleState::kLate;
  EXPECT_TRUE(PutSample(&first, late));
  EXPECT_TRUE(PutSample(&second, Sample(6000, 10)));
  const Reader reader(ParseTrace(DrainAll(&session)));
  EXPECT_THAT(reader.samples, ElementsAre("1 5000 10<77 x1 WHOLE", "1 4000 0<0 x12 LATE", "2 6000 10<0 x1 WHOLE"));
  EXPECT_EQ(reader.batches, 2);
}

TEST(DrainSamplesTest, ManyTakeSeveralBatches) {
  TestSession session(kRingBytes, 1, TestSession::kStackRoom);
  session.header()->sample_interval_ns = kIntervalNs;
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &sink));
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  const uint64_t count = 3 * 1024 + 1;
  for (uint64_t i = 0; i < count; ++i) {
    while (!PutSample(&ring, Sample(1000 + i, 10 + i))) drain.Step(true, false);
  }
  drain.Finish(ProcessEnd::kExited, false);
  const Reader reader(ParseTrace({sink.buffer().data(), sink.buffer().size()}));
  ASSERT_EQ(reader.samples.size(), count);
  EXPECT_GE(reader.batches, 4);
  EXPECT_EQ(reader.samples.back(), "1 4072 3082<0 x1 WHOLE");
}

}  // namespace drain_samples_test
}  // namespace dlhook
