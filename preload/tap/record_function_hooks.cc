// The RecordFunction tap inside the process: the interposed at::getStepCallbacksUnlessEmpty, registration, the
// observers that PyTorch calls, and the switch. at::RecordFunction::before are assembly stubs
// (record_function_stubs.S).
// Thread: any application thread. A scope costs what runtime/scope.h does and two calls of PyTorch's own accessors; an
// operator costs a few loads while nothing is recorded. Observers may neither throw nor call an operator.
#include <link.h>
#include <stdio.h>

#include <new>

#include "preload/base/entry.h"
#include "preload/base/spin_lock.h"
#include "preload/format/clock.h"
#include "preload/link/resolver.h"
#include "preload/runtime/config.h"
#include "preload/runtime/parts.h"
#include "preload/runtime/process_state.h"
#include "preload/runtime/registry.h"
#include "preload/tap/record_function_library.h"
#include "preload/tap/tap.h"

extern "C" {
// The last arguments of at::RecordFunction::before on this thread. Written by the stub.
struct TorchScopeNote {
  const void* record_function;
  int64_t sequence_number;
};
__thread TorchScopeNote dlhook_torch_note __attribute__((visibility("hidden")));
}

namespace dlhook::inline tap {

std::atomic<bool> g_is_memory_over{false};

namespace {

constexpr uint32_t kOperatorsPerLook = 32;  // between reads of the clock, with windows
constexpr uint64_t kScopePerStart = 3;      // a scope's time in PyTorch and dlhook, in times of its observer's start

// Up to kPaused the interposed function has work to do.
enum TapPhase : uint32_t {
  kUnseen = 0,   // no operator has run yet
  kStopped = 1,  // recording is stopped: observers are disabled
  kPaused = 2,   // between two windows: only user ranges are observed
  kBusy = 3,     // one thread is registering
  kOn = 4,
  kNever = 5,
};

struct Tap {
  TorchFunctions torch;
  uint64_t handles[kTorchScopes];  // 0: none
  uint32_t family_bit;
  bool may_have_windows;
};

std::atomic<uint32_t> g_phase{kUnseen};
constinit Tap g_tap = {};
// For the switch: g_phase's changes, g_duty and what it goes by, g_window_start_ticks, and PyTorch's own lock, which must
// not be held at a fork.
SpinLock g_switch_lock;
DutyCycle g_duty;
LastValues g_start_ns;                       // of observers
uint64_t g_step_operators;                   // observed since the last step
std::atomic<uint64_t> g_window_start_ticks;  // 0: no window is open
uint64_t g_first_start_ticks;                // where the first window begins; 0: it has begun
std::atomic<bool> g_has_windows;             // g_duty decides

__thread uint32_t t_operators;  // since the last read of the clock

// ---- the switch: g_switch_lock is held --------------------------------------------------------------------------------------

void SwitchObservers(bool on, bool user_ranges_too) {
  for (uint32_t scope = 0; scope < kTorchScopes; ++scope) {
    bool is_user_range = scope == static_cast<uint32_t>(TorchScope::kUserScope);
    if (g_tap.handles[scope] == 0 || (is_user_range && !user_ranges_too)) continue;
    (on ? g_tap.torch.reenable : g_tap.torch.disable)(g_tap.handles[scope]);
  }
}

// The thread, if it has recorded anything in this process.
ThreadState* AttachedThread() {
  ThreadState* thread = dlhook_thread;
  return thread != nullptr && thread->active != 0 ? thread : nullptr;
}

// Records when operators are recorded: a mark of no length at the beginning of a window, and the window when it ends.
void BeginWindow(ThreadState* thread) {
  SpinLockHolder holder(&g_switch_lock);
  if (g_window_start_ticks.load(std::memory_order_relaxed) != 0) return;
  uint64_t first_ticks = g_first_start_ticks;
  g_first_start_ticks = 0;
  g_window_start_ticks.store(first_ticks != 0 ? first_ticks : ReadTicks(thread->clock), std::memory_order_relaxed);
  RecordEndedScope(thread, ScopeKind::kUserRange, kScopeWindowName, sizeof kScopeWindowName - 1, 0);
}

void EndWindow(ThreadState* thread) {
  uint64_t start_ticks = g_window_start_ticks.exchange(0, std::memory_order_relaxed);
  if (start_ticks == 0 || thread == nullptr) return;
  uint64_t end_ticks = ReadTicks(thread->clock);
  RecordEndedScope(thread, ScopeKind::kUserRange, kScopeWindowName, sizeof kScopeWindowName - 1,
                   end_ticks - start_ticks, end_ticks);
}

// 0: light mode, which goes before the standard budget.
uint32_t BudgetPpm() {
  const Config& config = GetConfig();
  return config.scopes == ScopesMode::kLight && config.budget.is_of_gpu_use ? 0 : config.budget.ppm;
}

// What else the budget's windows are for.
void SwitchOthers(bool on) {
  if (BudgetPpm() == 0) return;
  if (!on) g_is_memory_over.store(true, std::memory_order_relaxed);
  RecordPythonOfCalls(on);
  RecordGpuTimes(on);
}

// Switches between windows and pauses. The first observed operator begins the window.
void FollowDuty(bool recorded) {
  if (g_phase.load(std::memory_order_relaxed) != (recorded ? kPaused : kOn)) return;
  SwitchObservers(recorded, false);
  if (!recorded) EndWindow(AttachedThread());
  g_phase.store(recorded ? kOn : kPaused, std::memory_order_release);
  SwitchOthers(recorded);
}

uint64_t NowNs() { return ClockNanoseconds(CLOCK_MONOTONIC); }

// What observers take for an operator, with PyTorch's part.
uint64_t OperatorNs() { return kScopePerStart * g_start_ns.Median(); }

// The standard budget waits until the process uses a GPU.
bool IsOfGpuUse() { return GetConfig().scopes != ScopesMode::kLight && GetConfig().budget.is_of_gpu_use; }

// Whether operators are recorded in windows.
bool HasWindows() {
  if (g_has_windows.load(std::memory_order_relaxed)) return true;
  if (!g_tap.may_have_windows || (IsOfGpuUse() && !HasGpuTimes())) return false;
  SpinLockHolder holder(&g_switch_lock);
  if (!g_has_windows.exchange(true)) g_duty.Begin(NowNs(), BudgetPpm());
  return true;
}

// ---- the switch: from outside -----------------------------------------------------------------------------------------------

// The program forks: neither the tap's lock nor PyTorch's may be inherited as held.
alignas(SpinLockHolder) char g_fork_holder[sizeof(SpinLockHolder)];
void BeforeFork() { new (g_fork_holder) SpinLockHolder(&g_switch_lock); }
void AfterForkInParent() { reinterpret_cast<SpinLockHolder*>(g_fork_holder)->~SpinLockHolder(); }
// An open window is the parent's.
void AfterForkInChild() {
  AfterForkInParent();
  g_window_start_ticks.store(0);
  g_first_start_ticks = 0;
  g_is_memory_over.store(false);
  if (IsOfGpuUse()) g_has_windows.store(false);
}

// Whether this tap's family is recorded in this process, as far as known without a session.
bool IsWanted() {
  ProcessState* process = GetProcess();
  if (process == nullptr) return false;
  uint32_t phase = process->phase.load(std::memory_order_acquire);
  if (phase == kFailed || phase == kFinished) return false;
  if (phase != kRecording) return true;
  return (process->session->enabled_families.load(std::memory_order_relaxed) & g_tap.family_bit) != 0;
}

// This process is exiting: PyTorch's own list of observers may be destroyed already.
bool IsFinished() {
  ProcessState* process = GetProcess();
  return process != nullptr && process->phase.load(std::memory_order_acquire) == kFinished;
}

// Called by an observer that could not record: if recording is stopped, disables the observers for later operators.
void StopIfUnwanted() {
  if (IsWanted() || IsFinished()) return;
  SpinLockHolder holder(&g_switch_lock);
  uint32_t phase = g_phase.load(std::memory_order_relaxed);
  if (phase != kOn && phase != kPaused) return;
  SwitchObservers(false, true);
  g_window_start_ticks.store(0);
  g_first_start_ticks = 0;
  g_phase.store(kStopped, std::memory_order_release);
}

void ResumeIfWanted() {
  if (!IsWanted()) return;
  SpinLockHolder holder(&g_switch_lock);
  if (g_phase.load(std::memory_order_relaxed) != kStopped) return;
  SwitchObservers(true, true);
  g_duty.Begin(NowNs(), BudgetPpm());
  g_phase.store(kOn, std::memory_order_release);
  SwitchOthers(true);
}

// At each 32nd operator of a thread. True: at this one.
bool LookAtClock() {
  if (++t_operators < kOperatorsPerLook) return false;
  t_operators = 0;
  bool has_windows = HasWindows();
  bool is_on = g_phase.load(std::memory_order_relaxed) == kOn;
  if (!has_windows && is_on) return false;
  SpinLockHolder holder(&g_switch_lock);
  if (is_on) g_step_operators += kOperatorsPerLook;
  FollowDuty(!has_windows || g_duty.TimePassed(NowNs(), kOperatorsPerLook, OperatorNs()));
  return true;
}

void NoteStart(uint64_t took_ns) {
  SpinLockHolder holder(&g_switch_lock);
  g_start_ns.Add(took_ns);
}

void NoteStepEnd() {
  SpinLockHolder holder(&g_switch_lock);
  FollowDuty(g_duty.StepEnded(NowNs(), g_step_operators * OperatorNs()));
  g_step_operators = 0;
}

// ---- scopes that end on another thread than they began on (futures)
// ---------------------------------------------------------

// Their own thread closes them when it next opens one. A thread that has seen the whole table compares one number.
constexpr uint32_t kForeignEnds = 16;
std::atomic<const void*> g_foreign_ends[kForeignEnds];
std::atomic<uint32_t> g_foreign_end_count{0};
SpinLock g_foreign_ends_lock;
__thread uint32_t t_foreign_ends_seen;

void PostForeignEnd(const void* record_function) {
  SpinLockHolder holder(&g_foreign_ends_lock);
  uint32_t count = g_foreign_end_count.load(std::memory_order_relaxed);
  g_foreign_ends[count % kForeignEnds].store(record_function, std::memory_order_relaxed);
  g_foreign_end_count.store(count + 1, std::memory_order_release);
}

void TakeForeignEnds(ThreadState* thread) {
  uint32_t count = g_foreign_end_count.load(std::memory_order_acquire);
  uint32_t first = count - t_foreign_ends_seen > kForeignEnds ? count - kForeignEnds : t_foreign_ends_seen;
  for (uint32_t i = first; i != count; ++i) {
    CloseScope(thread, g_foreign_ends[i % kForeignEnds].load(std::memory_order_relaxed));
  }
  t_foreign_ends_seen = count;
}

// ---- ranges announced to end elsewhere (collectives)
// ------------------------------------------------------------------------

// They bracket nothing on their thread: recorded when they have ended, by the thread that ends them. Until then they are in the
// session, where a reader of a process that hangs finds them.
std::atomic<uint32_t> g_asynchronous_count{0};

void BeginAsynchronousRange(ThreadState* thread, const void* record_function) {
  for (AsynchronousRange& range : thread->session->asynchronous_ranges) {
    const void* free = nullptr;
    if (!range.owner.compare_exchange_strong(free, record_function)) continue;
    range.thread_id = thread->thread_id;
    range.python_stack = OpenPythonStack(thread);
    range.bytes = g_tap.torch.InputBytes(record_function);
    const char* name = g_tap.torch.name(record_function);
    size_t bytes = strnlen(name, sizeof range.name);
    memcpy(range.name, name, bytes);
    memset(range.name + bytes, 0, sizeof range.name - bytes);
    range.start_ticks = ReadTicks(thread->clock);
    g_asynchronous_count.fetch_add(1);
    return;
  }
}

// True: it was one.
bool EndAsynchronousRange(const void* record_function) {
  ProcessState* process = FindProcess();
  SessionHeader* session = process == nullptr ? nullptr : process->session;
  if (session == nullptr || g_asynchronous_count.load(std::memory_order_relaxed) == 0) return false;
  for (AsynchronousRange& range : session->asynchronous_ranges) {
    if (range.owner.load(std::memory_order_relaxed) != record_function) continue;
    uint64_t start_ticks = range.start_ticks;
    int64_t bytes = range.bytes;
    range.owner.store(nullptr, std::memory_order_release);
    g_asynchronous_count.fetch_sub(1);
    ThreadState* thread = ScopeThread(g_tap.family_bit);
    if (thread == nullptr) return true;
    const char* name = g_tap.torch.name(record_function);
    uint64_t end_ticks = ReadTicks(thread->clock);
    RecordEndedScope(thread, ScopeKind::kUserRange, name, strlen(name), end_ticks - start_ticks, end_ticks, bytes);
    return true;
  }
  return false;
}

// ---- observers --------------------------------------------------------------------------------------------------------------

// Null: not to be recorded.
ThreadState* BeginOnThread() {
  ThreadState* thread = ScopeThread(g_tap.family_bit);
  if (__builtin_expect(thread == nullptr, 0)) {
    StopIfUnwanted();
  } else if (__builtin_expect(g_foreign_end_count.load(std::memory_order_relaxed) != t_foreign_ends_seen, 0)) {
    TakeForeignEnds(thread);
  }
  return thread;
}

template <ScopeKind kKind>
void* OnStart(void* context, const void* record_function) {
  *static_cast<void**>(context) = nullptr;
  TorchScopeNote& note = dlhook_torch_note;
  int64_t sequence_number = note.record_function == record_function ? note.sequence_number : -1;
  note.record_function = nullptr;
  ThreadState* thread = BeginOnThread();
  if (__builtin_expect(thread == nullptr, 0)) return context;
  uint64_t measured_from_ns = 0;
  if (kKind != ScopeKind::kUserRange && g_tap.may_have_windows) {
    bool begins = g_window_start_ticks.load(std::memory_order_relaxed) == 0;
    if (begins && g_has_windows.load(std::memory_order_relaxed)) BeginWindow(thread);
    if (LookAtClock()) measured_from_ns = NowNs();
  }
  if (kKind == ScopeKind::kUserRange && g_tap.torch.is_async(record_function)) {
    BeginAsynchronousRange(thread, record_function);
    return context;
  }
  const char* name = g_tap.torch.name(record_function);
  OpenScope(thread, kKind, name, strlen(name), sequence_number, record_function);
  if (__builtin_expect(measured_from_ns != 0, 0)) NoteStart(NowNs() - measured_from_ns);
  return context;
}

void OnEnd(const void* record_function, void*) {
  ThreadState* thread = AttachedThread();
  if (thread != nullptr) CloseScope(thread, record_function);
}

void OnUserRangeEnd(const void* record_function, void*) {
  if (EndAsynchronousRange(record_function)) return;
  ThreadState* thread = AttachedThread();
  if (thread == nullptr || !CloseScope(thread, record_function)) PostForeignEnd(record_function);
  if (!EndsTrainingStep(g_tap.torch.name(record_function))) return;
  if (thread != nullptr && g_tap.torch.is_profiled != nullptr && g_tap.torch.is_profiled())
    RecordEndedScope(thread, ScopeKind::kUserRange, kProfilerIsOn, sizeof kProfilerIsOn - 1, 0);
  if (HasWindows()) NoteStepEnd();
}

TorchCallback ObserverOf(TorchScope scope) {
  TorchCallback callback = {};
  const ScopeKind kind = KindOfTorchScope(scope);
  callback.start = kind == ScopeKind::kFrameworkOp    ? &OnStart<ScopeKind::kFrameworkOp>
                   : kind == ScopeKind::kBackwardNode ? &OnStart<ScopeKind::kBackwardNode>
                   : kind == ScopeKind::kUserRange    ? &OnStart<ScopeKind::kUserRange>
                                                      : &OnStart<ScopeKind::kFrameworkRange>;
  callback.end = scope == TorchScope::kUserScope ? &OnUserRangeEnd : &OnEnd;
  callback.sampling_probability = 1.0;
  callback.scopes[static_cast<uint32_t>(scope)] = true;
  return callback;
}

// ---- registration -----------------------------------------------------------------------------------------------------------

// True: registered.
bool RegisterWith(const link_map* object, void* library) {
  const char* reason = FindTorchFunctions(object, library, &g_tap.torch);
  if (reason != nullptr) {
    Report(kRecordFunctionTap, ObjectName(object), CapabilityState::kRefused, reason);
    return false;
  }
  const Budget& budget = GetConfig().budget;
  g_tap.may_have_windows = GetConfig().scopes == ScopesMode::kLight || budget.ppm != 0;
  pthread_atfork(&BeforeFork, &AfterForkInParent, &AfterForkInChild);
  for (uint32_t scope = 0; scope < kTorchScopes; ++scope) {
    if (KindOfTorchScope(static_cast<TorchScope>(scope)) == ScopeKind::kUnknown) continue;
    g_tap.handles[scope] = g_tap.torch.add(ObserverOf(static_cast<TorchScope>(scope)));
  }
  char words[128], untried[48] = "";
  const TorchVersion& version = g_tap.torch.version;
  if (!IsTriedTorchVersion(version))
    snprintf(untried, sizeof untried, "; %s %u.%u", kNotTriedWith, version.major, version.minor);
  snprintf(words, sizeof words, "PyTorch %u.%u%s%s", version.major, version.minor, untried,
           !g_tap.may_have_windows ? ""
           : BudgetPpm() == 0      ? "; light: operators in some windows only"
           : budget.is_of_gpu_use  ? ""
                                   : "; budget: operators in some windows only");
  Report(kRecordFunctionTap, ObjectName(object), CapabilityState::kOn, words);
  return true;
}

void Register(GetCallbacks real) {
  uint32_t unseen = kUnseen;
  if (!g_phase.compare_exchange_strong(unseen, kBusy)) return;
  ErrnoKeeper keeper;
  const link_map* object = ObjectOf(reinterpret_cast<void*>(real));
  g_tap.family_bit = FamilyBit<kRecordFunctionTap>();
  if (ProcessState* process = GetProcess(); process != nullptr && process->session != nullptr)
    g_first_start_ticks = ReadTicks(static_cast<ClockKind>(process->session->clock_kind));
  bool registered = false;
  bool is_wanted = !IsLeftOut(kRecordFunctionTap, ObjectName(object)) && object != nullptr;
  if (void* library = is_wanted ? dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD) : nullptr)
    registered = RegisterWith(object, library);
  g_phase.store(registered ? kOn : kNever, std::memory_order_release);
}

void Attend(uint32_t phase, GetCallbacks real) {
  if (phase == kUnseen) {
    Register(real);
  } else if (phase == kStopped) {
    ResumeIfWanted();
  } else {
    LookAtClock();
  }
}

}  // namespace
}  // namespace dlhook::inline tap

extern "C" {

// at::getStepCallbacksUnlessEmpty: the observers for a scope that begins; std::optional, returned through memory.
DLHOOK_EXPORT void* _ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE(void* result, uint8_t scope) {
  using namespace dlhook;
  GetCallbacks real = RealGetCallbacks(__builtin_return_address(0));
  uint32_t phase = g_phase.load(std::memory_order_acquire);
  if (__builtin_expect(phase <= kPaused, 0)) Attend(phase, real);
  return real(result, scope);
}

}  // extern "C"
