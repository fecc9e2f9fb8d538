// Preloaded like faketime: replaces the C library's clocks by ones ten years ago and a hundred times as fast, which
// occasionally jump back by an hour.
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec* now) {
  static _Atomic unsigned asked;
  int result = (int)syscall(SYS_clock_gettime, clock, now);
  if (result == 0) now->tv_sec = (now->tv_sec - 315360000) * 100 + (asked++ / 8 % 2) * 3600;
  return result;
}
