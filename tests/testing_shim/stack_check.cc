// DLHOOK_TESTING_STACKS=FILE: every native stack is captured by the shim's method, walked completely, and found by libunwind. When
// the process ends, a line goes to FILE: the number of stacks; how many of them equal the complete walk, and libunwind's (-1:
// there is no libunwind); mean ns in place of each of the three ways.
// Thread: any application thread. Slow, allocates, takes the loader's lock.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <atomic>

#include "preload/base/environment.h"
#include "preload/format/clock.h"
#include "preload/format/stack_nodes.h"
#include "preload/runtime/parts.h"
#include "preload/runtime/undisturbed.h"
#include "preload/unwind/native_stack.h"
#include "preload/unwind/stack_walk.h"

namespace dlhook {
namespace {

// Their times in place are compared: they alternate as the first one, which has to bring the stack's memory into the
// cache.
enum class StackWay : uint32_t { kJoined, kWhole, kLibunwind };
constexpr uint32_t kStackWays = 3;

const char* g_file;
std::atomic<uint64_t> g_checked{0};
std::atomic<uint64_t> g_as_whole{0};
std::atomic<uint64_t> g_as_libunwind{0};
std::atomic<uint64_t> g_ticks[kStackWays];
std::atomic<uint64_t> g_timed[kStackWays];
std::atomic<uint64_t> g_ticks_per_second{0};

// Whether two nodes' stacks have the same addresses.
bool HaveSameAddresses(const SessionHeader& session, uint32_t node, uint32_t other) {
  while (node != other) {
    const StackNode* frame = FindStackNode(&session, session.mapping_bytes, node);
    const StackNode* other_frame = FindStackNode(&session, session.mapping_bytes, other);
    if (frame == nullptr || other_frame == nullptr || frame->address != other_frame->address) return false;
    node = frame->parent;
    other = other_frame->parent;
  }
  return true;
}

void CountTime(StackWay first, uint64_t ticks, uint64_t ticks_per_second) {
  // ns; longer ones waited for a processor, or were the first of their kind.
  constexpr uint64_t kLongest = 20000;
  if (ticks > ticks_per_second / kLongest) return;
  g_ticks_per_second.store(ticks_per_second);
  g_timed[static_cast<uint32_t>(first)].fetch_add(1);
  g_ticks[static_cast<uint32_t>(first)].fetch_add(ticks);
}

// Equal stacks have the same node.
uint32_t CaptureAndCheck(NativeStackThread* memory, const FrameState& start) {
  ThreadState* thread = dlhook_thread;
  auto first = static_cast<StackWay>(g_checked.load() % kStackWays);
  uint64_t begin = ReadTicks(thread->clock);
  uint64_t ticks = 0;
  uint32_t node = 0;
  uint32_t whole = 0;
  uint32_t by_libunwind = 0;
  for (uint32_t i = 0; i < kStackWays; ++i) {
    auto way = static_cast<StackWay>((static_cast<uint32_t>(first) + i) % kStackWays);
    if (way == StackWay::kJoined) {
      node = CaptureJoined(memory, start);
    } else if (way == StackWay::kWhole) {
      whole = CaptureWhole(memory, start, false);
    } else {
      by_libunwind = CaptureByLibunwind(memory, start);
    }
    if (i == 0) ticks = ReadTicks(thread->clock) - begin;
  }
  Undisturbed undisturbed;  // by a handler that forks: its child has no session to read
  if (thread->active == 0) return 0;
  g_checked.fetch_add(1);
  if (node == whole) g_as_whole.fetch_add(1);
  if (HaveSameAddresses(*thread->session, whole, by_libunwind)) g_as_libunwind.fetch_add(1);
  CountTime(first, ticks, TicksPerSecond(*thread->session));
  return whole;
}

long MeanNs(StackWay way) {
  auto index = static_cast<uint32_t>(way);
  uint64_t count = g_timed[index].load();
  return count == 0 ? 0 : static_cast<long>(g_ticks[index].load() * 1000 / count * 1000000 / g_ticks_per_second.load());
}

__attribute__((constructor)) void BeginToCheck() {
  g_file = EnvironmentVariable("DLHOOK_TESTING_STACKS");
  if (g_file != nullptr) g_capture_stack = &CaptureAndCheck;
}

__attribute__((destructor)) void TellAgreement() {
  if (g_file == nullptr || g_checked.load() == 0) return;
  long as_libunwind = HasLibunwind() ? static_cast<long>(g_as_libunwind.load()) : -1;
  int fd = open(g_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  dprintf(fd, "%lu %lu %ld %ld %ld %ld\n", g_checked.load(), g_as_whole.load(), as_libunwind, MeanNs(StackWay::kJoined),
          MeanNs(StackWay::kWhole), MeanNs(StackWay::kLibunwind));
  close(fd);
}

}  // namespace
}  // namespace dlhook
