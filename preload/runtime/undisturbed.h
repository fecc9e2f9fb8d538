// For a slow path on an application thread that must run to its end: a signal handler may leave by longjmp, or call the
// hook that it interrupted; a thread that is being cancelled would end inside the shim's first system call.
// Thread: any. Two system calls.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cstdint>
#include <initializer_list>

#include "preload/base/loader_error.h"
#include "preload/base/own_pages.h"

namespace dlhook::inline runtime {

// The floating-point environment of a new thread during its lifetime: the program may have another rounding mode, or
// have unmasked exceptions. Afterwards modes and flags are as before.
class OwnArithmetic {
 public:
  OwnArithmetic() {
    asm volatile("fnstenv %0\n\tfninit" : "=m"(x87_)::"memory");  // its registers are empty at a function call
    asm volatile("stmxcsr %0" : "=m"(sse_));
    constexpr uint32_t kDefault = 0x1f80;
    asm volatile("ldmxcsr %0" ::"m"(kDefault));
  }
  ~OwnArithmetic() {
    asm volatile("ldmxcsr %0" ::"m"(sse_) : "memory");
    asm volatile("fldenv %0" ::"m"(x87_) : "memory");
  }
  OwnArithmetic(const OwnArithmetic&) = delete;
  OwnArithmetic& operator=(const OwnArithmetic&) = delete;

 private:
  char x87_[28];
  uint32_t sse_;
};

// Signals are blocked and cancellations deferred during its lifetime. Signals of the thread's own faults are not
// blocked.
class SignalsWait {
 public:
  SignalsWait() {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
    sigset_t others;
    sigfillset(&others);
    for (int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP}) sigdelset(&others, fault);
    pthread_sigmask(SIG_BLOCK, &others, &signals_);
  }
  ~SignalsWait() {
    pthread_sigmask(SIG_SETMASK, &signals_, nullptr);
    pthread_setcancelstate(cancel_state_, nullptr);
  }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  int cancel_state_;
  sigset_t signals_;
};

// All of this; errno, dlerror() and the floating-point environment are restored at its end.
class Undisturbed {
 private:
  SignalsWait signals_;  // ends last: a handler may leave by longjmp
  KeptLoaderError error_;
  OwnArithmetic arithmetic_;
};

// function(argument), on another stack if this is the alternate one of a signal handler: those may have few KiB.
inline void CallWithRoom(void (*function)(void*), void* argument) {
  constexpr size_t kEnoughBytes = 64 << 10;
  stack_t current;
  bool is_small =
      sigaltstack(nullptr, &current) == 0 && (current.ss_flags & SS_ONSTACK) != 0 && current.ss_size < kEnoughBytes;
  if (!is_small) return function(argument);
  Undisturbed undisturbed;
  if (!CallOnOwnStack(function, argument)) function(argument);
}

}  // namespace dlhook::inline runtime
