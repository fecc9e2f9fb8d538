#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "preload/base/own_memory.h"
#include "preload/base/own_pages.h"
#include "preload/base/own_thread.h"
#include "preload/format/clock.h"
#include "preload/format/gpu_records.h"
#include "preload/gpu/activity_buffers.h"
#include "preload/gpu/cupti_api.h"
#include "preload/gpu/cupti_callbacks.h"
#include "preload/gpu/cupti_session.h"
#include "preload/gpu/event_calls.h"
#include "preload/gpu/gpu_devices.h"
#include "preload/gpu/gpu_time.h"
#include "preload/runtime/process_state.h"
#include "preload/runtime/registry.h"
#include "preload/runtime/undisturbed.h"

namespace dlhook::inline gpu {
namespace {

constexpr size_t kStackBytes = 2 << 20;  // CUPTI runs on it
constexpr uint64_t kFlushNs = 1000 * 1000 * 1000;
constexpr uint32_t kMostWithoutTimes = 512;  // in a row
constexpr uint64_t kEventsNs = 5 * 1000 * 1000;
constexpr time_t kLongestCloseSeconds = 5;  // of CUPTI, at the end
constexpr time_t kLongestEndSeconds = 10;

// Work done while recording is stopped (dlhook ctl stop) is dropped, and CUPTI is closed where it survives that.
void FollowStops(GpuState* state) {
  const SessionHeader* session = state->own->session;
  uint32_t switches = session->switches.load(std::memory_order_acquire);
  uint32_t unseen = switches - state->known_switches;
  if (unseen == 0) return;
  state->known_switches = switches;
  auto real_ns = [&](const std::atomic<uint64_t>& then) {
    uint64_t ticks = ReadTicks(state->own->clock) - then.load(std::memory_order_relaxed);
    double ago_ns = static_cast<double>(ticks) * 1e9 / static_cast<double>(TicksPerSecond(*session));
    return ClockNanoseconds(CLOCK_REALTIME) - static_cast<uint64_t>(ago_ns);
  };
  bool is_stopped = switches % 2 != 0;
  if (is_stopped || unseen > 1) state->stopped_from_ns = real_ns(session->stopped_ticks);
  state->stopped_to_ns = is_stopped ? 0 : real_ns(session->started_ticks);
  if (is_stopped) PauseGpuTime();
}

bool WasStopped(const GpuState& state, uint64_t time_ns) {
  return state.stopped_from_ns != 0 && time_ns >= state.stopped_from_ns &&
         (state.stopped_to_ns == 0 || time_ns < state.stopped_to_ns);
}

// ---- Names of kernels, which CUPTI gives as pointers into foreign memory. In a program with more of them than the tables have room
// for, later ones are read and defined again each time.

constexpr size_t kMostNameBytes = 4096;

// Containers may forbid the system call; then a file of /proc works.
size_t CopyByFile(uint64_t address, char* to, size_t size) {
  ErrnoKeeper keeper;
  int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  ssize_t copied = memory < 0 ? -1 : pread(memory, to, size, static_cast<off_t>(address));
  if (memory >= 0) close(memory);
  return copied < 0 ? 0 : static_cast<size_t>(copied);
}

size_t CopyName(uint64_t address, char* to, size_t size) {
  size_t copied = CopyOwnMemory(address, to, size);
  return copied != 0 ? copied : CopyByFile(address, to, size);
}

// A pointer is valid for one `generation` only: after a module is unloaded, another name may be at its address.
uint32_t DefineKernelName(KernelNames* names, const char* name, uint32_t generation) {
  if (name == nullptr) return 0;
  uint64_t key = HashBytes(reinterpret_cast<const char*>(&name), sizeof name);
  auto entry = names->by_pointer.Find(key);
  if (entry != nullptr && entry->used == generation + 1) return entry->definition;
  // Its module may be gone: never read directly.
  char copy[kMostNameBytes];
  size_t size = strnlen(copy, CopyName(reinterpret_cast<uint64_t>(name), copy, sizeof copy));
  if (size == 0) ++names->unread;
  uint32_t definition = size == 0 ? 0 : names->by_content.Define(DefinitionKind::kKernel, copy, size);
  if (entry != nullptr) names->by_pointer.Fill(entry, key, definition, generation + 1);
  return definition;
}

const char* WhyNamesAreUnread() {
  char probe = 1, copy = 0;
  bool can_read = CopyName(reinterpret_cast<uint64_t>(&probe), &copy, 1) == 1;
  return can_read ? "their modules were unloaded before" : "process_vm_readv and /proc/self/mem are denied here";
}

// ---- Buffers

void FeedActivity(GpuState* state, GpuActivityRecord* activity, const char* kernel_name) {
  if (WasStopped(*state, activity->start_ns)) return;
  uint32_t unloads = state->module_unloads.load(std::memory_order_relaxed);
  activity->kernel = state->names == nullptr ? 0 : DefineKernelName(state->names, kernel_name, unloads);
  NoteGpuDevice(state->own, activity->device);
  WriteGpuRecord(state->own, &activity->header, true);
}

void FeedRecord(GpuState* state, const CuptiApi& api, const void* record) {
  GpuActivityRecord activity;
  GpuLinkRecord link;
  const char* kernel_name = nullptr;
  switch (ReadActivity(record, api.version, state->clock_offset_ns, &activity, &kernel_name)) {
    case ActivityUse::kActivity:
      state->left_out.in_a_row = 0;
      return FeedActivity(state, &activity, kernel_name);
    case ActivityUse::kWithoutTimes:
      ++state->left_out.without_times;
      ++state->left_out.in_a_row;
      return;
    case ActivityUse::kDevice:
      return NoteCuptiDevice(state->own, *static_cast<const cupti::DeviceRecord*>(record), api.version);
    case ActivityUse::kLink:
      if (!LinkOf(*static_cast<const cupti::ExternalCorrelationRecord*>(record), &link)) return;
      WriteGpuRecord(state->own, &link.header, true);
      return;
    case ActivityUse::kNotNeeded:
      return;
    case ActivityUse::kUnknown:
      ++state->left_out.unknown_kinds;
      state->left_out.last_unknown_kind = *static_cast<const uint32_t*>(record);
      return;
  }
}

void FeedBuffer(GpuState* state, const CuptiApi& api, const ActivityBuffer& buffer) {
  void* record = nullptr;
  while (api.get_next_record(buffer.data, buffer.valid, &record) == cupti::kSuccess && record != nullptr) {
    if (state->own != nullptr) {
      FeedRecord(state, api, record);
    } else {
      GetProcess()->session->gpu_dropped_ring.fetch_add(1, std::memory_order_relaxed);
    }
  }
}

void FeedAll(GpuState* state) {
  const CuptiApi* api = LoadedCupti();
  state->feeding.store(1);
  if (state->own != nullptr) FollowStops(state);
  while (ActivityBuffer* buffer = api == nullptr ? nullptr : NextFullBuffer(&state->buffers)) {
    FeedBuffer(state, *api, *buffer);
    ReturnActivityBuffer(&state->buffers, buffer);
  }
  state->feeding.store(0, std::memory_order_release);
}

// Flushes what is complete, so that little is lost if the process is killed. Without the lock: a callback of the
// application that calls CUPTI itself needs that lock, and CUPTI may make our flush wait for the callback.
void Flush(GpuState* state) {
  const CuptiApi* api = LoadedCupti();
  AdaptRecords(&state->buffers);
  state->inside_callbacks.fetch_add(1);  // the thread that hands CUPTI over waits for us
  if (state->phase.load() == kGpuCupti) {
    if (state->buffers.at_cupti.load(std::memory_order_relaxed) != 0) api->flush_all(0);
    CountDroppedRecords();
  }
  state->inside_callbacks.fetch_sub(1);
}

void TellLeftOut(const GpuLeftOut& left_out, uint64_t unread_names) {
  const CuptiApi* api = LoadedCupti();
  char reason[400];
  if (api == nullptr || (left_out.without_times | left_out.unknown_kinds | unread_names) == 0) return;
  int used = 0;
  if (left_out.without_times != 0) {
    used = snprintf(reason, sizeof reason, "%lu activities had no times: %s", left_out.without_times,
                    "they were not complete when they were asked for");
  }
  if (left_out.unknown_kinds != 0) {
    used += snprintf(reason + used, sizeof reason - static_cast<size_t>(used),
                     "%s%lu records of kinds unknown to dlhook (the last one %u)", used == 0 ? "" : "; ",
                     left_out.unknown_kinds, left_out.last_unknown_kind);
  }
  if (unread_names != 0) {
    snprintf(reason + used, sizeof reason - static_cast<size_t>(used), "%s%lu names of kernels could not be read: %s",
             used == 0 ? "" : "; ", unread_names, WhyNamesAreUnread());
  }
  ReportCapability("gpu-activities", api->library, CapabilityState::kLost, reason);
}

void Serve(GpuState* state) {
  uint64_t next_flush_ns = ClockNanoseconds(CLOCK_MONOTONIC) + kFlushNs;
  for (;;) {
    uint32_t seen = state->wake.load(std::memory_order_acquire);
    if ((seen & 1) != 0) return;
    FeedAll(state);
    // CUPTI has no more room on the device, or is damaged: what follows is not known, and no idle time.
    if (state->left_out.in_a_row >= kMostWithoutTimes) {
      state->left_out.in_a_row = 0;  // what a closing flush reports is no sign
      if (state->phase.load() == kGpuCupti) YieldGpuTime("CUPTI reported work without times, and was closed");
    }
    if (GpuEventsOn() && state->own != nullptr) CollectEvents(state->own);
    uint64_t now_ns = ClockNanoseconds(CLOCK_MONOTONIC);
    if (now_ns >= next_flush_ns) {
      Flush(state);
      FeedAll(state);
      next_flush_ns = now_ns + kFlushNs;
    }
    uint64_t nap_ns = GpuEventsOn() ? kEventsNs : next_flush_ns - now_ns;
    FutexWait(&state->wake, seen, TimespecOf(nap_ns));
  }
}

// The last call into CUPTI. Not on the thread that ends the process: exit may have been called by a signal handler that
// interrupted CUPTI, whose lock would then never be released.
void CloseAtEnd(GpuState* state) {
  {
    SpinLockHolder holder(&state->control);
    uint32_t phase = state->phase.exchange(kGpuOff);
    if (phase == kGpuCupti && state->is_abandoned.load() == 0) CloseCupti(*LoadedCupti(), state, false);
  }
  state->is_closed.store(1);
}

void* GpuThreadMain(void* argument) {
  UncountedThread uncounted;
  auto state = static_cast<GpuState*>(argument);
  prctl(PR_SET_NAME, "dlhook-gpu");
  state->own = AttachThread(GpuFamilies());
  state->names = static_cast<KernelNames*>(MapOwnPages(sizeof(KernelNames)));
  Serve(state);
  CloseAtEnd(state);
  FeedAll(state);
  if (state->own != nullptr) {
    if (state->is_abandoned.load() == 0) FinishEvents(state->own);
    TellLeftOut(state->left_out, state->names == nullptr ? 0 : state->names->unread);
  }
  return nullptr;
}

}  // namespace

bool StartGpuThread(GpuState* state) {
  if (state->has_thread.load() != 0) return true;
  Undisturbed undisturbed;  // it inherits blocked signals
  static void* stack = nullptr;
  bool created = StartOwnThread(&stack, kStackBytes, &GpuThreadMain, state, &state->thread);
  if (created) state->has_thread.store(1);
  return created;
}

void WakeGpuThread(GpuState* state) {
  state->wake.fetch_add(2, std::memory_order_release);
  FutexWake(&state->wake, 1);
}

void WaitUntilFed(GpuState* state, uint32_t milliseconds) {
  uint64_t end_ns = ClockNanoseconds(CLOCK_MONOTONIC) + uint64_t{milliseconds} * 1000000;
  if (dlhook_thread == state->own) return;  // which feeds
  while (HasFullBuffer(&state->buffers) || state->feeding.load(std::memory_order_acquire) != 0) {
    if (state->has_thread.load() == 0 || ClockNanoseconds(CLOCK_MONOTONIC) > end_ns) return;
    SleepFor(100'000);
  }
}

void StopGpuThread(GpuState* state) {
  if (state->has_thread.exchange(0) == 0) return;
  state->wake.fetch_or(1, std::memory_order_release);
  FutexWake(&state->wake, 1);
  int cancel_state;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
  bool has_ended = JoinWithin(state->thread, kLongestCloseSeconds);
  if (!has_ended && state->is_closed.load() != 0) JoinWithin(state->thread, kLongestEndSeconds);
  pthread_setcancelstate(cancel_state, nullptr);
}

void CountScratchRecords(uint8_t* buffer, size_t valid) {
  const CuptiApi* api = LoadedCupti();
  ProcessState* process = GetProcess();
  uint64_t records = 0;
  void* record = nullptr;
  GpuState* state = g_gpu_state.load(std::memory_order_acquire);
  if (api == nullptr || process == nullptr || process->session == nullptr) return;
  if (state == nullptr || state->was_open.load() == 0 || state->is_closed.load() != 0) return;
  while (api->get_next_record(buffer, valid, &record) == cupti::kSuccess && record != nullptr) ++records;
  process->session->gpu_dropped_cupti.fetch_add(records, std::memory_order_relaxed);
}

void CountDroppedRecords() {
  const CuptiApi* api = LoadedCupti();
  ProcessState* process = GetProcess();
  size_t dropped = 0;
  if (api == nullptr || process == nullptr || process->session == nullptr) return;
  if (api->get_dropped(nullptr, 0, &dropped) != cupti::kSuccess) return;
  process->session->gpu_dropped_cupti.fetch_add(dropped, std::memory_order_relaxed);
}

}  // namespace dlhook::inline gpu
