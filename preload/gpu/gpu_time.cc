// The source of GPU times: opening, yielding, the end. GpuState.phase is changed under GpuState.control, except where a
// mark suffices: a thread starts opening, CUPTI may be used again, the process ends with CUDA gone.
#include "preload/gpu/gpu_time.h"

#include <stdio.h>
#include <stdlib.h>

#include "preload/base/own_pages.h"
#include "preload/base/process_id.h"
#include "preload/format/clock.h"
#include "preload/format/gpu_records.h"
#include "preload/format/taps.h"
#include "preload/gpu/cupti_callbacks.h"
#include "preload/gpu/cupti_session.h"
#include "preload/gpu/event_calls.h"
#include "preload/gpu/event_pool.h"
#include "preload/gpu/gpu_state.h"
#include "preload/runtime/config.h"
#include "preload/runtime/parts.h"
#include "preload/runtime/process_state.h"
#include "preload/runtime/registry.h"
#include "preload/runtime/undisturbed.h"

namespace dlhook::inline gpu {
namespace {

constexpr uint32_t kLongestFeedMs = 2000;
constexpr char kCapability[] = "gpu-time";

// The process that opened it first: not in wiped memory, so that a child knows.
std::atomic<uint32_t> g_opener{0};

// The families' bits, 0: not determined yet; kNoFamilies: none.
std::atomic<uint32_t> g_families{0};
constexpr uint32_t kNoFamilies = 1u << 31;

uint32_t FindFamilies() {
  uint32_t families = kNoFamilies;
  for (const char* name : {"cuda_copy", "cuda_memory", "cuda_launch", "cuda_graph", "cublas", "cublaslt", "cudnn",
                           "nccl", "cufft", "cusparse", "cusolver", "curand", "cufile", "nvshmem"}) {
    families |= FamilyBitOf(name);
  }
  if (GetConfig().gpu == GpuMode::kOff) families = kNoFamilies;
  g_families.store(families, std::memory_order_relaxed);
  return families;
}

void TellWindow(ThreadState* thread, GpuTimeSource source, const char* reason) {
  if (thread == nullptr || thread->active == 0) return;
  GpuWindowRecord record = {};
  record.header = {sizeof record / 8, RecordType::kGpuWindow, 0, 0, 0, 0};
  record.ticks = ReadTicks(thread->clock);
  record.source = source;
  record.text_bytes = static_cast<uint32_t>(strlen(reason));
  WriteGpuRecord(thread, &record.header, false, reason, record.text_bytes);
}

const char* LibraryName() { return LoadedCupti() == nullptr ? "" : LoadedCupti()->library; }

// Under control. The process has no CUPTI and will not get it.
void OpenWithoutCupti(GpuState* state, ThreadState* thread, const char* reason) {
  char told[300];
  bool may_use_events = GetConfig().gpu == GpuMode::kAuto || GetConfig().gpu == GpuMode::kEvents;
  if (may_use_events && StartGpuThread(state) && StartEvents()) {
    snprintf(told, sizeof told, "by pairs of events: %s", reason);
    ReportCapability(kCapability, LibraryName(), CapabilityState::kOn, told);
    TellWindow(thread, GpuTimeSource::kEvents, reason);
    state->phase.store(kGpuEvents, std::memory_order_release);
    state->exit_handler_due.store(1);
    return;
  }
  CapabilityState why = LoadedCupti() == nullptr ? CapabilityState::kAbsent : CapabilityState::kRefused;
  ReportCapability(kCapability, LibraryName(), why, reason);
  TellWindow(thread, GpuTimeSource::kNone, reason);
  state->phase.store(kGpuOff, std::memory_order_release);
}

// Under control.
void OpenWithCupti(GpuState* state, ThreadState* thread, const CuptiApi& api) {
  GpuReason reason = "dlhook could not start a thread";
  CuptiAnswer answer = StartGpuThread(state) ? OpenCupti(api, state, reason) : CuptiAnswer::kRefused;
  if (answer == CuptiAnswer::kRefused) return OpenWithoutCupti(state, thread, reason);
  if (answer == CuptiAnswer::kTaken) {
    ReportCapability(kCapability, api.library, CapabilityState::kRefused, reason);
    TellWindow(thread, GpuTimeSource::kNone, reason);
    state->phase.store(kGpuYielded, std::memory_order_release);
    return;
  }
  snprintf(reason, sizeof reason, "CUPTI, version %u%s%s", api.version,
           state->subscriber == nullptr ? ", beside the program's subscription" : "",
           state->clock_offset_ns == 0 ? "" : "; its clock is not CLOCK_REALTIME: an offset is added to its times");
  ReportCapability(kCapability, api.library, CapabilityState::kOn, reason);
  TellWindow(thread, GpuTimeSource::kCupti, "");
  state->is_between_windows = false;
  state->phase.store(kGpuCupti, std::memory_order_release);
  if (state->was_open.exchange(1) == 0) state->exit_handler_due.store(1);
}

// Null if no CUPTI works.
const CuptiApi* FindCupti(const char** reason) {
  if (GetConfig().gpu == GpuMode::kEvents) {
    *reason = "DLHOOK_GPU=events";
    return nullptr;
  }
  return LoadCupti(reason);
}

// On the thread that set the phase kGpuStarting. The loader is entered without any of our locks.
void Open(GpuState* state, ThreadState* thread) {
  Undisturbed undisturbed;
  uint32_t opener = 0;
  bool is_child = !g_opener.compare_exchange_strong(opener, ProcessId()) && opener != ProcessId();
  const char* reason = "";
  const CuptiApi* api = is_child ? nullptr : FindCupti(&reason);
  SpinLockHolder holder(&state->control);
  if (state->phase.load() != kGpuStarting) return;  // meanwhile the application wanted CUPTI, or the process ends
  if (is_child) {
    state->phase.store(kGpuOff);
  } else if (api == nullptr) {
    OpenWithoutCupti(state, thread, reason);
  } else {
    OpenWithCupti(state, thread, *api);
  }
}

__attribute__((noinline, cold)) void OpenFirst(ThreadState* thread) {
  GpuState* state = GetGpuState();
  uint32_t phase = kGpuUntouched;
  if (state != nullptr && state->phase.compare_exchange_strong(phase, kGpuStarting)) Open(state, thread);
}

// Registered when CUDA has started, so that it runs before CUDA's own: once after the first call, and again when CUPTI
// has requested its first buffer, because the first call need not have started the driver.
__attribute__((noinline, cold)) void RegisterExitHandler(GpuState* state) {
  if (state->exit_handler_due.exchange(0) != 0) FinishGpuTimeAtExit();
}

// Waits for our calls that are inside CUPTI on other threads; only pops follow after the phase has changed. Not for
// ever: this may be a callback of the application for which our flush waits.
void WaitForCallbacks(const GpuState& state) {
  for (int naps = 0; state.inside_callbacks.load() != 0 && naps < 10000; ++naps) SleepFor(100'000);
}

// Nothing is to be done around calls until CUPTI has been handed over and is free again.
bool IsSettled(const GpuState& state) {
  uint32_t phase = state.phase.load();
  bool is_quiet = phase == kGpuOff || phase == kGpuYielded || (phase == kGpuCupti && state.has_buffers.load() != 0);
  return is_quiet && state.beside.load() == kNeverBeside && state.exit_handler_due.load() == 0;
}

// From now on the thread's calls do not come here. Checked again afterwards: ResumeGpuTime changes the phase before it
// calls all threads back.
__attribute__((noinline, cold)) void Settle(const GpuState& state, ThreadState* thread) {
  __atomic_store_n(&thread->detail_families, HostDetailFamilies(), __ATOMIC_SEQ_CST);
  if (!IsSettled(state)) __atomic_store_n(&thread->detail_families, DetailFamilies(), __ATOMIC_SEQ_CST);
}

void CallThreadsBack() {
  ProcessState* process = GetProcess();
  if (process == nullptr) return;
  for (ThreadState& thread : process->threads) {
    if (thread.active != 0) __atomic_store_n(&thread.detail_families, DetailFamilies(), __ATOMIC_SEQ_CST);
  }
}

// Whether launches of graphs are told wrong once CUPTI's kinds were disabled.
bool MixesGraphs(const CuptiApi& api, const GpuState& state) {
  return api.version < cupti::kVersionGraphSessions && state.has_graphs.load(std::memory_order_relaxed) != 0;
}

}  // namespace

void WriteGpuRecord(ThreadState* thread, RecordHeader* record, bool patient, const void* text, uint32_t text_bytes) {
  static uint32_t naps = 0;  // of dlhook-gpu, which alone is patient
  if (thread->active == 0 || WriteDescription(thread, record, text, text_bytes, patient ? &naps : nullptr)) return;
  if (thread->active != 0) thread->session->gpu_dropped_ring.fetch_add(1, std::memory_order_relaxed);
}

std::atomic<GpuState*> g_gpu_state{nullptr};

GpuState* GetGpuState() { return OneForEachProcess(&g_gpu_state); }

uint32_t GpuFamilies() {
  uint32_t families = g_families.load(std::memory_order_relaxed);
  if (__builtin_expect(families == 0, 0)) families = FindFamilies();
  return families & ~kNoFamilies;
}

void BeginGpuCall(ThreadState* thread, uint64_t sequence) {
  GpuState* state = g_gpu_state.load(std::memory_order_acquire);
  if (__builtin_expect(state == nullptr || state->phase.load(std::memory_order_relaxed) == kGpuUntouched, 0)) {
    OpenFirst(thread);
    state = g_gpu_state.load(std::memory_order_acquire);
  }
  bool is_beside = state != nullptr && state->beside.load(std::memory_order_relaxed) == kBeside;
  if (__builtin_expect(!is_beside, 1)) return;
  state->inside_callbacks.fetch_add(1);  // as in callbacks: the thread that hands CUPTI over waits for us
  if (state->phase.load() == kGpuCupti) PushGpuCall(*LoadedCupti(), thread, sequence);
  state->inside_callbacks.fetch_sub(1);
}

void EndGpuCall(ThreadState* thread) {
  if (GpuEventsOn()) EndCallEvents(thread);
  GpuState* state = g_gpu_state.load(std::memory_order_acquire);
  if (__builtin_expect(state == nullptr, 0)) return;
  if (__builtin_expect(state->exit_handler_due.load(std::memory_order_relaxed) != 0, 0)) RegisterExitHandler(state);
  if (__builtin_expect(state->beside.load(std::memory_order_relaxed) != kNeverBeside, 0) && LoadedCupti() != nullptr) {
    state->inside_callbacks.fetch_add(1);
    PopGpuCall(*LoadedCupti(), thread);
    state->inside_callbacks.fetch_sub(1);
  }
  if (IsSettled(*state)) Settle(*state, thread);
}

void StartGpuTime() {
  ThreadState* thread = AttachThread(GpuFamilies());
  if (thread != nullptr) OpenFirst(thread);
}

void YieldGpuTime(const char* reason) {
  GpuState* state = GpuFamilies() == 0 ? nullptr : GetGpuState();
  if (state == nullptr) return;
  Undisturbed undisturbed;
  {
    SpinLockHolder holder(&state->control);
    uint32_t phase = state->phase.load();
    bool was_on = phase == kGpuCupti;
    if (phase == kGpuOff) HandOverCupti(state);
    if (phase != kGpuEvents && phase != kGpuOff) state->phase.store(kGpuYielded);
    WaitForCallbacks(*state);
    if (was_on) {
      bool has_ring = dlhook_thread != nullptr && dlhook_thread->active != 0;
      ThreadState* thread = has_ring ? dlhook_thread : AttachThread(GpuFamilies());
      TellWindow(thread, GpuTimeSource::kNone, reason);
      CloseCupti(*LoadedCupti(), state, true);
      ReportCapability(kCapability, LibraryName(), CapabilityState::kLost, reason);
    } else if (phase == kGpuUntouched || phase == kGpuStarting) {
      ReportCapability(kCapability, LibraryName(), CapabilityState::kRefused, reason);
    }
  }
  WaitUntilFed(state, kLongestFeedMs);
}

bool HasGpuTimes() {
  GpuState* state = g_gpu_state.load(std::memory_order_acquire);
  if (state == nullptr) return false;
  uint32_t phase = state->phase.load(std::memory_order_relaxed);
  if (phase == kGpuEvents) {  // also without any GPU
    const EventState* events = LiveEventState();
    return events != nullptr && events->contexts_made.load(std::memory_order_relaxed) != 0;
  }
  return phase == kGpuCupti && state->has_buffers.load(std::memory_order_relaxed) != 0;
}

void RecordGpuTimes(bool is_wanted) {
  GpuState* state = g_gpu_state.load(std::memory_order_acquire);
  if (state == nullptr) return;
  Undisturbed undisturbed;
  SpinLockHolder holder(&state->control);
  if (state->phase.load() != kGpuCupti || state->is_between_windows != is_wanted) return;
  const CuptiApi& api = *LoadedCupti();
  bool may_block = api.version < cupti::kVersionSafeDisable && GetConfig().budget.is_of_gpu_use;
  if (!is_wanted && (may_block || MixesGraphs(api, *state))) return;
  if (is_wanted && MixesGraphs(api, *state)) {
    TellWindow(dlhook_thread, GpuTimeSource::kNone,
               "graphs were made after a pause, and CUPTI before 13.1 Update 1 then mixes up their launches");
    return;
  }
  state->is_between_windows = !is_wanted;
  if (!is_wanted) TellWindow(dlhook_thread, GpuTimeSource::kNone, kBetweenWindows);
  SwitchCupti(api, *state, is_wanted);
  if (is_wanted) TellWindow(dlhook_thread, GpuTimeSource::kCupti, "");
}

void ResumeGpuTime() {
  GpuState* state = g_gpu_state.load(std::memory_order_acquire);
  uint32_t yielded = kGpuYielded;
  if (state != nullptr && state->phase.compare_exchange_strong(yielded, kGpuUntouched)) CallThreadsBack();
}

void PauseGpuTime() {
  GpuState* state = g_gpu_state.load(std::memory_order_acquire);
  if (state->phase.load() != kGpuCupti || LoadedCupti()->version < cupti::kVersionGraphSessions) return;
  YieldGpuTime("recording is stopped");
  ResumeGpuTime();
}

void FinishGpuTime() {
  GpuState* state = g_gpu_state.load(std::memory_order_acquire);
  if (state == nullptr || state->has_thread.load() == 0) return;
  ErrnoKeeper keeper;
  StopGpuThread(state);
  state->phase.store(kGpuOff);
}

void FinishGpuTimeAtExit() {
  // Not atexit: that would require __cxa_atexit, which belongs to the C++ runtime's interface.
  on_exit([](int, void*) { FinishGpuTime(); }, nullptr);
}

void AbandonGpuTime() {
  GpuState* state = g_gpu_state.load(std::memory_order_acquire);
  if (state == nullptr) return;
  state->phase.store(kGpuOff);  // even if another thread is about to open
  if (state->has_thread.load() == 0) return;
  state->is_abandoned.store(1);
  StopGpuThread(state);
}

}  // namespace dlhook::inline gpu
