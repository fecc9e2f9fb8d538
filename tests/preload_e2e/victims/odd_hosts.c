// Usage: odd_hosts MODE: programs that start, leave, nest and end in unusual ways. At its end each says how many calls have returned, those
// of its children and of its handlers included.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "tiny_blas.h"

extern char** environ;
static atomic_long* made;  // shared with forked children
static jmp_buf place;
static int depth;

static void Call(void) {
  TinyGemm(2, 2, 2);
  ++*made;
}

static void* Calls(void* count) {
  for (long i = (long)count; i > 0; --i) Call();
  return NULL;
}

static void Say(void) {
  char line[32];
  if (write(1, line, (size_t)snprintf(line, sizeof line, "%ld\n", (long)*made)) < 0) abort();
}

static void WaitFor(pid_t child) {
  int status;
  if (waitpid(child, &status, 0) != child || status != 0) abort();
}

static void CallOnThread(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, Calls, (void*)3) != 0) abort();
  pthread_join(thread, NULL);
}

static void AtExit(void) {
  atexit(Say);
  atexit(CallOnThread);
  atexit(Call);
  Call();
  exit(3);
}

static void Quick(void) {
  at_quick_exit(Say);
  at_quick_exit(Call);
  Call();
  quick_exit(4);
}

static pthread_key_t key;
static void CallAgain(void* round) {
  Call();
  if ((long)round < 20) pthread_setspecific(key, (void*)((long)round + 1));
}
static void* OnlyInDestructors(void* unused) {
  pthread_setspecific(key, (void*)1);
  return NULL;
}
static void Destructors(void) {
  pthread_key_create(&key, CallAgain);
  for (int i = 0; i < 50; ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, i % 2 ? OnlyInDestructors : Calls, i % 2 ? NULL : (void*)2);
    pthread_join(thread, NULL);
  }
}

static void* CallsAndLeaves(void* unused) {
  Call();
  syscall(SYS_exit, 0);
  return NULL;
}
static void ThreadsThatLeave(void) {
  for (int i = 0; i < 300; ++i) {  // more than there are rings
    pthread_t thread;
    pthread_create(&thread, NULL, CallsAndLeaves, NULL);
    pthread_join(thread, NULL);
  }
}

static void Jump(void) { longjmp(place, 1); }
static void Jumps(void) {
  tiny_blas_inside = Jump;
  for (volatile int i = 0; i < 30; ++i) {
    if (setjmp(place) == 0) Call();
  }
  tiny_blas_inside = NULL;
  Calls((void*)10);
}

static void Nest(void) {
  if (++depth < 40) Call();
}
static void NestAndJump(void) {
  if (++depth == 40) longjmp(place, 1);
  Call();
}
static void Nested(void) {
  for (volatile int i = 0; i < 10; ++i) {
    depth = 0;
    tiny_blas_inside = i % 2 ? NestAndJump : Nest;
    if (setjmp(place) == 0) Call();
  }
  tiny_blas_inside = NULL;
  Calls((void*)10);
}

static ucontext_t scheduler, fibres[8];
static int fibre;
static void Switch(void) {
  int own = fibre;
  fibre = (own + 1) % 8;
  swapcontext(&fibres[own], fibre == 0 ? &scheduler : &fibres[fibre]);
  fibre = own;
}
static void FibreMain(void) {
  Calls((void*)50);
  for (;;) swapcontext(&fibres[fibre], &scheduler);
}
static void Fibres(void) {
  for (int i = 0; i < 8; ++i) {
    getcontext(&fibres[i]);
    fibres[i].uc_stack.ss_sp = malloc(65536);
    fibres[i].uc_stack.ss_size = 65536;
    makecontext(&fibres[i], FibreMain, 0);
  }
  tiny_blas_inside = Switch;
  for (int i = 0; i < 1600; ++i) {
    fibre = i % 8;
    swapcontext(&scheduler, &fibres[fibre]);
  }
  tiny_blas_inside = NULL;
}

static void* CallsAtOnce(void* barrier) {
  Calls((void*)5);
  pthread_barrier_wait(barrier);
  pthread_barrier_wait(barrier);
  return NULL;
}
static void ManyThreads(void) {
  enum { kThreads = 400 };
  pthread_t threads[kThreads];
  pthread_barrier_t barrier;
  pthread_attr_t small;
  pthread_barrier_init(&barrier, NULL, kThreads);
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 65536);
  for (int i = 0; i < kThreads; ++i) {
    if (pthread_create(&threads[i], &small, CallsAtOnce, &barrier) != 0) exit(77);
  }
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
}

static int CloneMain(void* unused) {
  Call();
  return 0;
}
static void Clones(void) {
  const int flags[] = {0, CLONE_VFORK, CLONE_VM, CLONE_VM | CLONE_VFORK, CLONE_FILES | CLONE_FS};
  char* stack = malloc(65536);
  for (int i = 0; i < 20; ++i) WaitFor(clone(CloneMain, stack + 65536, flags[i % 5] | SIGCHLD, NULL));
}

static void OnOverflow(int signal) {
  Call();
  Say();
  _exit(5);
}
static int Deeper(int level) {
  volatile char room[512];
  room[0] = (char)level;
  if (level < 100) Call();
  return level < 0 ? 0 : Deeper(level + 1) + room[0];
}
static void Overflow(void) {
  stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
  struct sigaction action = {.sa_handler = OnOverflow, .sa_flags = SA_ONSTACK};
  struct rlimit limit = {1 << 20, 1 << 20};
  sigaltstack(&stack, NULL);
  sigaction(SIGSEGV, &action, NULL);
  setrlimit(RLIMIT_STACK, &limit);
  Deeper(0);
}

static void* ForksWhileOthersCall(void* unused) {
  for (int i = 0; i < 20; ++i) {
    pid_t child = fork();
    if (child == 0) Calls((void*)20);
    if (child == 0) i % 2 ? _exit(0) : exit(0);
    WaitFor(child);
  }
  return NULL;
}
static void Forks(void) {
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, i == 0 ? ForksWhileOthersCall : Calls, (void*)2000);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
}

static void Spawns(void) {
  char* words[] = {"odd_hosts", "one", NULL};
  for (int i = 0; i < 20; ++i) {
    pid_t child;
    if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, words, environ) != 0) abort();
    WaitFor(child);
    ++*made;
  }
}

// Its parent waits for the end of the pipe, which only the daemon still has.
static void Daemon(void) {
  int ends[2];
  char byte;
  if (pipe(ends) != 0) abort();
  Call();
  if (fork() != 0) {
    close(ends[1]);
    if (read(ends[0], &byte, 1) != 0) abort();
    return;
  }
  setsid();
  if (fork() != 0) _exit(0);
  Calls((void*)100);
  exit(0);
}

static void Undumpable(void) {
  prctl(PR_SET_DUMPABLE, 0);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  Calls((void*)1000);
}

static void One(void) {
  TinyGemm(2, 2, 2);
  _exit(0);
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    void (*run)(void);
  } kModes[] = {{"at_exit", AtExit},
                {"quick", Quick},
                {"destructors", Destructors},
                {"threads_that_leave", ThreadsThatLeave},
                {"jumps", Jumps},
                {"nested", Nested},
                {"fibres", Fibres},
                {"many_threads", ManyThreads},
                {"clones", Clones},
                {"forks", Forks},
                {"spawns", Spawns},
                {"overflow", Overflow},
                {"undumpable", Undumpable},
                {"daemon", Daemon},
                {"one", One}};
  made = mmap(NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (size_t i = 0; i < sizeof kModes / sizeof *kModes; ++i) {
    if (strcmp(argv[1], kModes[i].name) == 0) kModes[i].run();
  }
  Say();
  return 0;
}
