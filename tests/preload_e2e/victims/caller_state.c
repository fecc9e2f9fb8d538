// Sets all state that a call must preserve, calls functions, and reports changes: the pending dlerror(), errno,
// rounding mode and exception flags, with exceptions that would raise signals. caller_state LIBRARY NAME…: functions of
// LIBRARY that do nothing, three times each through its handle, and as found by other look-ups.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef long Function(void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*);

static char zeros[1 << 16];

static void Check(Function* call, const char* name, const char* how, int round) {
  char missing[64], expected[256];
  char* z = zeros + sizeof zeros / 2;
  snprintf(missing, sizeof missing, "/nowhere/%s", how);
  snprintf(expected, sizeof expected, "%s: cannot open shared object file: No such file or directory", missing);
  dlopen(missing, RTLD_NOW);
  unsigned control = round == 1 ? 0x5fbf : 0x4000;       // upward, and all flags set or all exceptions unmasked
  unsigned short x87 = 0x0b40, x87_after, status_after;  // upward, all exceptions unmasked
  _mm_setcsr(control);
  __asm__ volatile("fldcw %0" ::"m"(x87));
  errno = 4321;
  call(z, z, z, z, z, z, z, z, z, z, z, z, z, z);
  int error = errno;
  unsigned after = _mm_getcsr();
  __asm__ volatile("fnstcw %0\n\tfnstsw %1" : "=m"(x87_after), "=m"(status_after));
  _mm_setcsr(0x1f80);
  __asm__ volatile("fninit");
  const char* pending = dlerror();
  if (error != 4321) printf("%s %s %d: errno %d\n", name, how, round, error);
  if (after != control) printf("%s %s %d: MXCSR %x instead of %x\n", name, how, round, after, control);
  if (x87_after != x87 || (status_after & 0xff))
    printf("%s %s %d: x87 %x %x\n", name, how, round, x87_after, status_after);
  if (!pending || strcmp(pending, expected))
    printf("%s %s %d: dlerror %s\n", name, how, round, pending ? pending : "none");
  memset(zeros, 0, sizeof zeros);
}

int main(int argc, char** argv) {
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
  for (int i = 2; i < argc; ++i) {
    Function* found = (Function*)dlsym(library, argv[i]);
    for (int round = 0; round < 3; ++round) Check(found, argv[i], "handle", round);
    found = (Function*)dlsym(RTLD_DEFAULT, argv[i]);
    for (int round = 0; round < 3; ++round) Check(found, argv[i], "default", round);
  }
  printf("%d functions\n", argc - 2);
  return 0;
}
