// The handler of the timer's signal: one record in the thread's ring. Everything that it needs was made when the timer
// was; all signals but those of faults are blocked.
#include "preload/sample/samples.h"

#include <stdio.h>
#include <ucontext.h>

#include "preload/base/own_memory.h"
#include "preload/base/spin_lock.h"
#include "preload/runtime/config.h"
#include "preload/runtime/parts.h"
#include "preload/unwind/native_stack.h"
#include "preload/unwind/stack_walk.h"

namespace dlhook::inline sample {
namespace {

constexpr uint64_t kLateNs = 100'000'000;

struct Interrupted {
  ThreadState* thread;
  uint32_t intervals;
  FrameState top;
};

// Calls that have not returned. Frames below `sp` were left by longjmp.
uint8_t OpenCallsAt(const ThreadState& thread, uint64_t sp) {
  uint32_t depth = thread.depth <= kMaxOpenCalls ? thread.depth : kMaxOpenCalls;
  while (depth > 0 && thread.open[depth - 1].frame < sp) --depth;
  return static_cast<uint8_t>(depth);
}

// A thread that blocks the signal gets it when a system call has unblocked it: a place that says nothing of the time in
// between.
bool IsLate(const Interrupted& at) {
  constexpr uint8_t kSystemCall[] = {0x0f, 0x05};
  uint8_t before[sizeof kSystemCall];
  if (at.intervals == 1 || at.intervals * at.thread->session->sample_interval_ns <= kLateNs) return false;
  return CopyOwnMemory(at.top.address - sizeof before, before, sizeof before) == sizeof before &&
         memcmp(before, kSystemCall, sizeof before) == 0;
}

// If the thread holds a lock of the shim, or is capturing a stack, its code must be left alone.
SampleState AddStack(const Interrupted& at, SampleRecord* record) {
  if (IsLate(at)) return SampleState::kLate;
  record->address = at.top.address;
  InterruptedStack stack;
  if (t_spin_locks != 0 || !CaptureInterruptedStack(at.thread, at.top, &stack)) return SampleState::kWithoutStack;
  record->python_stack = CaptureInterruptedPythonStack(at.thread, at.top.address);
  record->native_stack = stack.outer;
  record->cut = static_cast<uint8_t>(stack.cut);
  return SampleState::kWhole;
}

void Lose(const Interrupted& at) {
  at.thread->session->dropped_samples.fetch_add(at.intervals, std::memory_order_relaxed);
}

// Not by the functions that make a full ring grow: they may wait, or start a thread.
void Write(const Interrupted& at, const SampleRecord& sample) {
  RingProducer* ring = &at.thread->ring;
  RecordHeader* space = ring->Reserve(sample.header.words);
  if (space == nullptr) space = ring->ReserveAfterLook(sample.header.words);
  if (space == nullptr) return Lose(at);
  *reinterpret_cast<SampleRecord*>(space) = sample;
  ring->Commit(space);
}

void TakeSample(void* argument) {
  const Interrupted& at = *static_cast<const Interrupted*>(argument);
  ThreadState* thread = at.thread;
  if (IsStopped(*thread->session)) return;
  if (thread->ring.busy != 0) return Lose(at);  // a record is being written
  thread->is_sampling = 1;
  SampleRecord sample = {};
  uint8_t depth = OpenCallsAt(*thread, at.top.sp);
  sample.header = {sizeof sample / 8, RecordType::kSample, depth, 0, 0, 0};
  sample.ticks = ReadTicks(thread->clock);
  sample.intervals = at.intervals;
  sample.state = AddStack(at, &sample);
  Write(at, sample);
  thread->is_sampling = 0;
}

bool IsOurs(const siginfo_t& info) {
  return info.si_code == SI_TIMER && info.si_value.sival_ptr == static_cast<const void*>(&kSampleMark);
}

void SayWhyNoTimer(int error) {
  char reason[120];
  const char* what = error == EAGAIN ? "the limit of pending signals is reached (ulimit -i)" : strerror(error);
  snprintf(reason, sizeof reason, "a thread could not get a timer: %s", what);
  SaySamples(CapabilityState::kLost, reason);
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

void SaySamples(CapabilityState state, const char* reason) {
  static std::atomic<CapabilityState> last{CapabilityState::kUnknown};
  CapabilityState said = last.load();
  if (said == state || said == CapabilityState::kLost || !last.compare_exchange_strong(said, state)) return;
  ReportCapability("samples", "", state, reason);
}

void OnSampleSignal(int number, siginfo_t* info, void* context) {
  if (!IsOurs(*info)) return PassToHost(number, info, context);
  ThreadState* thread = dlhook_thread;
  if (thread == nullptr || thread->active == 0) return;
  SampleThread* samples = thread->samples;
  if (samples == nullptr || samples->owner != thread->thread_id) return;
  ErrnoKeeper keeper;
  const greg_t* registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  Interrupted at = {thread,
                    1 + static_cast<uint32_t>(info->si_overrun),
                    {static_cast<uint64_t>(registers[REG_RIP]), static_cast<uint64_t>(registers[REG_RSP]),
                     static_cast<uint64_t>(registers[REG_RBP]), true}};
  CallOnStack(samples->stack + SampleThread::kStackBytes, &TakeSample, &at);
}

// The timer of a thread. The kernel's, by its own system calls: on the thread's CPU time, so that its signals come when
// the thread returns from the kernel anyway and no blocking call is interrupted.
const char kSampleMark = 0;

void OpenThreadSamples(ThreadState* thread) {
  if (thread->session->sample_interval_ns == 0) return;
  SampleThread* samples = MemoryOf(thread);
  if (samples == nullptr) return SaySamples(CapabilityState::kLost, "no memory");
  samples->owner = 0;
  CaptureNativeStack(thread);  // allocates and looks up what the handler needs
  RefreshPython();
  if (!InstallSampleHandler()) return SaySamples(CapabilityState::kLost, "the signal SIGURG could not be taken");
  GiveSignalStack(samples);
  if (!StartTimer(*thread, samples)) return SayWhyNoTimer(errno);
  samples->owner = thread->thread_id;
  SaySamples(CapabilityState::kOn, "");
}

void CloseThreadSamples(ThreadState* thread) {
  SampleThread* samples = thread->samples;
  if (samples == nullptr || samples->owner != thread->thread_id) return;
  samples->owner = 0;
  syscall(SYS_timer_delete, samples->timer);
  TakeSignalStack(samples);
  if (IsSampleHandlerGone()) {
    SaySamples(CapabilityState::kLost, "the program took the signal SIGURG without the C library's sigaction");
  }
}

}  // namespace dlhook::inline sample
