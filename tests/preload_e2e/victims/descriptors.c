// A process that takes all file descriptors for itself: descriptors ROUNDS FILE. Each round closes all except the
// standard ones, calls, and puts FILE on every number, so that a write to a number that dlhook once had goes into FILE.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tiny_blas.h"

enum { kNumbers = 1024 };

int main(int argc, char** argv) {
  struct rlimit limit = {kNumbers, kNumbers};
  if (setrlimit(RLIMIT_NOFILE, &limit)) return 1;
  for (int round = 0; round < atoi(argv[1]); ++round) {
    for (int i = 0; i < 50; ++i) TinyGemm(2, 3, 4);
    if (close_range(3, ~0u, 0)) return 2;
    for (int i = 0; i < 50; ++i) TinyGemm(2, 3, 4);
    int file = open(argv[2], O_RDWR | O_CREAT, 0600);
    for (int number = 3; number < kNumbers; ++number)
      if (number != file && dup2(file, number) < 0) return 3;
  }
  close_range(3, ~0u, 0);
  int open_now = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder)) ++open_now;
  printf("%d open\n", open_now);
  return 0;
}
