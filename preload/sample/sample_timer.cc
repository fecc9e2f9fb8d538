// The timer of a thread. The kernel's, by its own system calls: on the thread's CPU time, so that its signals come when
// the thread returns from the kernel anyway and no blocking call is interrupted.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "preload/base/own_pages.h"
#include "preload/runtime/config.h"
#include "preload/runtime/parts.h"
#include "preload/runtime/registry.h"
#include "preload/sample/samples.h"
#include "preload/unwind/native_stack.h"

namespace dlhook::inline sample {

const char kSampleMark = 0;

namespace {

std::atomic<CapabilityState> g_said{CapabilityState::kUnknown};

// What was lost stays so: some threads, or some of the time, have no samples.
void Say(CapabilityState state, const char* reason) {
  CapabilityState said = g_said.load();
  if (said == state || said == CapabilityState::kLost || !g_said.compare_exchange_strong(said, state)) return;
  ReportCapability("samples", "", state, reason);
}

void SayWhyNoTimer(int error) {
  char reason[120];
  const char* what = error == EAGAIN ? "the limit of pending signals is reached (ulimit -i)" : strerror(error);
  snprintf(reason, sizeof reason, "a thread could not get a timer: %s", what);
  Say(CapabilityState::kLost, reason);
}

SampleThread* MemoryOf(ThreadState* thread) {
  if (thread->samples == nullptr) thread->samples = static_cast<SampleThread*>(MapOwnPages(sizeof(SampleThread)));
  return thread->samples;
}

bool HasSignalStack(stack_t* stack) { return sigaltstack(nullptr, stack) == 0 && (stack->ss_flags & SS_DISABLE) == 0; }

void GiveSignalStack(SampleThread* samples) {
  stack_t hosts;
  if (HasSignalStack(&hosts)) return;
  stack_t ours = {};
  ours.ss_sp = samples->signal_stack;
  ours.ss_size = sizeof samples->signal_stack;
  sigaltstack(&ours, nullptr);
}

// The slot's next thread will use it.
void TakeSignalStack(const SampleThread* samples) {
  stack_t stack;
  if (!HasSignalStack(&stack) || stack.ss_sp != samples->signal_stack) return;
  stack = {};
  stack.ss_flags = SS_DISABLE;
  sigaltstack(&stack, nullptr);
}

bool StartTimer(const ThreadState& thread, SampleThread* samples) {
  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = kSampleSignal;
  event.sigev_value.sival_ptr = const_cast<char*>(&kSampleMark);
  event._sigev_un._tid = static_cast<pid_t>(thread.tid);
  if (syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &event, &samples->timer) != 0) return false;
  auto interval_ns = static_cast<long>(thread.session->sample_interval_ns);
  timespec interval = {interval_ns / 1'000'000'000, interval_ns % 1'000'000'000};
  itimerspec setting = {interval, interval};
  if (syscall(SYS_timer_settime, samples->timer, 0, &setting, nullptr) == 0) return true;
  int error = errno;
  syscall(SYS_timer_delete, samples->timer);
  errno = error;
  return false;
}

}  // namespace

void OpenThreadSamples(ThreadState* thread) {
  if (thread->session->sample_interval_ns == 0) return;
  SampleThread* samples = MemoryOf(thread);
  if (samples == nullptr) return Say(CapabilityState::kLost, "no memory");
  samples->owner = 0;
  CaptureNativeStack(thread);  // allocates and looks up what the handler needs
  RefreshPython();
  if (!InstallSampleHandler()) return Say(CapabilityState::kLost, "the signal SIGURG could not be taken");
  GiveSignalStack(samples);
  if (!StartTimer(*thread, samples)) return SayWhyNoTimer(errno);
  samples->owner = thread->thread_id;
  Say(CapabilityState::kOn, "");
}

void CloseThreadSamples(ThreadState* thread) {
  SampleThread* samples = thread->samples;
  if (samples == nullptr || samples->owner != thread->thread_id) return;
  samples->owner = 0;
  syscall(SYS_timer_delete, samples->timer);
  TakeSignalStack(samples);
  if (IsSampleHandlerGone()) {
    Say(CapabilityState::kLost, "the program took the signal SIGURG without the C library's sigaction");
  }
}

}  // namespace dlhook::inline sample
