// A process with known counters: counted COMMAND [NUMBER]. Prints its getrusage at the end: ns of processor time, minor
// and major faults, voluntary and involuntary switches.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tiny_blas.h"

static void Touch(size_t pages) {
  char* memory = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  madvise(memory, pages * 4096, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < pages; ++i) ((volatile char*)memory)[i * 4096] = 1;
  munmap(memory, pages * 4096);
}

static void Work(void) {
  for (int i = 0; i < 20; ++i) TinyGemm(2, 3, 4);
  Touch(100);
  for (int i = 0; i < 20; ++i) TinyGemm(2, 3, 4);
}

static void* Worker(void* argument) {
  Work();
  return argument;
}

static pthread_barrier_t all_have_worked;

// All threads are alive at once.
static void* WorkerBesideOthers(void* argument) {
  Work();
  pthread_barrier_wait(&all_have_worked);
  return argument;
}

// No recorded call: 2000 faults, and then enough time to be sampled.
static void* Silent(void* argument) {
  for (int i = 0; i < 20; ++i) {
    Touch(100);
    usleep(5000);
  }
  usleep(300 * 1000);
  return argument;
}

static void InThreads(int count, void* (*body)(void*)) {
  pthread_t* threads = calloc((size_t)count, sizeof *threads);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 << 10);
  for (int i = 0; i < count; ++i) {
    if (pthread_create(&threads[i], &small, body, NULL)) exit(9);
  }
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  free(threads);
}

static int IsPerf(int fd) {
  uint64_t id;
  return ioctl(fd, PERF_EVENT_IOC_ID, &id) == 0;
}

// Puts a pipe with data on every perf descriptor, calls, and checks that the data is still there. Returns their number.
static int TakeDescriptors(void) {
  int taken = 0;
  DIR* folder = opendir("/proc/self/fd");
  for (struct dirent* entry; (entry = readdir(folder));) {
    int fd = atoi(entry->d_name);
    if (entry->d_name[0] == '.' || !IsPerf(fd)) continue;
    int ends[2];
    char text[64] = "";
    const char* ours = "sixty-four bytes would be a reading of a group, but these are ours";
    if (pipe2(ends, O_NONBLOCK) || write(ends[1], ours, 63) != 63) exit(2);
    if (dup2(ends[0], fd) != fd) exit(3);
    Work();
    if (read(fd, text, sizeof text) != 63 || strncmp(text, "sixty-four", 10)) exit(4);
    close(ends[0]);
    close(ends[1]);
    ++taken;
  }
  closedir(folder);
  return taken;
}

static void OnAlarm(int number) {
  (void)number;
  TinyGemm(5, 6, 7);
}

// A signal every 100 us whose handler calls, while calls and their readings are made.
static void UnderSignals(void) {
  struct sigaction action = {.sa_handler = OnAlarm};
  sigaction(SIGALRM, &action, NULL);
  struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  for (int i = 0; i < 100; ++i) Work();
  setitimer(ITIMER_REAL, &never, NULL);
}

static volatile int forks, broken;
static int wanted_forks;

static void AlarmSoon(void) {
  struct itimerval soon = {{0, 0}, {0, 500}};
  setitimer(ITIMER_REAL, &soon, NULL);
}

// The child continues where the parent was interrupted.
static void ForkOnAlarm(int number) {
  (void)number;
  int status;
  pid_t child = fork();
  if (child == 0) return;
  waitpid(child, &status, 0);
  ++forks;
  broken += status != 0;
  if (forks < wanted_forks) AlarmSoon();
}

// Returns how many of its children never left the call during which they were forked.
static int UnderForks(int wanted) {
  struct sigaction action = {.sa_handler = ForkOnAlarm, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  pid_t parent = getpid();
  wanted_forks = wanted;
  AlarmSoon();
  while (forks < wanted) {
    TinyGemm(2, 3, 4);
    if (getpid() != parent) _exit(0);
  }
  return broken;
}

// Successive processes with silent threads, all alive at once.
static void Family(int count) {
  int is_child = 0;
  for (int i = 0; i < count && !is_child; ++i) {
    usleep(60 * 1000);
    is_child = fork() == 0;
  }
  if (is_child) Work();
  if (is_child) InThreads(12, Silent);
  while (!is_child && wait(NULL) > 0) continue;
}

static void CloseAll(void) {
  for (int fd = 3; fd < 4096; ++fd) close(fd);
}

int main(int argc, char** argv) {
  const char* command = argv[1];
  int number = argc > 2 ? atoi(argv[2]) : 1;
  Work();
  if (!strcmp(command, "threads")) InThreads(number, Worker);
  if (!strcmp(command, "together")) {
    pthread_barrier_init(&all_have_worked, NULL, (unsigned)number);
    InThreads(number, WorkerBesideOthers);
  }
  if (!strcmp(command, "silent")) InThreads(number, Silent);
  if (!strcmp(command, "descriptors")) printf("%d taken\n", TakeDescriptors());
  if (!strcmp(command, "signals")) UnderSignals();
  if (!strcmp(command, "forks")) printf("%d broken\n", UnderForks(number));
  if (!strcmp(command, "family")) Family(number);
  if (!strcmp(command, "daemon")) CloseAll();
  if (!strcmp(command, "kill")) {
    usleep(200 * 1000);
    raise(SIGKILL);
  }
  if (!strcmp(command, "exec")) execv(argv[0], (char*[]){argv[0], "plain", NULL});
  if (!strcmp(command, "fork")) {
    pid_t child = fork();
    if (child == 0) Touch(500);
    if (child != 0) waitpid(child, NULL, 0);
  }
  Work();
  struct rusage all;
  struct timespec cpu;
  getrusage(RUSAGE_SELF, &all);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  char line[128];
  int size = snprintf(line, sizeof line, "%d %lld %ld %ld %ld %ld\n", getpid(), cpu.tv_sec * 1000000000ll + cpu.tv_nsec,
                      all.ru_minflt, all.ru_majflt, all.ru_nvcsw, all.ru_nivcsw);
  return write(1, line, (size_t)size) == size ? 0 : 1;
}
