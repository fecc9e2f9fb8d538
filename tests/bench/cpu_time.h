// CPU time of threads, of this process and of background processes, for the measured programs, which are independent of
// dlhook.
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static inline double Nanoseconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

// Processor time of all living threads of a process in nanoseconds; 0 if there is no such process.
static inline double OtherProcessNanoseconds(int pid) {
  char path[300];
  double all = 0;
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR* threads = opendir(path);
  for (struct dirent* entry; threads != NULL && (entry = readdir(threads)) != NULL;) {
    double time = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/schedstat", pid, entry->d_name);
    FILE* file = fopen(path, "r");
    if (file == NULL) continue;
    if (fscanf(file, "%lf", &time) == 1) all += time;
    fclose(file);
  }
  if (threads != NULL) closedir(threads);
  return all;
}

// Of the parent (a launcher that drains) and of the processes in BENCH_WATCH, numbers separated by spaces (daemons).
static inline double BackgroundNanoseconds(void) {
  double all = OtherProcessNanoseconds((int)getppid());
  const char* rest = getenv("BENCH_WATCH");
  for (char* end; rest != NULL; rest = end) {
    long pid = strtol(rest, &end, 10);
    if (end == rest) break;
    all += OtherProcessNanoseconds((int)pid);
  }
  return all;
}

static inline int ByValue(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

// Sorts them.
static inline double Median(double* values, int count) {
  qsort(values, (size_t)count, sizeof *values, &ByValue);
  return values[count / 2];
}
