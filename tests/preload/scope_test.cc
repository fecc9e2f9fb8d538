// runtime/scope.h: the calling thread's scopes, as written to its ring.
#include "preload/runtime/scope.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/preload/test_process.h"

namespace dlhook {
namespace {

using ::testing::ElementsAre;

struct Recorded {
  std::string name;
  uint64_t first_sequence;
  uint32_t call_count;
  int64_t link;
  uint8_t depth;
  uint64_t start_ticks;
  uint64_t end_ticks;
};

// The thread's records since `head`.
std::vector<Recorded> ScopesSince(ThreadState* thread, uint64_t head) {
  std::vector<Recorded> scopes;
  for (uint64_t at = head; at < thread->ring.head;) {
    auto record = reinterpret_cast<const ScopeRecord*>(thread->ring.data + (at & (thread->ring.bytes - 1)));
    if (record->header.type == RecordType::kScope) {
      scopes.push_back({std::string(reinterpret_cast<const char*>(record + 1), record->name_bytes),
                        record->first_sequence, record->call_count, record->link, record->header.depth,
                        record->start_ticks, record->end_ticks});
    }
    at += uint64_t{record->header.words} * 8;
  }
  return scopes;
}

std::vector<std::string> NamesSince(ThreadState* thread, uint64_t head) {
  std::vector<std::string> names;
  for (const Recorded& scope : ScopesSince(thread, head)) names.push_back(scope.name);
  return names;
}

void Open(ThreadState* thread, const std::string& name, const void* owner) {
  OpenScope(thread, ScopeKind::kFrameworkOp, name.data(), name.size(), 7, owner);
}

class ScopeTest : public ::testing::Test {
 protected:
  ThreadState* thread_ = Attach();
  uint64_t head_ = thread_->ring.head;
  char owners_[200] = {};
};

TEST_F(ScopeTest, InnerScopesEndFirstAndCountTheCallsThatBeganInside) {
  thread_->next_sequence = 40;
  Open(thread_, "outer", &owners_[0]);
  thread_->next_sequence = 42;  // two calls
  Open(thread_, "inner", &owners_[1]);
  thread_->next_sequence = 43;
  EXPECT_TRUE(CloseScope(thread_, &owners_[1]));
  thread_->next_sequence = 44;
  EXPECT_TRUE(CloseScope(thread_, &owners_[0]));
  const std::vector<Recorded> scopes = ScopesSince(thread_, head_);
  ASSERT_EQ(scopes.size(), 2u);
  EXPECT_EQ(scopes[0].name, "inner");
  EXPECT_EQ(scopes[0].first_sequence, 43u);
  EXPECT_EQ(scopes[0].call_count, 1u);
  EXPECT_EQ(scopes[0].depth, 1);
  EXPECT_EQ(scopes[0].link, 7);
  EXPECT_EQ(scopes[1].name, "outer");
  EXPECT_EQ(scopes[1].first_sequence, 41u);
  EXPECT_EQ(scopes[1].call_count, 4u);
  EXPECT_EQ(scopes[1].depth, 0);
  EXPECT_LE(scopes[1].start_ticks, scopes[0].start_ticks);
  EXPECT_GE(scopes[1].end_ticks, scopes[0].end_ticks);
}

TEST_F(ScopeTest, WhatWasNeverEndedEndsWithTheScopeAroundIt) {
  Open(thread_, "outer", &owners_[0]);
  Open(thread_, "left by an exception", &owners_[1]);
  Open(thread_, "and its inner one", &owners_[2]);
  EXPECT_TRUE(CloseScope(thread_, &owners_[0]));
  EXPECT_THAT(NamesSince(thread_, head_), ElementsAre("and its inner one", "left by an exception", "outer"));
  EXPECT_EQ(thread_->scope_depth, 0u);
}

// Context managers may be left in any order; the framework's scopes are nested.
TEST_F(ScopeTest, RangesOfTheUsersOutliveTheScopeAroundThem) {
  Open(thread_, "mode", &owners_[0]);
  OpenScope(thread_, ScopeKind::kUserRange, "range", 5, -1, &owners_[1]);
  Open(thread_, "op", &owners_[2]);
  EXPECT_TRUE(CloseScope(thread_, &owners_[0]));
  EXPECT_THAT(NamesSince(thread_, head_), ElementsAre("op", "mode"));
  EXPECT_EQ(thread_->scope_depth, 1u);
  Open(thread_, "next op", &owners_[3]);
  EXPECT_TRUE(CloseScope(thread_, &owners_[3]));
  EXPECT_TRUE(CloseScope(thread_, &owners_[1]));
  EXPECT_THAT(NamesSince(thread_, head_), ElementsAre("op", "mode", "next op", "range"));
  EXPECT_EQ(thread_->scope_names_used, 0u);
}

TEST_F(ScopeTest, UnknownOwnersEndNothing) {
  Open(thread_, "open", &owners_[0]);
  EXPECT_FALSE(CloseScope(thread_, &owners_[1]));
  EXPECT_EQ(thread_->scope_depth, 1u);
  CloseScope(thread_, &owners_[0]);
}

TEST_F(ScopeTest, TooDeepOnesAreCountedAndTheOthersStayWhole) {
  const uint64_t before = thread_->session->deep_scopes;
  for (int i = 0; i < 70; ++i) Open(thread_, "s" + std::to_string(i), &owners_[i]);
  EXPECT_EQ(thread_->session->deep_scopes, before + 6);
  for (int i = 69; i >= 0; --i) CloseScope(thread_, &owners_[i]);
  const std::vector<std::string> names = NamesSince(thread_, head_);
  ASSERT_EQ(names.size(), 64u);
  EXPECT_EQ(names.front(), "s63");
  EXPECT_EQ(names.back(), "s0");
}

TEST_F(ScopeTest, LongNamesAreCutAndTheRoomForNamesIsGivenBack) {
  for (int round = 0; round < 100; ++round) {
    Open(thread_, std::string(5000, 'n'), &owners_[0]);
    EXPECT_EQ(thread_->scope_depth, 1u);
    CloseScope(thread_, &owners_[0]);
  }
  const std::vector<std::string> names = NamesSince(thread_, head_);
  ASSERT_EQ(names.size(), 100u);
  EXPECT_EQ(names[99], std::string(kMaxScopeNameBytes, 'n'));
  EXPECT_EQ(thread_->scope_names_used, 0u);
}

TEST_F(ScopeTest, EndedScopesSayNothingOfCalls) {
  RecordEndedScope(thread_, ScopeKind::kGraphNode, "node", 4, 1000);
  const std::vector<Recorded> scopes = ScopesSince(thread_, head_);
  ASSERT_EQ(scopes.size(), 1u);
  EXPECT_EQ(scopes[0].end_ticks - scopes[0].start_ticks, 1000u);
  EXPECT_EQ(scopes[0].first_sequence, 0u);
  EXPECT_EQ(scopes[0].link, -1);
}

TEST_F(ScopeTest, AForkedChildHasNoOpenScopes) {
  Open(thread_, "open in the parent", &owners_[0]);
  InChild([] {
    ThreadState* thread = Attach();
    ASSERT_NE(thread, nullptr);
    EXPECT_EQ(thread->scope_depth, 0u);
  });
  CloseScope(thread_, &owners_[0]);
}

}  // namespace
}  // namespace dlhook
