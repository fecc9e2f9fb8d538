// The signal of the timers, and what the program itself wants of it: its sigaction and signal work on a copy, so that it
// sees what it set, and its handler gets its own signals. Other signals go straight to the C library.
// Thread: any. A child of vfork has its parent's memory but its own handlers: it gets past the copy.

#include "preload/base/libc_functions.h"
#include "preload/base/spin_lock.h"
#include "preload/link/resolver.h"
#include "preload/sample/samples.h"

namespace dlhook::inline sample {
namespace {

using Action = struct sigaction;
using Handler = void (*)(int);

std::atomic<uint32_t> g_is_installed{0};  // a forked child inherits the handler, and this
SpinLock g_lock;
Action g_host;  // what the program set

constexpr int kRestorer = 0x04000000;  // SA_RESTORER, which the C library adds

// While it runs, nothing else does but handlers of faults, which would be fatal if they were blocked.
bool PutInFront(const Action& host, Action* before) {
  bool has_handler = host.sa_handler != SIG_DFL && host.sa_handler != SIG_IGN;
  int chosen = has_handler ? host.sa_flags & (SA_RESTART | SA_ONSTACK) : SA_RESTART | SA_ONSTACK;
  Action ours = {};
  ours.sa_sigaction = &OnSampleSignal;
  ours.sa_flags = SA_SIGINFO | chosen;
  sigfillset(&ours.sa_mask);
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&ours.sa_mask, fault);
  return dlhook_libc_sigaction(kSampleSignal, &ours, before) == 0;
}

// A handler that interrupts SetHost on its own thread goes on without the lock (spin_lock.h).
Action TakeHost() {
  SpinLockHolder holder(&g_lock);
  Action host = g_host;
  if ((host.sa_flags & SA_RESETHAND) != 0) g_host.sa_handler = SIG_DFL;
  return host;
}

bool IsForCopy(int number) {
  return number == kSampleSignal && g_is_installed.load(std::memory_order_acquire) != 0 &&
         static_cast<uint32_t>(getpid()) == ProcessId();
}

int SetHost(const Action* action, Action* old) {
  SpinLockHolder holder(&g_lock);
  if (old != nullptr) *old = g_host;
  if (action == nullptr) return 0;
  g_host = *action;
  g_host.sa_flags |= kRestorer;
  return PutInFront(g_host, nullptr) ? 0 : -1;
}

}  // namespace

bool InstallSampleHandler() {
  if (g_is_installed.load(std::memory_order_acquire) != 0) return true;
  SpinLockHolder holder(&g_lock);
  if (g_is_installed.load(std::memory_order_relaxed) != 0) return true;
  if (dlhook_libc_sigaction(kSampleSignal, nullptr, &g_host) != 0 || !PutInFront(g_host, nullptr)) return false;
  g_is_installed.store(1, std::memory_order_release);
  return true;
}

bool IsSampleHandlerGone() {
  Action now;
  return dlhook_libc_sigaction(kSampleSignal, nullptr, &now) == 0 && now.sa_sigaction != &OnSampleSignal;
}

void PassToHost(int number, siginfo_t* info, void* context) {
  Action host = TakeHost();
  if (host.sa_handler == SIG_DFL || host.sa_handler == SIG_IGN) return;  // SIGURG is ignored by default
  sigset_t blocked = static_cast<const ucontext_t*>(context)->uc_sigmask;
  for (int other = 1; other < NSIG; ++other) {
    if (sigismember(&host.sa_mask, other) == 1) sigaddset(&blocked, other);
  }
  if ((host.sa_flags & SA_NODEFER) == 0) sigaddset(&blocked, number);
  pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
  if ((host.sa_flags & SA_SIGINFO) != 0) return host.sa_sigaction(number, info, context);
  host.sa_handler(number);
}

}  // namespace dlhook::inline sample

extern "C" {

__attribute__((visibility("default"))) int sigaction(int number, const struct sigaction* action,
                                                     struct sigaction* old) noexcept {
  if (dlhook::IsForCopy(number)) return dlhook::SetHost(action, old);
  static const auto real = dlhook::RealOf<int(int, const struct sigaction*, struct sigaction*)>("sigaction");
  return real(number, action, old);
}

__attribute__((visibility("default"))) dlhook::Handler signal(int number, dlhook::Handler handler) noexcept {
  static const auto real = dlhook::RealOf<dlhook::Handler(int, dlhook::Handler)>("signal");
  if (!dlhook::IsForCopy(number) || handler == SIG_ERR) return real(number, handler);
  struct sigaction action = {}, old;
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaddset(&action.sa_mask, number);
  return dlhook::SetHost(&action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

}  // extern "C"
