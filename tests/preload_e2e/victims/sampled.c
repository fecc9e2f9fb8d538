// Programs that sampling must neither disturb nor lose. Computes where its functions' names say; ends with "done".
//   victim_sampled MODE [NUMBER]
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t sink;

static int64_t cpu_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// All factors need the same instruction, so that the functions take equally long.
#define COMPUTES(name, factor)                                          \
  __attribute__((noinline, noclone)) static void name(void) {           \
    for (volatile int i = 0; i < 100000; ++i) sink = sink * factor + 1; \
  }
COMPUTES(often, 1000003)
COMPUTES(seldom, 1000033)

// Three times as much in often() as in seldom().
__attribute__((noinline, noclone)) static void compute(int ms) {
  for (int64_t end = cpu_ms() + ms; cpu_ms() < end;) {
    for (int i = 0; i < 3; ++i) often();
    seldom();
  }
}

// A network with a function for each kind of layer, named as darknet's are.
COMPUTES(forward_convolutional_layer, 1000037)
COMPUTES(forward_maxpool_layer, 1000039)
COMPUTES(forward_connected_layer, 1000081)
COMPUTES(backward_convolutional_layer, 1000099)

__attribute__((noinline, noclone)) static void net(int ms) {
  static void (*const kLayers[])(void) = {forward_convolutional_layer, forward_maxpool_layer,
                                          forward_convolutional_layer, forward_connected_layer,
                                          backward_convolutional_layer};
  unsigned random = 1;  // in turn, they would keep step with the kernel's ticks
  for (int64_t end = cpu_ms() + ms; cpu_ms() < end;) kLayers[(random = random * 1103515245 + 12345) / 65536 % 5]();
}

static volatile int handled;
static void handle(int number) { handled += number == SIGURG; }

static void check(int is_right, const char* what) {
  if (is_right) return;
  printf("wrong: %s\n", what);
  exit(1);
}

static void own_handler(void) {
  struct sigaction now;
  check(sigaction(SIGURG, NULL, &now) == 0 && now.sa_handler == SIG_DFL, "the default");
  check(signal(SIGURG, handle) == SIG_DFL, "what signal returns");
  check(sigaction(SIGURG, NULL, &now) == 0 && now.sa_handler == handle, "what was set");
  printf("flags %x\n", (unsigned)now.sa_flags);
  for (int i = 0; i < 200; ++i) {
    raise(SIGURG);
    compute(1);
  }
  check(handled == 200, "handled signals");
  struct sigaction once = {.sa_handler = handle, .sa_flags = SA_RESETHAND};
  check(sigaction(SIGURG, &once, &now) == 0 && now.sa_handler == handle, "the handler before");
  raise(SIGURG);
  raise(SIGURG);
  check(handled == 201 && signal(SIGURG, SIG_IGN) == SIG_DFL, "a handler that is for one signal");
}

static void defaults(void) {
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
}

static void block(int how) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(how, &all, NULL);
}

static void* brief(void* argument) {
  often();
  return argument;
}

static void threads(int count) {
  for (int i = 0; i < count; ++i) {
    pthread_t thread;
    void* result;
    check(pthread_create(&thread, NULL, brief, &sink) == 0 && pthread_join(thread, &result) == 0, "a thread");
    check(result == &sink, "its argument");
  }
}

// All at the same time.
static pthread_barrier_t all_run;
static void* wait_for_all(void* argument) {
  pthread_barrier_wait(&all_run);
  return brief(argument);
}

static void crowd(int count) {
  pthread_t* together = calloc((size_t)count, sizeof *together);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 128 << 10);
  pthread_barrier_init(&all_run, NULL, (unsigned)count);
  for (int i = 0; i < count; ++i)
    check(pthread_create(&together[i], &attributes, wait_for_all, &sink) == 0, "a thread");
  for (int i = 0; i < count; ++i) {
    void* result;
    check(pthread_join(together[i], &result) == 0 && result == &sink, "what a thread returns");
  }
  free(together);
}

// Another profiler: its own signal, counted by CPU time as ours is.
static volatile int ticks;
static void tick(int number) { ticks += number == SIGPROF; }

static void profiled(int ms) {
  struct itimerval every = {{0, 10000}, {0, 10000}}, none = {{0, 0}, {0, 0}};
  check(signal(SIGPROF, tick) == SIG_DFL && setitimer(ITIMER_PROF, &every, NULL) == 0, "a timer");
  compute(ms);
  setitimer(ITIMER_PROF, &none, NULL);
  // Beside other programs the kernel's ticks give fewer, for dlhook's samples, too.
  check(ticks > ms / 10 / 10 && ticks < ms / 10 * 13 / 10, "the other profiler's signals");
}

// Computes in a handler, on a small stack of its own, and leaves it by a jump.
static sigjmp_buf outside;
static void compute_and_jump(int number) {
  compute(100);
  if (number == SIGUSR2) siglongjmp(outside, 1);
}

static void in_handler(void) {
  static char memory[16 << 10];
  stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory}, now;
  struct sigaction action = {.sa_handler = compute_and_jump, .sa_flags = SA_ONSTACK};
  sigfillset(&action.sa_mask);
  sigdelset(&action.sa_mask, SIGURG);
  check(sigaltstack(&stack, NULL) == 0, "its signal stack");
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGUSR2, &action, NULL);
  for (int i = 0; i < 2; ++i) {
    raise(SIGUSR1);
    if (sigsetjmp(outside, 1) == 0) raise(SIGUSR2);
  }
  check(sigaltstack(NULL, &now) == 0 && now.ss_sp == memory && now.ss_flags == 0, "its signal stack afterwards");
}

static void* wait_for(void* descriptors) {
  int* ends = descriptors;
  char byte;
  struct pollfd polled = {ends[0], POLLIN, 0};
  check(poll(&polled, 1, -1) == 1 && read(ends[0], &byte, 1) == 1, "an interrupted call");
  return NULL;
}

static void waits(void) {
  int ends[2];
  pthread_t thread;
  struct timespec nap = {0, 1000000};
  check(pipe(ends) == 0 && pthread_create(&thread, NULL, wait_for, ends) == 0, "a thread");
  for (int i = 0; i < 100; ++i) {
    compute(3);
    check(nanosleep(&nap, NULL) == 0, "an interrupted nap");
  }
  check(write(ends[1], "x", 1) == 1 && pthread_join(thread, NULL) == 0, "the end");
}

static void forks(const char* self) {
  pid_t child = fork();
  if (child == 0) {
    compute(200);
    execl(self, self, "computes", "200", (char*)NULL);
  }
  int status;
  check(child > 0 && waitpid(child, &status, 0) == child && status == 0, "the child");
  child = vfork();
  if (child == 0) {
    signal(SIGURG, handle);  // its own affair: the parent's is what it was
    compute(100);
    _exit(7);
  }
  struct sigaction now;
  check(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7, "the child of vfork");
  check(sigaction(SIGURG, NULL, &now) == 0 && now.sa_handler == SIG_DFL, "what a child of vfork set");
}

// As the products that oneDNN compiles: computes for a while with the stack pointer in the heap, below which lies other data.
static void* heap_stack(void* unused) {
  enum { kBytes = 1 << 16, kRedZone = 128 };
  char* memory = calloc(2, kBytes);
  for (int64_t end = cpu_ms() + 300; cpu_ms() < end;) {
    uint64_t rounds = 10 * 1000 * 1000;
    asm volatile("mov %%rsp, %%rbx\n mov %1, %%rsp\n 0: dec %0\n jnz 0b\n mov %%rbx, %%rsp"
                 : "+r"(rounds)
                 : "r"(memory + kBytes)
                 : "rbx", "cc", "memory");
  }
  int others = 0;
  for (int i = 0; i < kBytes - kRedZone; ++i) others += memory[i] != 0;
  check(others == 0, "memory below a stack pointer in the heap");
  free(memory);
  return unused;
}

static void heap_stacks(void) {
  pthread_t thread;
  heap_stack(NULL);
  pthread_create(&thread, NULL, heap_stack, NULL);
  pthread_join(thread, NULL);
}

// An interpreter that is loaded and begins in a forked child, which has computed before.
static void child_python(const char* library, const char* program) {
  if (fork() != 0) {
    int status;
    check(wait(&status) > 0 && status == 0, "child");
    return;
  }
  compute(100);
  void* python = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (python == NULL) _exit(3);
  ((void (*)(int))dlsym(python, "Py_InitializeEx"))(0);
  exit(((int (*)(const char*))dlsym(python, "PyRun_SimpleString"))(program));
}

int main(int argc, char** argv) {
  const char* mode = argv[1];
  int number = argc > 2 ? atoi(argv[2]) : 400;
  int is_blocked = strcmp(mode, "blocks") == 0;
  if (strcmp(mode, "own_handler") == 0) own_handler();
  if (strcmp(mode, "defaults") == 0) defaults();
  if (strcmp(mode, "threads") == 0) threads(number);
  if (strcmp(mode, "crowd") == 0) crowd(number);
  if (strcmp(mode, "profiled") == 0) profiled(number);
  if (strcmp(mode, "in_handler") == 0) in_handler();
  if (strcmp(mode, "waits") == 0) waits();
  if (strcmp(mode, "forks") == 0) forks(argv[0]);
  if (strcmp(mode, "heap_stack") == 0) heap_stacks();
  if (is_blocked) block(SIG_BLOCK);
  if (strcmp(mode, "net") == 0) net(number);
  if (strcmp(mode, "python") == 0) child_python(argv[2], argv[3]);
  int is_number_of_threads = strcmp(mode, "threads") == 0 || strcmp(mode, "crowd") == 0;
  compute(is_number_of_threads ? 100 : strcmp(mode, "net") == 0 ? 0 : number);
  if (is_blocked) block(SIG_UNBLOCK);
  puts("done");
  return 0;
}
