#include "preload/base/spin_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace dlhook {
namespace {

// A holder that is not scheduled for long must not let others in.
TEST(SpinLockTest, ManyWaitForASlowHolder) {
  SpinLock lock;
  int counter = 0;
  std::vector<std::thread> threads;
  {
    SpinLockHolder holder(&lock);
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        SpinLockHolder inner(&lock);
        ++counter;
      });
    }
    usleep(300 * 1000);
    EXPECT_EQ(counter, 0);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, 8);
}

TEST(SpinLockTest, AForkedChildTakesOverALockOfItsParent) {
  SpinLock lock;
  SpinLockHolder holder(&lock);
  const pid_t child = fork();
  if (child == 0) {
    alarm(3);  // before it would give up waiting
    SpinLockHolder own(&lock);
    _exit(ProcessId() == static_cast<uint32_t>(getpid()) ? 7 : 8);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(SpinLockTest, AHandlerThatInterruptsTheHolderGoesOnAtOnce) {
  SpinLock lock;
  SpinLockHolder holder(&lock);
  alarm(3);  // before it would give up waiting
  { SpinLockHolder of_handler(&lock); }
  alarm(0);
  EXPECT_NE(lock.holder.load(), 0u);  // still the interrupted one's
}

}  // namespace
}  // namespace dlhook
