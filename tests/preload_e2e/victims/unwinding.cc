// Ways to leave a hooked call other than by return, a hundred times each: unwinding MODE
//   throw         an exception
//   cancel        a thread that is cancelled inside
//   exit_thread   pthread_exit inside
//   pending       a thread with a cancellation pending makes its first call, which must not act on it
//   asynchronous  threads that call without pause are cancelled anywhere
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tiny_blas.h"

static int unwound;

struct Guard {
  ~Guard() { ++unwound; }
};

static void Throw() { throw 7; }
static void Cancel() {
  pthread_cancel(pthread_self());
  pthread_testcancel();
}
static void ExitThread() { pthread_exit(nullptr); }

static void* CallOnce(void*) {
  Guard guard;
  TinyGemm(2, 3, 4);
  return nullptr;
}

static void* CallWhilePending(void* survivors) {
  pthread_cancel(pthread_self());
  TinyGemm(2, 3, 4);
  ++*static_cast<int*>(survivors);
  pthread_testcancel();
  return nullptr;
}

static void* CallForEver(void*) {
  TinyGemm(2, 3, 4);
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
  for (;;) TinyGemm(2, 3, 4);
}

static void InThreads(void* (*function)(void*), void* argument, bool cancel) {
  for (int i = 0; i < 100; ++i) {
    pthread_t thread;
    pthread_create(&thread, nullptr, function, argument);
    if (cancel) usleep(i * 10), pthread_cancel(thread);
    pthread_join(thread, nullptr);
  }
}

int main(int, char** argv) {
  const char* mode = argv[1];
  int count = 0;
  if (!strcmp(mode, "throw")) {
    tiny_blas_inside = Throw;
    for (int i = 0; i < 100; ++i) {
      try {
        CallOnce(nullptr);
      } catch (int value) {
        count += value;
      }
    }
  }
  if (!strcmp(mode, "cancel")) tiny_blas_inside = Cancel, InThreads(CallOnce, nullptr, false);
  if (!strcmp(mode, "exit_thread")) tiny_blas_inside = ExitThread, InThreads(CallOnce, nullptr, false);
  if (!strcmp(mode, "pending")) InThreads(CallWhilePending, &count, false);
  if (!strcmp(mode, "asynchronous")) InThreads(CallForEver, nullptr, true);
  tiny_blas_inside = nullptr;
  TinyGemm(9, 9, 9);
  printf("%d %d\n", count, unwound);
  return 0;
}
