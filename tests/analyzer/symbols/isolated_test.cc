// Work that fails.
#include "analyzer/symbols/isolated.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace dlhook::analyzer {
namespace {

TEST(Isolated, ResultsComeInOrder) {
  const std::vector<IsolatedResult> results =
      RunIsolated(3, 60, [](size_t i) { return std::string(i * 100000, static_cast<char>('a' + i)); });
  ASSERT_EQ(results.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(results[i].bytes, std::string(i * 100000, static_cast<char>('a' + i)));
    EXPECT_EQ(results[i].failure, "");
  }
}

TEST(Isolated, ACrashCostsOnePieceOnly) {
  const std::vector<IsolatedResult> results = RunIsolated(4, 60, [](size_t i) {
    if (i == 1) raise(SIGKILL);
    if (i == 2) _exit(3);
    return std::string("done");
  });
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(results[0].bytes, "done");
  EXPECT_EQ(results[1].failure, "reading it crashed (SIGKILL)");
  EXPECT_EQ(results[2].failure, "reading it failed");
  EXPECT_EQ(results[3].bytes, "done");
  EXPECT_EQ(results[3].failure, "");
}

TEST(Isolated, AHangEnds) {
  const std::vector<IsolatedResult> results = RunIsolated(2, 1, [](size_t i) {
    while (i == 0) pause();
    return std::string("done");
  });
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].failure, "reading it took more than 1 s");
  EXPECT_EQ(results[1].bytes, "done");
}

TEST(Isolated, NothingToDo) {
  EXPECT_TRUE(RunIsolated(0, 1, [](size_t) { return std::string(); }).empty());
}

}  // namespace
}  // namespace dlhook::analyzer
