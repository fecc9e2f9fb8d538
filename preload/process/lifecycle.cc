// Beginning and end of a recorded process: constructor, start of the session at the first recorded call, destructor.
// Thread: the loader's for the constructor and destructor; StartSession runs on the first thread that makes a hooked
// call, inside that call.
#include <stdio.h>
#include <stdlib.h>

#include "preload/base/libc_functions.h"
#include "preload/base/own_pages.h"
#include "preload/base/process_id.h"
#include "preload/counters/counters.h"
#include "preload/format/character.h"
#include "preload/format/hook_table.h"
#include "preload/format/identity.h"
#include "preload/gpu/gpu_time.h"
#include "preload/link/dlsym.h"
#include "preload/runtime/parts.h"
#include "preload/runtime/registry.h"
#include "preload/runtime/session_files.h"

namespace dlhook::inline process {

LoadTime g_load_time;

namespace {

ClockSample LoadSample(ClockKind kind, const ClockSample& now) {
  if (g_load_time.pid != static_cast<uint32_t>(getpid())) return now;  // forked child, or too early
  ClockSample sample = g_load_time.sample;
  if (kind == ClockKind::kMonotonic) {
    sample.ticks = sample.monotonic_ns;
    sample.uncertainty_ticks = now.uncertainty_ticks;
  }
  return sample;
}

void StartClock(const Config& config, SessionHeader* session) {
  const char* reason = "";
  ClockKind kind = ChooseClock(config.monotonic_clock, &reason);
  session->clock_kind = static_cast<uint32_t>(kind);
  snprintf(session->clock_fallback_reason, sizeof session->clock_fallback_reason, "%s", reason);
  session->clock_samples[1] = TakeClockSample(kind);
  session->clock_samples[0] = LoadSample(kind, session->clock_samples[1]);
  session->shim_loaded_ticks = session->clock_samples[0].ticks;
  session->ticks_per_second = EstimateTicksPerSecond(kind, session->clock_samples[0], session->clock_samples[1]);
  if (session->ticks_per_second != 0) return;
  // The two samples are too close: one millisecond gives four digits.
  timespec nap = {0, 1000 * 1000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
  session->ticks_per_second = EstimateTicksPerSecond(kind, session->clock_samples[1], TakeClockSample(kind));
}

// The launcher of this process, if it is to drain.
struct Collector {
  uint32_t pid;  // 0: it can't
  bool is_elsewhere;
};

Collector CollectorOf(const Config& config) {
  if (config.drain != DrainMode::kCollector) return {0, false};
  char name[sizeof config.collector];
  auto pid = static_cast<uint32_t>(strtoul(config.collector, nullptr, 10));
  NameCollector(pid, name, sizeof name);
  bool is_here = strncmp(name, config.collector, strcspn(name, "/")) == 0;
  return {strcmp(name, config.collector) == 0 ? pid : 0, !is_here};
}

void FillHeader(const Config& config, uint32_t collector, SessionHeader* session) {
  snprintf(session->library, sizeof session->library, "%s", OwnPath());
  session->layout = kSessionLayout;
  session->hook_table_hash = kHookTableHash;
  snprintf(session->tool_version, sizeof session->tool_version, "%s", DLHOOK_VERSION);
  session->configured_families = config.families;
  session->trace_bytes_limit = config.max_bytes;
  session->counters_interval_ms = config.counters[0] == '\0' ? 0 : config.counters_interval_ms;
  session->counters_at_interval_only = config.counters_at == CountersAt::kTime;
  snprintf(session->counters, sizeof session->counters, "%s", config.counters);
  session->sample_interval_ns = config.sample_hz == 0 ? 0 : 1'000'000'000 / config.sample_hz;
  session->collector_pid = session->is_private != 0 ? 0 : collector;  // private memory can't be drained from outside
  StartClock(config, session);
}

// The header is complete before its magic number says so.
void CompleteHeader(const Config& config, SessionHeader* session) {
  std::atomic_thread_fence(std::memory_order_release);
  session->magic = kSessionMagic;
  session->stopped_ticks.store(session->shim_loaded_ticks);
  bool starts = config.start == StartMode::kOn;
  session->switches.store(starts ? 0 : 1);
  session->enabled_families.store(starts ? config.families : 0, std::memory_order_release);
}

char g_script[64];

struct Identity {
  RunPlace place;
  char key[96];
};

// torch.compile reads these when Python begins. What the user has set stays.
void AskCompilerForKernels() {
  setenv("TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE", "1", 0);
  setenv("INDUCTOR_PROVENANCE", "1", 0);
}

__attribute__((constructor)) void OnLoad(int, char** argv, char**) {
  ScriptAtStart(argv, &g_script);
  g_load_time = {TakeClockSample(ClockKind::kTsc), ProcessId()};  // known before a child that shares this memory asks
  if (GetConfig().compiled == CompiledMode::kModules) AskCompilerForKernels();
  HideVariablesFromRaceCheckers();
  if (GetConfig().sample_hz != 0) AttachThread(kForSamples);
}

// If nothing was recorded for a known reason, the trace reports it.
void TellWhyNothing(ProcessState* process) {
  bool is_silent = process->phase.load(std::memory_order_acquire) == kUntouched;
  bool has_reason = IsALibraryRefused() || process->calls_of_guests.load() != 0;
  if (is_silent && g_load_time.pid == static_cast<uint32_t>(getpid()) && has_reason) AttachThread(GetConfig().families);
}

__attribute__((destructor)) void OnUnload() {
  ProcessState* process = GetProcess();
  if (process == nullptr) return;
  TellWhyNothing(process);
  AbandonGpuTime();  // if its own exit handler has run, nothing is left
  ThreadState* thread = dlhook_thread;
  uint32_t phase = process->phase.exchange(kFinished);
  if (phase != kRecording) return;
  ErrnoKeeper keeper;
  SessionHeader* session = process->session;
  if (thread != nullptr && thread->active != 0) FlushRegistry(thread);  // what did not fit into the full ring earlier
  CloseProcessCounters();
  if (thread != nullptr && thread->active != 0) CloseThreadSamples(thread);
  session->enabled_families.store(0);
  session->exit_ticks = NowTicks(*session);
  session->exited.store(1, std::memory_order_release);
  StopWriter(process);
}

// For a process that ends without running its destructors, such as workers of Python's multiprocessing. A child of
// vfork has its parent's memory, but not its pid.
[[noreturn]] void Leave(int status) {
  ProcessState* process = FindProcess();  // a sandbox may forbid creating it
  if (process != nullptr && process->phase.load(std::memory_order_acquire) == kRecording &&
      process->session->pid == static_cast<uint32_t>(getpid())) {
    process->session->left_ticks.store(NowTicks(*process->session));
  }
  dlhook_libc__exit(status);
}

// Creates the files. Their folder stays open.
bool MakeFiles(ProcessState* process, const Config& config, Identity* identity) {
  RunPlace* place = &identity->place;
  if (!ChooseRunFolder(config, identity->key, place)) return false;
  process->ring_bytes_total = config.ring_bytes_total;
  process->growth_bytes = config.growth_bytes;
  Collector collector = CollectorOf(config);
  // In a different container than the launcher: its /dev/shm may disappear with it, and only the run folder is visible
  // to both.
  place->for_rings = collector.is_elsewhere;
  SessionHeader* session = MapSession(process, *place);
  if (session == nullptr) return false;
  process->session = session;
  memcpy(session->run_key, identity->key, sizeof session->run_key);
  DescribeProcess(g_script, session);
  FillHeader(config, collector.pid, session);
  if (!CreateTrace(place, session)) {
    RemoveRing(process, RunFolders());
    return false;
  }
  memcpy(session->requested_output, place->requested, sizeof session->requested_output);
  memcpy(session->output_refusal, place->refusal, sizeof session->output_refusal);
  session->no_ring_calls.store(process->calls_of_guests.load());
  NameLink(process);
  CompleteHeader(config, session);
  return true;
}

// The run folder's descriptor, -1: this process can't be recorded.
int StartSessionHere(ProcessState* process) {
  const Config& config = GetConfig();
  static Identity identity;  // one starter at a time
  memset(&identity, 0, sizeof identity);
  MakeRunKey(identity.key, sizeof identity.key);
  bool made = MakeFiles(process, config, &identity);
  if (!made && identity.place.folder >= 0) close(identity.place.folder);
  if (!made) return -1;
  if (config.complaint[0] != '\0') ReportCapability("variables", "", CapabilityState::kRefused, config.complaint);
  if (config.verbose) {
    const SessionHeader* session = process->session;
    static char path[sizeof session->trace_path], complaint[2 * sizeof config.complaint];  // one starter at a time
    SpellOut(session->trace_path, path, sizeof path);
    SpellOut(config.complaint, complaint, sizeof complaint);
    dprintf(STDERR_FILENO, "dlhook: recording to %s%s%s\n", path, complaint[0] != '\0' ? "; " : "", complaint);
  }
  return identity.place.folder;
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) void _exit(int status) { Leave(status); }
__attribute__((visibility("default"))) void _Exit(int status) noexcept { Leave(status); }
}

// The shim is linked with no C++ runtime; pure virtual functions are never called.
extern "C" __attribute__((visibility("hidden"))) void __cxa_pure_virtual() { __builtin_trap(); }

// The paths alone would fill a small thread's stack.
bool StartSession(ProcessState* process) {
  if (IsLaterShim()) return false;
  struct Start {
    ProcessState* process;
    int folder;
  } start = {process, -1};
  CallOnOwnStack(
      [](void* argument) {
        auto start = static_cast<Start*>(argument);
        start->folder = StartSessionHere(start->process);
      },
      &start);
  if (start.folder < 0) return false;
  // Other processes may find the rings only after it is decided who drains them.
  if (process->session->collector_pid == 0) StartWriter(process);
  if (!PublishRing(process, start.folder) && process->session->collector_pid != 0) {
    process->session->collector_pid = 0;
    StartWriter(process);
  }
  close(start.folder);
  return true;
}

}  // namespace dlhook::inline process
