// Definitions: they can be read back unchanged, from many threads, in both kinds of memory, up to the last byte, and
// separately in a child.
#include "preload/runtime/definitions.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "tests/preload/test_process.h"

namespace dlhook {
namespace {

uint32_t DefineText(const std::string& text, DefinitionKind kind = DefinitionKind::kKernel) {
  return Define(kind, text.data(), text.size());
}

TEST(DefinitionsTest, WithoutASessionThereIsNoNumber) {
  InChild([] {
    EXPECT_EQ(DefineText("kernel"), 0u);
    ASSERT_NE(Attach(), nullptr);
    EXPECT_NE(DefineText("kernel"), 0u);
    GetProcess()->phase.store(kFinished);
    EXPECT_EQ(DefineText("late"), 0u);
  });
}

TEST(DefinitionsTest, RoundTrip) {
  ASSERT_NE(Attach(), nullptr);
  errno = 17;
  const uint32_t kernel = DefineText("_Z3addPf");
  const uint32_t empty = DefineText("");
  const uint32_t plan = DefineText(std::string("\0\1\2", 3), DefinitionKind::kCudnnPlan);
  EXPECT_EQ(errno, 17);
  EXPECT_EQ(DefinitionText(kernel, DefinitionKind::kKernel), "_Z3addPf");
  EXPECT_EQ(DefinitionText(empty, DefinitionKind::kKernel), "");
  EXPECT_EQ(DefinitionText(plan, DefinitionKind::kCudnnPlan), std::string("\0\1\2", 3));
  EXPECT_EQ(DefinitionText(plan, DefinitionKind::kKernel), "(none)");
  EXPECT_EQ(DefinitionText(0, DefinitionKind::kKernel), "(none)");
}

TEST(DefinitionsTest, ALongNameIsCut) {
  ASSERT_NE(Attach(), nullptr);
  const uint32_t number = DefineText(std::string(kMaxDefinitionBytes + 1, 'n'));
  EXPECT_EQ(DefinitionText(number, DefinitionKind::kKernel), std::string(kMaxDefinitionBytes, 'n'));
}

// A truncated serialized message is useless.
TEST(DefinitionsTest, ALongPlanIsRefusedAndCounted) {
  ASSERT_NE(Attach(), nullptr);
  const uint64_t refused = GetProcess()->session->refused_definitions;
  EXPECT_EQ(DefineText(std::string(kMaxDefinitionBytes + 1, 'p'), DefinitionKind::kCudnnPlan), 0u);
  EXPECT_EQ(GetProcess()->session->refused_definitions, refused + 1);
  EXPECT_NE(DefineText(std::string(kMaxDefinitionBytes, 'p'), DefinitionKind::kCudnnPlan), 0u);
}

// Texts that differ in every byte between threads and in length between calls, long enough for threads to meet.
std::string TextOf(size_t thread, size_t i) {
  return std::string(3000 + i, static_cast<char>('a' + thread)) + std::to_string(i);
}

void DefineFromManyThreads() {
  constexpr size_t kThreads = 4, kEach = 200;
  std::vector<std::vector<uint32_t>> numbers(kThreads);
  std::vector<std::thread> threads;
  std::atomic<size_t> ready{0};
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::string> texts;
      for (size_t i = 0; i < kEach; ++i) texts.push_back(TextOf(t, i));
      for (++ready; ready < kThreads;) sched_yield();
      for (const std::string& text : texts) numbers[t].push_back(DefineText(text));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<uint32_t> all;
  for (size_t t = 0; t < kThreads; ++t) {
    for (size_t i = 0; i < kEach; ++i) {
      ASSERT_TRUE(all.insert(numbers[t][i]).second);
      ASSERT_EQ(DefinitionText(numbers[t][i], DefinitionKind::kKernel), TextOf(t, i));
    }
  }
}

TEST(DefinitionsTest, ManyThreads) {
  ASSERT_NE(Attach(), nullptr);
  for (int round = 0; round < 30 && !HasFatalFailure(); ++round) {
    GetProcess()->session->definitions_bytes = 0;
    DefineFromManyThreads();
  }
}

// Up to the last byte, then refused and counted; in a file, only the used pages are allocated.
void FillRegion() {
  ASSERT_NE(Attach(), nullptr);
  SessionHeader* session = GetProcess()->session;
  const std::string text(kMaxDefinitionBytes - sizeof(Definition), 'x');
  const uint64_t fitting = kDefinitionsCapacity / kMaxDefinitionBytes;
  for (uint64_t i = 0; i < fitting; ++i) {
    const uint32_t number = DefineText(text);
    ASSERT_EQ(DefinitionText(number, DefinitionKind::kKernel), text) << i;
  }
  EXPECT_EQ(session->definitions_bytes, kDefinitionsCapacity);
  EXPECT_EQ(session->refused_definitions, 0u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(DefineText("one more"), 0u);
  EXPECT_EQ(session->refused_definitions, 3u);
}

TEST(DefinitionsTest, AFullRegionRefusesAndCounts) { InChild(&FillRegion); }

TEST(DefinitionsTest, InAFileAsManyPagesAsAreUsed) {
  g_session_file = ::testing::TempDir() + "dlhook_definitions";
  InChild([] {
    ASSERT_NE(Attach(), nullptr);
    const auto blocks = [] {
      struct stat status = {};
      stat(g_session_file.c_str(), &status);
      return status.st_blocks * 512;
    };
    const auto before = blocks();
    EXPECT_NE(DefineText("first"), 0u);
    const auto first = blocks();
    EXPECT_GE(first - before, 64 << 10);
    EXPECT_LT(first - before, 1 << 20);
    unlink(g_session_file.c_str());  // allocation no longer needs the file's name
    EXPECT_NE(DefineText("second"), 0u);
  });
  InChild(&FillRegion);
  unlink(g_session_file.c_str());
  // A file that can't be extended has no free pages: refused, no crash.
  InChild([] {
    ASSERT_NE(Attach(), nullptr);
    ASSERT_EQ(truncate(g_session_file.c_str(), kSessionDataStart), 0);
    unlink(g_session_file.c_str());
    EXPECT_EQ(DefineText("first"), 0u);
    EXPECT_EQ(GetProcess()->session->refused_definitions, 1u);
  });
  g_session_file.clear();
}

TEST(DefinitionsTest, AForkedChildStartsEmpty) {
  ASSERT_NE(Attach(), nullptr);
  const uint32_t parents = DefineText("the parent's");
  GetProcess()->definitions_lock.holder.store(uint64_t{ProcessId()} << 32);  // of no thread of the child
  InChild([] {
    EXPECT_EQ(DefineText("before the child has a session"), 0u);
    ASSERT_NE(Attach(), nullptr);
    EXPECT_EQ(GetProcess()->session->definitions_bytes, 0u);
    const uint32_t number = DefineText("the child's");
    EXPECT_EQ(number, 1u);
    EXPECT_EQ(DefinitionText(number, DefinitionKind::kKernel), "the child's");
  });
  GetProcess()->definitions_lock.holder.store(0);
  EXPECT_EQ(DefinitionText(parents, DefinitionKind::kKernel), "the parent's");
}

}  // namespace
}  // namespace dlhook
