// The state of this process, in memory that is wiped in a forked child (MADV_WIPEONFORK): a child starts from zero,
// with its own session, rings and trace, whatever locks its parent's other threads held at the fork.
// Thread: any.
#pragma once

#include "preload/base/spin_lock.h"
#include "preload/format/session.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline runtime {

constexpr uint32_t kMaxRegistryObjects = 1024;
constexpr uint32_t kMaxRegistryCapabilities = 256;

enum ProcessPhase : uint32_t { kUntouched = 0, kStarting = 1, kRecording = 2, kFailed = 3, kFinished = 4 };

struct ProcessState {
  std::atomic<uint32_t> phase;  // ProcessPhase; futex
  SessionHeader* session;
  char ring_path[128];  // of the mapping; empty: private memory
  uint64_t ring_device;
  uint64_t ring_inode;
  char link_name[136];  // name.ring in the run folder; empty: none
  uint64_t ring_bytes_total;
  uint64_t growth_bytes;
  std::atomic<uint32_t> writer_started;
  std::atomic<uint32_t> writer_ready;     // futex; words: process/writer_thread.cc
  std::atomic<uint32_t> writer_stop;      // futex
  std::atomic<uint32_t> writer_failures;  // to start one
  pthread_t writer;
  std::atomic<uint64_t> calls_of_guests;  // before the session: not recorded
  // Which entries of the registry are in this process's trace.
  std::atomic<bool> written_objects[kMaxRegistryObjects];
  std::atomic<bool> written_capabilities[kMaxRegistryCapabilities];
  SpinLock definitions_lock;
  uint64_t definitions_allocated;  // bytes with real pages
  ThreadState threads[kMaxSlots];
};

// Null if there is no memory for it.
ProcessState* GetProcess();

// The same, null if it was not created yet. No system call.
ProcessState* FindProcess();

}  // namespace dlhook::inline runtime

namespace dlhook::inline process {

// Slow path of attaching: creates files, mapping and, if no other process drains, the writer thread. False: this
// process can't be recorded.
bool StartSession(ProcessState* process);

// Starts the writer thread unless there is one, and waits until it has opened its files. Also called when the collector
// turns out to be gone.
void StartWriter(ProcessState* process);

// Drains the rest, writes the footer, removes the mapping's file. Waits for it with a limit: a host that exits must
// exit.
void StopWriter(ProcessState* process);

// The clocks as read by the constructor (which of the two tick sources will be used is not known yet).
struct LoadTime {
  ClockSample sample;  // ticks: TSC
  uint32_t pid;        // 0: the constructor has not run
};
extern LoadTime g_load_time;

}  // namespace dlhook::inline process
