// Calls and scopes that have not ended, as a reader of a process that hangs gets them: as if they ended now. From hostile
// memory nothing that was not there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "preload/drain/drain.h"
#include "preload/format/hook_table.h"
#include "preload/format/open_scopes.h"
#include "tests/preload/session_fixture.h"

namespace dlhook {
namespace drain_open_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kRingBytes = 65536;

// A session whose first thread records, with the place for open scopes.
class DrainOpenTest : public ::testing::Test {
 protected:
  DrainOpenTest() : session_(kRingBytes, 2, kRingsStart - kSessionDataStart), ring_(session_.Producer(0)) {
    PutThread(&ring_, 1, "main");
    slot().owned = 1;
    slot().thread_id = 1;
  }

  Slot& slot() { return session_.header()->slots[0]; }

  OpenScopes* scopes() {
    return reinterpret_cast<OpenScopes*>(reinterpret_cast<char*>(session_.header()) + OpenScopesOffset(0));
  }

  void OpenCall() { slot().open_call = OpenCallWord(static_cast<HookId>(FindHook("sgemm_")), 3000); }

  void OpenScope(const std::string& name, uint64_t first_sequence, uint32_t python_stack = 0) {
    const uint32_t at = slot().open_scopes.fetch_add(1);
    const auto offset = static_cast<uint16_t>(at * 100);
    memcpy(scopes()->names + offset, name.data(), name.size());
    scopes()->entries[at] = {.owner = nullptr,
                             .start_ticks = 2500 + at,
                             .first_sequence = first_sequence,
                             .link = -1,
                             .python_stack = python_stack,
                             .name_offset = offset,
                             .name_bytes = static_cast<uint16_t>(name.size()),
                             .kind = ScopeKind::kFrameworkOp,
                             .cut = 0,
                             .may_run_python = 0};
  }

  trace::Trace TakeOpen() {
    TestSession copy = session_;
    MemorySink sink;
    Drain drain;
    EXPECT_TRUE(drain.Open(copy.header(), copy.bytes(), &sink)) << drain.error();
    drain.TakeOpen();
    return ParseTrace({sink.buffer().data(), sink.buffer().size()});
  }

  // "aten::linear 2@5": calls inside, first sequence number.
  static std::vector<std::string> ScopesOf(const trace::Trace& trace) {
    std::map<uint32_t, std::string> strings;
    std::vector<std::string> scopes;
    for (const trace::Packet& packet : trace.packet()) {
      for (const trace::InternedString& string : packet.interned().string()) strings[string.iid()] = string.value();
      const trace::ScopeBatch& batch = packet.scope_batch();
      uint64_t sequence = batch.base_first_sequence();
      for (int i = 0; i < batch.name_iid_size(); ++i) {
        sequence += static_cast<uint64_t>(batch.first_sequence_delta(i));
        scopes.push_back(strings[batch.name_iid(i)] + " " + std::to_string(batch.call_count(i)) + "@" +
                         std::to_string(sequence));
      }
    }
    return scopes;
  }

  TestSession session_;
  RingProducer ring_;
};

TEST_F(DrainOpenTest, WhatHasNotEndedIsThereAsIfItEndedNow) {
  PutGemm(&ring_, {.sequence = 5});
  OpenScope("loss.backward", 5);
  OpenScope("aten::linear", 6);
  OpenCall();
  const trace::Trace trace = TakeOpen();
  EXPECT_THAT(ScopesOf(trace), ElementsAre("aten::linear 2147483648@6", "loss.backward 2147483648@5"));
  const std::vector<DecodedCall> calls = DecodeCalls(trace);
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[1].function, "sgemm_");
  EXPECT_EQ(calls[1].sequence, 6u + (1u << 30));  // in both, after all that have ended
  EXPECT_EQ((calls[1].end_ticks - calls[1].duration) & (UINT64_MAX >> 16), 3000u);
  EXPECT_GT(calls[1].end_ticks, 1'000'000u);  // this machine's clock
}

TEST_F(DrainOpenTest, WhatHasEndedIsNot) {
  OpenScope("ended", 1);
  slot().open_scopes = 0;
  OpenCall();
  slot().open_call = 0;
  const trace::Trace trace = TakeOpen();
  EXPECT_THAT(ScopesOf(trace), IsEmpty());
  EXPECT_THAT(DecodeCalls(trace), IsEmpty());
}

TEST_F(DrainOpenTest, AThreadThatIsGoneIsInNothing) {
  OpenCall();
  slot().owned = 0;
  EXPECT_THAT(DecodeCalls(TakeOpen()), IsEmpty());
}

TEST_F(DrainOpenTest, ARangeThatEndsElsewhereBelongsToItsThread) {
  AsynchronousRange& range = session_.header()->asynchronous_ranges[3];
  range.owner = &range;
  range.start_ticks = 2000;
  range.thread_id = 1;
  memcpy(range.name, "gloo:all_reduce", 15);
  EXPECT_THAT(ScopesOf(TakeOpen()), ElementsAre("gloo:all_reduce 0@0"));
  range.thread_id = 2;
  EXPECT_THAT(ScopesOf(TakeOpen()), IsEmpty());
}

TEST_F(DrainOpenTest, HostileMemoryEndsNothing) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    slot().open_call = random() * 0x100000001u;
    slot().open_scopes = random() % 200;
    auto* bytes = reinterpret_cast<unsigned char*>(scopes()->entries);
    for (int i = 0; i < 200; ++i) bytes[random() % sizeof scopes()->entries] = static_cast<unsigned char>(random());
    TakeOpen();
  }
}

}  // namespace drain_open_test
}  // namespace dlhook
