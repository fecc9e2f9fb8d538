// A slow path on an application thread that must run to its end: a signal handler may leave by longjmp, or call the
// hook that it interrupted; a thread that is being cancelled would end inside our first system call.
// Thread: any. Two system calls.
#ifndef DLHOOK_PRELOAD_CORE_UNDISTURBED_H_
#define DLHOOK_PRELOAD_CORE_UNDISTURBED_H_

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include <initializer_list>

namespace dlhook {

// Signals wait and cancellations don't act while it lives; errno is what it was, after it. Signals of the thread's own
// faults don't wait.
class Undisturbed {
 public:
  Undisturbed() : errno_(errno) {
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
    sigset_t others;
    sigfillset(&others);
    for (int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP}) sigdelset(&others, fault);
    pthread_sigmask(SIG_BLOCK, &others, &signals_);
  }
  ~Undisturbed() {
    errno = errno_;
    pthread_sigmask(SIG_SETMASK, &signals_, nullptr);
    pthread_setcancelstate(cancel_state_, nullptr);
  }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  int errno_;
  int cancel_state_;
  sigset_t signals_;
};

}  // namespace dlhook

#endif  // DLHOOK_PRELOAD_CORE_UNDISTURBED_H_
