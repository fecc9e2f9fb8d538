// What a command says of its progress: on a terminal only, after a second only, and nothing stays.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>

#include "analyzer/cli/output.h"

namespace dlhook::analyzer {
namespace {

using std::chrono::hours;

// What is written to stderr meanwhile, if that is a pseudo-terminal.
std::string OnTerminal(const std::function<void()>& act) {
  const int ours = posix_openpt(O_RDWR | O_NOCTTY);
  EXPECT_EQ(grantpt(ours), 0);
  EXPECT_EQ(unlockpt(ours), 0);
  const int theirs = open(ptsname(ours), O_RDWR | O_NOCTTY);
  const int before = dup(STDERR_FILENO);
  dup2(theirs, STDERR_FILENO);
  act();
  dup2(before, STDERR_FILENO);
  close(before);
  close(theirs);
  std::string text;
  char piece[256];
  for (ssize_t count = 0; (count = read(ours, piece, sizeof piece)) > 0;) text.append(piece, count);
  close(ours);
  return text;
}

void ShowThree(Progress::Clock::time_point start) {
  Progress progress("RUN", start);
  progress.Show("reading", 400, 1000);
  progress.Show("reading", 401, 1000);
  progress.Show("finding steps of");
}

TEST(Progress, IsShownAfterASecondAndErased) {
  const std::string text = OnTerminal([] { ShowThree(Progress::Clock::now() - hours(1)); });
  EXPECT_EQ(text, "\rreading RUN: 40%\033[K\rfinding steps of RUN\033[K\r\033[K");
}

TEST(Progress, SaysNothingBefore) {
  EXPECT_EQ(OnTerminal([] { ShowThree(Progress::Clock::now() + hours(1)); }), "");
}

TEST(Progress, IsNothingForOtherPrograms) {
  testing::internal::CaptureStderr();
  ShowThree(Progress::Clock::now() - hours(1));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace dlhook::analyzer
