// Sampling counters over time, on the threads of this process: which files it keeps open, and the threads of its
// readings.
#include "preload/drain/counter_sampler.h"

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "preload/drain/proc_counters.h"
#include "preload/format/identity.h"
#include "tests/preload/session_fixture.h"

namespace dlhook {
namespace {

int OpenDescriptors() {
  int count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t now) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit limit = {now, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~DescriptorLimit() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

TEST(DescriptorBudgetTest, AQuarterOfAllForAllTogether) {
  const DescriptorLimit limit(100);
  EXPECT_TRUE(TakeDescriptors(20));
  EXPECT_FALSE(TakeDescriptors(6));
  EXPECT_TRUE(TakeDescriptors(5));
  EXPECT_FALSE(TakeDescriptors(1));
  GiveBackDescriptors(25);
  EXPECT_TRUE(TakeDescriptors(25));
  GiveBackDescriptors(25);
}

// Threads that work until they are stopped.
class Workers {
 public:
  explicit Workers(int count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        while (!end_) std::this_thread::sleep_for(std::chrono::microseconds(200));
      });
    }
  }
  ~Workers() {
    end_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> end_{false};
  std::vector<std::thread> threads_;
};

// Like `dlhook run` for two processes, with events of perf and files of /proc.
TEST(CounterSamplerTest, SeveralKeepTogetherAQuarterOfTheDescriptors) {
  const Workers workers(30);
  const DescriptorLimit limit(120);
  TestSession sessions[2] = {TestSession(65536), TestSession(65536)};
  MemorySink sinks[2];
  Drain drains[2];
  CounterSampler samplers[2];
  const int before = OpenDescriptors();
  for (int i = 0; i < 2; ++i) {
    SessionHeader* session = sessions[i].header();
    session->pid = static_cast<uint32_t>(getpid());
    session->pid_namespace = PidNamespace();
    session->counters_interval_ms = 1;
    session->counters_at_interval_only = 1;
    session->next_thread_id = 1;
    strcpy(session->counters, "task-clock,minor-faults,context-switches,cpu-clock");
    ASSERT_TRUE(drains[i].Open(session, sessions[i].bytes(), &sinks[i]));
    samplers[i].Open(session, false, &drains[i]);
  }
  for (int step = 0; step < 20; ++step) {
    for (int i = 0; i < 2; ++i) samplers[i].Finish(&drains[i]);  // a sample even if none is due
    EXPECT_LE(OpenDescriptors() - before, 120 / 4 + 2);          // one each is the folder of threads
    EXPECT_GT(OpenDescriptors() - before, 10);
    usleep(2000);
  }
  for (CounterSampler& sampler : samplers) sampler.Close();
  EXPECT_LE(OpenDescriptors(), before);
}

}  // namespace
}  // namespace dlhook
