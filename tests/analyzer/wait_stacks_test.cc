// Stacks of a blocked thread, read from outside, against what glibc's backtrace() says inside of it.
#include "analyzer/io/wait_stacks.h"

#include <execinfo.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/io/machine_files.h"
#include "tests/analyzer/byte_memory.h"

namespace dlhook::analyzer {
namespace {

// As programs are built: these tests are not optimized, and code that needs rbp ends a stack.
#define OPTIMIZED __attribute__((noinline, optimize("O2")))

struct Blocked {
  int told[2] = {}, never[2] = {};
  pid_t tid = 0;
  void* addresses[64] = {};
};

OPTIMIZED void TellAndBlock(Blocked* blocked) {
  char byte = 0;
  blocked->tid = gettid();
  if (backtrace(blocked->addresses, 64) > 0 && write(blocked->told[1], &byte, 1) == 1) {
    while (read(blocked->never[0], &byte, 1) < 0) {
    }
  }
}

// Large frames: no copy of a part of the stack holds all.
OPTIMIZED void Deeper(int depth, Blocked* blocked) {
  volatile char room[20'000];
  room[0] = static_cast<char>(depth);
  if (depth > 0) Deeper(depth - 1, blocked);
  if (depth == 0) TellAndBlock(blocked);
  room[1] = room[0];
}

OPTIMIZED void* Start(void* blocked) {
  Deeper(3, static_cast<Blocked*>(blocked));
  return nullptr;
}

TEST(WaitStacksTest, TheFramesAreThoseOfTheThreadItself) {
  Blocked blocked;
  ASSERT_EQ(pipe(blocked.told), 0);
  ASSERT_EQ(pipe(blocked.never), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, nullptr, Start, &blocked), 0);
  char byte = 0;
  ASSERT_EQ(read(blocked.told[0], &byte, 1), 1);
  std::vector<std::string> words;
  do {
    usleep(1000);
    words = absl::StrSplit(ReadSmallFile(absl::StrCat("/proc/self/task/", blocked.tid, "/syscall")),
                           absl::ByAnyChar(" \n"), absl::SkipEmpty());
    if (words.empty()) GTEST_SKIP() << "SKIPPED: wait_stacks_test: /proc/self/task/TID/syscall can't be read";
  } while (words[0] != "0");  // read
  uint64_t sp = 0, address = 0;
  ASSERT_TRUE(absl::SimpleHexAtoi(words[words.size() - 2], &sp));
  ASSERT_TRUE(absl::SimpleHexAtoi(words.back(), &address));
  const ProcessMemory memory(getpid());
  OutsideCode code(getpid());
  const OutsideFrames frames = FollowStack(address, sp, memory, &code);
  const uint64_t page = sp & ~uint64_t{4095};
  std::string copy(200'000, '\0');
  copy.resize(memory.Copy(page, copy.data(), copy.size()));
  ASSERT_EQ(write(blocked.never[1], &byte, 1), 1);
  pthread_join(thread, nullptr);

  std::vector<uint64_t> outside, inside;
  for (const OutsideFrames::Frame& frame : frames.outer) outside.push_back(frame.address);
  for (const void* one : blocked.addresses) {
    if (one != nullptr) inside.push_back(reinterpret_cast<uint64_t>(one));
  }
  // The innermost one called backtrace() there, and read() here.
  ASSERT_GE(inside.size(), 7u);
  ASSERT_FALSE(outside.empty());
  EXPECT_NEAR(static_cast<double>(outside[0]), static_cast<double>(inside[0]), 200);
  outside.erase(outside.begin());
  inside.erase(inside.begin());
  EXPECT_THAT(outside, ::testing::ElementsAreArray(inside));
  EXPECT_EQ(frames.cut, StackCut::kWhole);

  const OutsideFrames of_copy = FollowStack(address, sp, ByteMemory(page, copy), &code);
  ASSERT_EQ(of_copy.outer.size(), frames.outer.size());
  for (size_t i = 0; i < frames.outer.size(); ++i) EXPECT_EQ(of_copy.outer[i].address, frames.outer[i].address);
  const OutsideFrames of_part = FollowStack(address, sp, ByteMemory(page, copy.substr(0, 30'000)), &code);
  EXPECT_LT(of_part.outer.size(), frames.outer.size());
  EXPECT_EQ(of_part.cut, StackCut::kOutOfStack);
}

TEST(WaitStacksTest, WhatIsNoCodeEndsTheStack) {
  const ProcessMemory memory(getpid());
  OutsideCode code(getpid());
  const uint64_t stack[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto address = reinterpret_cast<uint64_t>(stack);
  const OutsideFrames frames = FollowStack(address, address, memory, &code);
  EXPECT_TRUE(frames.outer.empty());
  EXPECT_EQ(frames.cut, StackCut::kNoUnwindInfo);
}

}  // namespace
}  // namespace dlhook::analyzer
