// Scopes come back as they were staged, from the last to the first.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "analyzer/reader/staging.h"

namespace dlhook::analyzer {
namespace {

void ExpectTakenBack(StagedScopes& staged, const std::vector<RecordedScope>& scopes) {
  ASSERT_EQ(staged.size(), scopes.size());
  for (size_t i = scopes.size(); i-- > 0;) {
    const RecordedScope scope = staged.TakeLast();
    ASSERT_EQ(scope.end_ticks, scopes[i].end_ticks) << i;
    ASSERT_EQ(scope.duration_ticks, scopes[i].duration_ticks) << i;
    ASSERT_EQ(scope.first_sequence, scopes[i].first_sequence) << i;
    ASSERT_EQ(scope.link, scopes[i].link) << i;
    ASSERT_EQ(scope.call_count, scopes[i].call_count) << i;
    ASSERT_EQ(scope.name, scopes[i].name) << i;
    ASSERT_EQ(scope.python_stack, scopes[i].python_stack) << i;
    ASSERT_EQ(scope.kind, scopes[i].kind) << i;
  }
  EXPECT_EQ(staged.size(), 0u);
}

// One field in `rare` has a value at the edge of what fits, or far beyond.
std::vector<RecordedScope> RandomScopes(size_t count, uint32_t rare, bool in_order) {
  std::mt19937_64 random(count + rare);
  const auto pick = [&](uint64_t usual, std::vector<uint64_t> edges) {
    return random() % rare == 0 ? edges[random() % edges.size()] : random() % usual;
  };
  std::vector<RecordedScope> scopes(count);
  uint64_t end_ticks = 0;
  for (RecordedScope& scope : scopes) {
    end_ticks += pick(1000, {UINT32_MAX - 1, UINT32_MAX, uint64_t{UINT32_MAX} + 1, uint64_t{1} << 40});
    scope.end_ticks = in_order ? end_ticks : end_ticks - random() % 5000;
    scope.duration_ticks = pick(1000, {UINT32_MAX, uint64_t{UINT32_MAX} + 1, UINT64_MAX});
    scope.first_sequence = pick(100, {0, INT16_MAX, INT16_MAX + 200, UINT64_MAX});
    scope.link = static_cast<int64_t>(pick(100, {INT32_MAX, uint64_t{INT32_MAX} + 1, UINT64_MAX, uint64_t{1} << 63}));
    scope.call_count = static_cast<uint32_t>(pick(5, {4095, 4096, UINT32_MAX}));
    scope.name = static_cast<NameIndex>(pick(200, {UINT16_MAX, UINT16_MAX + 1}));
    scope.python_stack = static_cast<StackIndex>(pick(200, {UINT16_MAX - 1, UINT16_MAX, UINT16_MAX + 1, kNone}));
    scope.kind = static_cast<uint32_t>(pick(8, {StagedScopes::kMaxKind}));
  }
  return scopes;
}

TEST(StagedScopesTest, ComeBack) {
  for (const uint32_t rare : {2u, 50u, 1u << 30}) {
    const std::vector<RecordedScope> scopes = RandomScopes(300'000, rare, /*in_order=*/true);
    StagedScopes staged;
    for (const RecordedScope& scope : scopes) staged.Add(scope);
    ExpectTakenBack(staged, scopes);
    for (const RecordedScope& scope : scopes) staged.Add(scope);
    ExpectTakenBack(staged, scopes);
  }
}

TEST(StagedScopesTest, SortedByTheirEnds) {
  std::vector<RecordedScope> scopes = RandomScopes(100'000, 50, /*in_order=*/false);
  StagedScopes staged;
  for (const RecordedScope& scope : scopes) staged.Add(scope);
  staged.Sort();
  std::stable_sort(scopes.begin(), scopes.end(),
                   [](const RecordedScope& a, const RecordedScope& b) { return a.end_ticks < b.end_ticks; });
  ExpectTakenBack(staged, scopes);
}

}  // namespace
}  // namespace dlhook::analyzer
