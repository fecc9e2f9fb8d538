// Makes products from stacks of all kinds, and prints after each the return addresses that it knows to be on its stack,
// innermost first: what a profiler must find. "-" stands for an address that is not known, "!" before one for an
// interrupted instruction.
// stacks MODE    MODE: plain, deep N, threads, fork, fork_inside, fork_thread, context, switched, signal, alternate,
//                      untold, jit, jit_fork LIBRARY, guessed, smashed
// Exits with 2 if a forked child failed, 3 if a product changed errno.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "tiny_blas.h"

#define NOINLINE __attribute__((noinline, noclone))
#define MAX_LEVELS 8192

static __thread uint64_t g_return[MAX_LEVELS];  // of the active functions
static __thread char g_mark[MAX_LEVELS];
static __thread int g_level;
static __thread int g_base;  // the first one on the current stack
static int g_is_silent;

#define ENTER() (g_mark[g_level] = ' ', g_return[g_level++] = (uint64_t)__builtin_return_address(0))
#define LEAVE() (--g_level)
static void Push(char mark, uint64_t address) {
  g_mark[g_level] = mark;
  g_return[g_level++] = address;
}

static void Print(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  if (g_is_silent) return;
  pthread_mutex_lock(&lock);
  printf("%d", getpid());
  for (int i = g_level; i-- > g_base;) printf(g_mark[i] == '-' ? " -" : " %.*s%lx", g_mark[i] == '!', "!", g_return[i]);
  puts("");
  fflush(stdout);
  pthread_mutex_unlock(&lock);
}

NOINLINE static void Product(int n) {
  ENTER();
  errno = 4242;
  TinyGemm(n, n, n);
  if (errno != 4242) _exit(3);
  Print();
  LEAVE();
}
NOINLINE static void Aligned(int n) {  // the compiler stores the caller's stack pointer elsewhere
  ENTER();
  __attribute__((aligned(64))) volatile char room[256];
  room[n] = 1;
  Product(n + room[n]);
  LEAVE();
}
NOINLINE static void Sized(int n) {  // needs a frame pointer
  ENTER();
  volatile char* room = __builtin_alloca((size_t)n * 24);
  room[0] = 1;
  Product(n);
  room[1] = 1;
  LEAVE();
}
NOINLINE static void Outer(int n) {
  ENTER();
  Product(n);
  n % 2 ? Aligned(n) : Sized(n);
  n % 3 ? Sized(n + 1) : Aligned(n + 1);
  LEAVE();
}
NOINLINE static void Recurse(int depth) {
  ENTER();
  depth > 1 ? Recurse(depth - 1) : Product(1);
  LEAVE();
  __asm__ volatile("");  // no tail call
}

static void* ThreadMain(void* rounds) {
  for (int i = 1; i <= *(int*)rounds; ++i) Outer(i);
  return NULL;
}
NOINLINE static void Plain(int rounds) {
  ENTER();
  for (int i = 1; i <= rounds; ++i) Outer(i);
  LEAVE();
}
static void Threads(void) {
  pthread_t threads[8];
  int rounds = 5;
  for (int i = 0; i < 8; ++i) pthread_create(&threads[i], NULL, ThreadMain, &rounds);
  for (int i = 0; i < 8; ++i) pthread_join(threads[i], NULL);
}
static void WaitForChild(void) {
  int status = 0;
  wait(&status);
  if (status != 0) _exit(2);
}
NOINLINE static void Fork(void) {
  ENTER();
  Outer(1);
  if (fork() == 0) {
    Outer(1);
    _exit(0);
  }
  WaitForChild();
  LEAVE();
}
static void ForkHere(void) {
  tiny_blas_inside = NULL;
  g_is_silent = fork() == 0;  // the child's open call is its parent's
}
NOINLINE static void ForkInside(void) {
  ENTER();
  tiny_blas_inside = ForkHere;
  Product(1);
  if (g_is_silent) {
    g_is_silent = 0;
    Outer(1);
    _exit(0);
  }
  WaitForChild();
  LEAVE();
}

// From now on process_vm_readv fails on this thread.
static void DenyCopies(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {4, code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) fputs("no filter\n", stderr);
}
static void* ForkingThread(void* unused) {
  Outer(1);
  if (fork() == 0) {  // the child's only thread runs on this thread's stack
    Recurse(40);
    Outer(1);
    DenyCopies();
    Outer(1);
    _exit(0);
  }
  WaitForChild();
  return NULL;
}
static void ForkFromThread(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, ForkingThread, NULL);
  pthread_join(thread, NULL);
}

// Other stacks.
static void* NewStack(size_t bytes) {
  return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static ucontext_t g_main, g_coroutine;
static void CoroutineMain(void) {
  for (int i = 1; i < 6; ++i) {
    Outer(i);
    swapcontext(&g_coroutine, &g_main);
  }
}
NOINLINE static void Context(void) {
  ENTER();
  getcontext(&g_coroutine);
  g_coroutine.uc_stack.ss_sp = NewStack(1 << 16);
  g_coroutine.uc_stack.ss_size = 1 << 16;
  g_coroutine.uc_link = &g_main;
  makecontext(&g_coroutine, CoroutineMain, 0);
  for (int i = 1; i < 6; ++i) {
    g_base = g_level;
    swapcontext(&g_main, &g_coroutine);
    g_base = 0;
    Product(i);
  }
  LEAVE();
}
// As in a runtime's hand-written switch: without unwind information.
void OnStack(void* top, void (*function)(int), int argument);
__asm__(
    ".text\n.type OnStack, @function\nOnStack:\n"
    "  push %rbx\n  mov %rsp, %rbx\n  mov %rdi, %rsp\n  mov %edx, %edi\n  call *%rsi\n  mov %rbx, %rsp\n  pop %rbx\n  "
    "ret\n");
NOINLINE static void Switched(void) {
  ENTER();
  char* stack = NewStack(1 << 16);
  for (int i = 1; i < 4; ++i) {
    g_base = g_level;
    OnStack(stack + (1 << 16), Outer, i);
    g_base = 0;
    Product(i);
  }
  LEAVE();
}

// Signals.
static void Handler(int number, siginfo_t* info, void* context) {
  greg_t* registers = ((ucontext_t*)context)->uc_mcontext.gregs;
  Push('!', (uint64_t)registers[REG_RIP]);
  ENTER();
  Outer(1);
  LEAVE();
  LEAVE();
  registers[REG_RIP] += 2;
}
NOINLINE static void Interrupted(void) {
  ENTER();
  __asm__ volatile("ud2");
  LEAVE();
}
NOINLINE static void Signal(int flags) {
  ENTER();
  stack_t alternate = {.ss_sp = NewStack(1 << 16), .ss_size = 1 << 16};
  sigaltstack(&alternate, NULL);
  struct sigaction action = {.sa_sigaction = Handler, .sa_flags = SA_SIGINFO | flags};
  sigaction(SIGILL, &action, NULL);
  for (int i = 0; i < 3; ++i) {
    Interrupted();
    Product(2);
  }
  LEAVE();
}

// Code without tables: with a frame pointer, with nothing but its epilogue, with neither.
#define UNTOLD(name, code, size)                  \
  void name(void (*function)(int), int argument); \
  __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" code ".skip " #size "\n");
UNTOLD(WithFramePointer,
       "  push %rbp\n  mov %rsp, %rbp\n  mov %rdi, %rax\n  mov %esi, %edi\n  call *%rax\n  leave\n  ret\n", 32)
UNTOLD(WithEpilogue, "  sub $8, %rsp\n  mov %rdi, %rax\n  mov %esi, %edi\n  call *%rax\n  add $8, %rsp\n  ret\n", 32)
UNTOLD(WithNeither,
       "  push %rbx\n  mov %rdi, %rax\n  mov %esi, %edi\n  call *%rax\n  xor %eax, %eax\n  pop %rbx\n  ret\n", 32)
typedef void Caller(void (*)(int), int);

NOINLINE static void Through(Caller* caller) {
  ENTER();
  Push('-', 0);  // the return address of `caller`; its callee knows its own
  caller(Outer, 2);
  LEAVE();
  LEAVE();
}
NOINLINE static void ThroughAll(Caller* first, Caller* second, Caller* third) {
  ENTER();
  Through(first);
  Through(second);
  Through(third);
  LEAVE();
}
static Caller* Copied(Caller* caller) {
  char* code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(code + 64, (void*)caller, 32);
  return (Caller*)(code + 64);
}

// Frames whose callees have no tables, at varying places.
NOINLINE static void Guess(int room) {
  ENTER();
  volatile char* moved = __builtin_alloca((size_t)room);
  moved[0] = 1;
  Through(WithFramePointer);
  moved[0] = 2;
  LEAVE();
}
static void Guessed(void) {
  Guess(4096);
  Guess(2048);
  DenyCopies();
  for (int room = 1024; room > 0; room -= 256) Guess(room);
}

// LIBRARY replaces libgcc and aborts if it is called in a child.
NOINLINE static void JitFork(const char* path) {
  ENTER();
  void* library = dlopen(path, RTLD_NOW);
  int* asked = dlsym(library, "asked");
  Through(Copied(WithFramePointer));
  if (*asked == 0) abort();
  if (fork() == 0) {
    Through(Copied(WithFramePointer));
    _exit(0);
  }
  WaitForChild();
  LEAVE();
}

// Overwrites the stack above its frame while it calls.
NOINLINE static void Smash(unsigned seed) {
  enum { kWords = 48 };
  uint64_t kept[kWords];
  volatile uint64_t* above = __builtin_frame_address(0);
  uint64_t guard = (uint64_t)mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  for (int i = 0; i < kWords; ++i) kept[i] = above[i];
  for (int i = 0; i < kWords; ++i) {
    uint64_t values[] = {0,
                         ~0ull,
                         guard + 8,
                         (uint64_t)&Product + 3,
                         (uint64_t)&above[i] + 8,
                         (uint64_t)&above[i] - 64,
                         guard,
                         kept[i],
                         (uint64_t)&printf,
                         0x4141414141414141ull,
                         (uint64_t)rand_r(&seed),
                         (uint64_t)above + rand_r(&seed) % 65536};
    above[i] = values[rand_r(&seed) % 12];
  }
  TinyGemm(1, 1, 1);
  for (int i = 0; i < kWords; ++i) above[i] = kept[i];
  munmap((void*)guard, 4096);
}

int main(int argc, char** argv) {
  const char* mode = argv[1];
  ENTER();
  if (!strcmp(mode, "plain")) Plain(20);
  if (!strcmp(mode, "deep")) Recurse(atoi(argv[2]));
  if (!strcmp(mode, "threads")) Threads();
  if (!strcmp(mode, "fork")) Fork();
  if (!strcmp(mode, "fork_inside")) ForkInside();
  if (!strcmp(mode, "fork_thread")) ForkFromThread();
  if (!strcmp(mode, "context")) Context();
  if (!strcmp(mode, "switched")) Switched();
  if (!strcmp(mode, "signal")) Signal(0);
  if (!strcmp(mode, "alternate")) Signal(SA_ONSTACK);
  if (!strcmp(mode, "untold")) ThroughAll(WithFramePointer, WithEpilogue, WithNeither);
  if (!strcmp(mode, "jit")) ThroughAll(Copied(WithFramePointer), Copied(WithEpilogue), Copied(WithNeither));
  if (!strcmp(mode, "jit_fork")) JitFork(argv[2]);
  if (!strcmp(mode, "guessed")) Guessed();
  if (!strcmp(mode, "smashed")) {
    for (unsigned seed = 0; seed < 3000; ++seed) Smash(seed);
  }
  LEAVE();
  return 0;
}
