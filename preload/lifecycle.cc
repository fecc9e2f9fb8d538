// Beginning and end of a recorded process: constructor, start of the session at the first recorded call, writer thread,
// destructor.
// Thread: the constructor's and destructor's are the loader's; StartSession runs on the first thread that makes a hooked
// call, inside that call.
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <new>

#include "preload/core/config.h"
#include "preload/core/hook_table.h"
#include "preload/core/identity.h"
#include "preload/core/process_state.h"
#include "preload/core/session_files.h"
#include "preload/drain/drain.h"

namespace dlhook {

LoadTime g_load_time;

namespace {

// The writer sleeps between these, the shorter the fuller the rings were.
constexpr long kShortNapNs = 500 * 1000;
constexpr long kLongNapNs = 8 * 1000 * 1000;

ClockSample LoadSample(ClockKind kind, const ClockSample& now) {
  if (g_load_time.pid != static_cast<uint32_t>(getpid())) return now;  // a forked child, or no constructor yet
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
  // Too early to tell from the two samples: one millisecond gives four digits.
  timespec nap = {0, 1000 * 1000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
  session->ticks_per_second = EstimateTicksPerSecond(kind, session->clock_samples[1], TakeClockSample(kind));
}

void FillHeader(const Config& config, SessionHeader* session) {
  session->layout = kSessionLayout;
  session->hook_table_hash = kHookTableHash;
  snprintf(session->tool_version, sizeof session->tool_version, "%s", DLHOOK_VERSION);
  session->configured_families = config.families;
  session->trace_bytes_limit = config.max_bytes;
  // Private memory can't be drained from outside.
  bool outside = config.drain == DrainMode::kCollector && session->is_private == 0;
  session->collector_pid = outside ? config.collector_pid : 0;
  StartClock(config, session);
}

// The header is complete before its magic number says so and before the link makes it findable.
void Publish(ProcessState* process, const Config& config) {
  SessionHeader* session = process->session;
  std::atomic_thread_fence(std::memory_order_release);
  session->magic = kSessionMagic;
  session->stopped_ticks.store(session->shim_loaded_ticks);
  session->stopped.store(config.start_recording ? 0 : 1);
  session->enabled_families.store(config.start_recording ? config.families : 0, std::memory_order_release);
  PublishRing(process);
}

struct Identity {
  char folder[4096];
  char requested[256];
  char refusal[96];
  char key[96];
};

struct Writer {
  FileSink sink;
  Drain drain;
};

// In pages of its own (the host's heap is not ours to use) and new for each process: a forked child must not see its
// parent's.
Writer* NewWriter() {
  void* memory = mmap(nullptr, sizeof(Writer), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) Writer;
}

void* WriterMain(void* argument) {
  auto process = static_cast<ProcessState*>(argument);
  Writer* writer = NewWriter();
  if (writer == nullptr || !writer->sink.Open(process->session->trace_path, true) ||
      !writer->drain.Open(process->session, process->session->mapping_bytes, &writer->sink)) {
    return nullptr;
  }
  Drain& drain = writer->drain;
  long nap_ns = kShortNapNs;
  while (process->writer_stop.load(std::memory_order_acquire) == 0) {
    uint32_t fullness = drain.Step(false, true);
    nap_ns = fullness > 32 ? kShortNapNs : nap_ns * 2 > kLongNapNs ? kLongNapNs : nap_ns * 2;
    timespec nap = {0, nap_ns};
    syscall(SYS_futex, &process->writer_stop, FUTEX_WAIT_PRIVATE, 0, &nap, nullptr, 0);
  }
  drain.Finish(ProcessEnd::kExited, true);
  writer->sink.Close();
  RemoveRing(process);
  return nullptr;
}

// A last word is given a limited time: a host that exits must exit.
void StopWriter(ProcessState* process) {
  process->writer_stop.store(1, std::memory_order_release);
  syscall(SYS_futex, &process->writer_stop, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  timespec deadline;
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += 10;
  pthread_timedjoin_np(process->writer, nullptr, &deadline);
}

__attribute__((constructor)) void OnLoad() {
  g_load_time = {TakeClockSample(ClockKind::kTsc), static_cast<uint32_t>(getpid())};
  GetConfig();
}

__attribute__((destructor)) void OnUnload() {
  ProcessState* process = GetProcess();
  if (process == nullptr) return;
  uint32_t phase = process->phase.exchange(kFinished);
  if (phase != kRecording) return;
  int saved_errno = errno;
  SessionHeader* session = process->session;
  session->enabled_families.store(0);
  session->exit_ticks = ReadTicks(static_cast<ClockKind>(session->clock_kind));
  session->exited.store(1, std::memory_order_release);
  if (process->writer_started.load() != 0) StopWriter(process);
  errno = saved_errno;
}

}  // namespace

// The shim links no C++ runtime; nothing ever calls a pure virtual function.
extern "C" __attribute__((visibility("hidden"))) void __cxa_pure_virtual() { __builtin_trap(); }

bool StartSession(ProcessState* process) {
  const Config& config = GetConfig();
  static Identity identity;  // too large for the stack of a small thread; one starter at a time
  memset(&identity, 0, sizeof identity);
  MakeRunKey(identity.key, sizeof identity.key);
  if (!ChooseRunFolder(config, identity.key, &identity.folder, &identity.requested, &identity.refusal)) return false;
  process->ring_bytes_total = config.ring_bytes_total;
  SessionHeader* session = MapSession(process, identity.folder);
  if (session == nullptr) return false;
  process->session = session;
  memcpy(session->run_key, identity.key, sizeof session->run_key);
  memcpy(session->requested_output, identity.requested, sizeof session->requested_output);
  memcpy(session->output_refusal, identity.refusal, sizeof session->output_refusal);
  DescribeProcess(session);
  FillHeader(config, session);
  if (!CreateTrace(identity.folder, session)) {
    RemoveRing(process);
    return false;
  }
  Publish(process, config);
  if (config.verbose) {
    dprintf(STDERR_FILENO, "dlhook: recording to %s%s%s\n", session->trace_path, config.complaint[0] != '\0' ? "; " : "",
            config.complaint);
  }
  return true;
}

void StartWriter(ProcessState* process) {
  bool nobody_drains = GetConfig().drain == DrainMode::kNone && process->session->is_private == 0;
  if (nobody_drains || process->writer_started.exchange(1) != 0) return;
  process->session->drained_by_host.store(1);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);  // glibc keeps its own 32 and 33 out of it
  if (pthread_create(&process->writer, nullptr, &WriterMain, process) != 0) {
    process->writer_started.store(0);
    process->session->drained_by_host.store(0);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace dlhook
