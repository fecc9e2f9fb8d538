// What a look at a thread says of it, on threads of this process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "preload/drain/proc_counters.h"

namespace dlhook {
namespace {

// A thread that reads an empty pipe until it is closed.
class Reader {
 public:
  Reader() {
    EXPECT_EQ(pipe(ends_), 0);
    thread_ = std::thread([this] {
      tid_ = static_cast<uint32_t>(syscall(SYS_gettid));
      char byte;
      EXPECT_EQ(read(ends_[0], &byte, 1), 0);
    });
    while (tid_ == 0) usleep(1000);
    StartProcFiles(static_cast<uint32_t>(getpid()), tid_, &files_);
    char text[1024];
    auto place = BlockedIn::kOther;
    while (!ReadProcFile(&files_, ProcFile::kSyscall, text, sizeof text) || !ParseBlockedIn(text, &place)) usleep(1000);
  }
  ~Reader() {
    CloseProcFiles(&files_);
    close(ends_[1]);
    thread_.join();
    close(ends_[0]);
  }

  ProcFiles* files() { return &files_; }
  uint32_t tid() const { return tid_; }

 private:
  int ends_[2] = {-1, -1};
  std::atomic<uint32_t> tid_{0};
  std::thread thread_;
  ProcFiles files_;
};

void Note(void* seen, const BlockedLook& look) {
  static_cast<std::vector<BlockedLook>*>(seen)->push_back(look);
  EXPECT_NE(std::string(look.system_call).find(' '), std::string::npos);
}

TEST(ThreadLookTest, StandsForTheTimeSinceTheOneBefore) {
  Reader reader;
  std::vector<BlockedLook> seen;
  ThreadStates states = {};
  const auto look = [&](uint64_t since_ticks, uint64_t ticks) {
    LookAtThread(reader.files(), {reader.tid(), 3, since_ticks, ticks, 5}, 1000, {Note, &seen}, &states);
  };
  look(0, 70);  // the first
  EXPECT_TRUE(seen.empty());
  EXPECT_THAT(states.blocked_ns, testing::Each(0u));
  look(70, 80);
  look(80, 85);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(std::pair(seen[1].since_ticks, seen[1].ticks), std::pair(uint64_t{80}, uint64_t{85}));
  EXPECT_EQ(seen[1].blocked_in, BlockedIn::kTransfer);
  EXPECT_EQ(states.blocked_ns[static_cast<uint32_t>(BlockedIn::kTransfer)], 15'000'000u);
  EXPECT_EQ(std::accumulate(std::begin(states.blocked_ns), std::end(states.blocked_ns), uint64_t{0}), 15'000'000u);
}

TEST(ThreadLookTest, AThreadThatRunsIsNotBlocked) {
  std::atomic<uint32_t> tid{0};
  std::atomic<bool> end{false};
  std::thread busy([&] {
    tid = static_cast<uint32_t>(syscall(SYS_gettid));
    while (!end) continue;
  });
  while (tid == 0) usleep(1000);
  ProcFiles files;
  StartProcFiles(static_cast<uint32_t>(getpid()), tid, &files);
  std::vector<BlockedLook> seen;
  ThreadStates states = {};
  LookAtThread(&files, {tid, 3, 70, 80, 5}, 1000, {Note, &seen}, &states);
  CloseProcFiles(&files);
  end = true;
  busy.join();
  EXPECT_TRUE(seen.empty());
  EXPECT_THAT(states.blocked_ns, testing::Each(0u));
}

TEST(ThreadLookTest, AReadingHasAValueForEachState) {
  ThreadStates states = {2, {3, 4, 5, 6, 7, 8, 9}};
  const CounterReading reading = StatesReading(10, 1, states);
  EXPECT_EQ(reading.ticks, 10u);
  EXPECT_EQ(std::vector<uint64_t>(reading.values, reading.values + kThreadStates),
            (std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace dlhook
