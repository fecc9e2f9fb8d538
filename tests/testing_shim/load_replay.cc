// Passes recorded readings to the shim that this library is.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "preload/base/environment.h"
#include "preload/counters/counter_plan.h"
#include "tests/testing_shim/counter_replay.h"

namespace dlhook {
namespace {

void ReadNext(PerfReading* reading) {
  static thread_local ReplayPosition position;
  ReadReplay(&position, reading);
}

__attribute__((constructor)) void LoadReplay() {
  static char text[64 << 10];
  const char* path = EnvironmentVariable("DLHOOK_TESTING_COUNTERS");
  if (path == nullptr) return;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t size = read(fd, text, sizeof text);
  close(fd);
  char complaint[128] = "can't be read";
  if (size < 0 || !ParseReplay(text, static_cast<size_t>(size), complaint, sizeof complaint)) {
    dprintf(STDERR_FILENO, "DLHOOK_TESTING_COUNTERS: %s: %s\n", path, complaint);
    _exit(2);
  }
  static const CounterReplay kReplay = {&ReplayedCounters(), &ReadNext};
  g_counter_replay = &kReplay;
}

}  // namespace
}  // namespace dlhook
