// Layout of the memory that a recorded process shares with its drain: one mapping (of a file on tmpfs if possible),
// with a header with the process's identity and control words, and one ring per thread.
//
//   +0                 SessionHeader (control words, identity, slots, checkpoints)
//   +kSessionDataStart definitions: texts that records refer to (format/definitions.h), allocated on demand
//   +kStackNodesStart  StackNodes (format/stack_nodes.h), allocated on demand
//   +kOpenScopesStart  each slot's OpenScopes (format/open_scopes.h), allocated when it has its first
//   +kRingsStart       slot 0's ring, slot 1's ring, … sizes by SlotBytes()
//   +chunks_offset     chunks: extensions for full rings (runtime/full_ring.h), allocated on demand
//
// Thread: written by the host (identity before publication, rings always) and by its drain (checkpoints, tails).
// Everything here may be read by another process, even after the host was killed.
#pragma once

#include "preload/format/clock.h"
#include "preload/format/processor_id.h"

namespace dlhook::inline format {

constexpr uint64_t kSessionMagic = 0x31474e5252484c44;  // "DLHRRNG1"
constexpr uint32_t kMaxSlots = 232;
constexpr uint32_t kMaxChunks = 1024;
constexpr uint32_t kMaxTapSources = 8;
constexpr uint32_t kMaxRankVariables = 16;
constexpr uint32_t kMaxSettings = 72;

// One thread's ring: single producer (the thread), single consumer (the drain). Positions count bytes since the start
// and never wrap; a record is at position & (bytes - 1) and never crosses the end of the ring. Positions outside the
// slot's chunks are in the slot's own memory.
struct alignas(64) Slot {
  // Set once, when the slot first gets memory.
  std::atomic<uint64_t> bytes;  // power of two; 0: no memory yet
  uint64_t data_offset;         // from the start of the mapping
  std::atomic<uint32_t> owned;  // 1: a live thread writes here
  std::atomic<uint32_t> tid;    // that thread: for sampling counters (drain/counter_sampler.h)
  std::atomic<uint32_t> thread_id;
  std::atomic<uint64_t> python_state;  // its PyThreadState, for readers from outside; 0: not known

  alignas(64) std::atomic<uint64_t> head;  // producer: committed up to here
  std::atomic<uint64_t> dropped;           // producer: records without room
  // The outermost call that has not returned, by OpenCallWord; 0: none. One store when it begins and one when it ends, on a
  // line that each record's commit writes.
  std::atomic<uint64_t> open_call;
  std::atomic<uint32_t> open_scopes;

  alignas(64) std::atomic<uint64_t> tail;  // consumer: free up to here
};

// A ring in which a slot continues while its own is full: positions from `start` to `end`.
struct Chunk {
  std::atomic<uint32_t> owner;      // slot + 1; 0: free; kChunkTaken: being taken
  std::atomic<uint32_t> has_pages;  // 1: its pages are allocated
  std::atomic<uint64_t> start;
  std::atomic<uint64_t> end;  // 0: the producer has not left it. The drain frees it when it has got there
};
constexpr uint32_t kChunkTaken = UINT32_MAX;

// What is kept in detail: all up to the first end, then windows of training steps (drain/drain_detail.cc).
struct DetailState {
  uint64_t start_ticks;   // of the last window; 0: the beginning of the run
  uint64_t end_ticks;     // of it; 0: it is open
  uint64_t start_bytes;   // of the trace then
  uint64_t window_bytes;  // what a window takes
  uint64_t spent_bytes;   // by all of them
  uint64_t totals_bytes;  // of the trace: totals of calls by their shapes, and what defines these
  uint64_t before_bytes;  // of the trace when the first step ended
  uint64_t steps;         // that have ended, by ends of optimizers' steps
  uint64_t window_steps;  // of them, in the last window
  uint64_t next_step;     // from which the next one may begin; without steps, the millisecond of the run
  uint64_t slow_bytes;    // spent on slow steps
  uint64_t next_slow_step;
  uint64_t last_turn_ticks;  // end of the last step or turn of optimizers
  uint64_t last_step_ticks;
  uint64_t tap_window_ticks;  // since when a tap's own window is open; 0: none
  uint32_t last_step_thread;  // before the first step, one that runs operations
  uint32_t first_update, last_update,
      final_update;  // where optimizers step: the first of a turn, the last one, a turn's last
  uint32_t updates_in_turn;
  uint32_t windows;          // that have ended
  uint32_t has_tap_windows;  // 1: operations are recorded in a tap's windows
  uint32_t has_gpu;          // 1: there are GPU times
  uint32_t has_profiles;     // 1: a compiler's library reports its operations in profiles
};

// The default of DLHOOK_MAX_BYTES: as many are added each day.
constexpr uint64_t kTraceBytesOfDay = 64 << 20;

// Counts of what was lost that are already in Loss packets.
struct ReportedLosses {
  uint64_t no_ring;
  uint64_t plain_pointers;
  uint64_t refused_definitions;
  uint64_t deep_scopes;
  uint64_t dropped_readings;
  uint64_t dropped_samples;
  uint64_t gpu_dropped_cupti;
  uint64_t gpu_dropped_ring;
  uint64_t lost_calls;
  uint64_t dropped[kMaxSlots];
};

// What the drain has made durable: written to the inactive copy, then made current by one store. A drain that takes
// over truncates the trace file to file_bytes and continues from `tails`: nothing is lost or duplicated.
struct Checkpoint {
  uint64_t file_bytes;
  uint64_t calls;  // taken out of the rings, including lost ones
  uint64_t last_record_ticks;
  uint64_t left_out_scopes;  // outside of what is kept in detail, not yet in a Loss packet
  uint64_t left_out_readings;
  uint64_t left_out_gpu;  // records outside of what is kept in detail
  uint64_t left_out_samples;
  uint64_t left_out_profiles;
  uint64_t left_out_shapes;  // calls in totals without their shapes
  uint64_t lost_calls;       // could not be written (output full), not yet in a Loss packet
  uint64_t lost_bytes;
  uint32_t lost_errno;
  uint32_t finished;  // footer written
  uint32_t switches;  // SessionHeader's, of which the trace tells
  uint32_t unused;
  ReportedLosses reported;
  DetailState detail;
  uint64_t tails[kMaxSlots];
  uint32_t thread_ids[kMaxSlots];     // of the slot's current thread, 0: none
  uint32_t python_stacks[kMaxSlots];  // the last PythonStackRecord's
};

// A range that may end on another thread than it began on (tap/record_function_hooks.cc: collective operations).
struct AsynchronousRange {
  std::atomic<const void*> owner;  // null: free
  uint64_t start_ticks;
  uint32_t thread_id;     // on which it began
  uint32_t python_stack;  // definition, 0: none
  int64_t bytes;          // of the tensors that it was given; -1: not known
  char name[40];          // as much as fits
};
constexpr uint32_t kAsynchronousRanges = 64;  // further ones are not recorded

// The lines in which a tapped library describes itself: stored here so that any drain can parse its other lines.
struct TapSource {
  std::atomic<uint32_t> ready;
  char object[64];
  char version[64];           // "v3.12.0"
  char template_fields[256];  // "operation,engine,primitive,…" of the primitive lines
};

// How to read the process's Python from outside.
struct PythonView {
  std::atomic<uint64_t> code_type;  // address of PyCode_Type; 0: not known (yet), or no more
  char layout[64];                  // a PythonLayout (python/python_layout.h)
};

// A variable of the environment.
struct Setting {
  char name[32];
  char value[64];
};

// Any build reads the members up to `library`, to say which one can read the rest: they stay where they are.
struct SessionHeader {
  uint64_t magic;
  uint32_t layout;
  uint32_t is_private;  // 1: anonymous memory, only this process can drain it
  uint64_t hook_table_hash;
  uint64_t mapping_bytes;
  char tool_version[16];
  char library[256];  // path of its libdlhook.so

  // Control. `enabled_families` is the only word that every call reads: 0 while recording is stopped.
  alignas(64) std::atomic<uint32_t> enabled_families;
  uint32_t configured_families;
  // Stops and starts (dlhook ctl, DLHOOK_START=off): odd while stopped, the reason for enabled_families == 0.
  std::atomic<uint32_t> switches;
  std::atomic<uint64_t> stopped_ticks, started_ticks;  // the last of each: both may come between two turns of the drain
  // Loss counters of the host as a whole.
  alignas(64) std::atomic<uint64_t> no_ring_calls;
  std::atomic<uint64_t> plain_pointers;
  std::atomic<uint64_t> refused_definitions;  // no room for them
  std::atomic<uint64_t> deep_scopes;          // scopes for which too many others were open on their thread
  std::atomic<uint64_t> dropped_readings;     // of counters, by threads whose ring was full
  std::atomic<uint64_t> gpu_dropped_cupti;    // activities for which CUPTI had no buffer
  std::atomic<uint64_t> gpu_dropped_ring;     // activities, links and graph nodes without room in a ring
  std::atomic<uint64_t> dropped_samples;      // of CPU time, in intervals: the thread's ring was full or being written
  std::atomic<uint64_t> definitions_bytes;    // published so far
  std::atomic<uint32_t> stack_nodes;          // published so far, node 0 included; 0: none yet
  std::atomic<uint32_t> next_thread_id;
  std::atomic<uint32_t> slots_in_use;     // slots from here on never had memory (earlier ones may not have it yet)
  std::atomic<uint32_t> drained_by_host;  // 1: a writer thread of the host drains (even after its collector died)
  std::atomic<uint32_t> exited;           // 1: the host's destructor ran
  uint64_t exit_ticks;
  std::atomic<uint64_t> left_ticks;  // of its call of _exit; 0: none
  uint32_t collector_pid;
  uint32_t collector_lost;  // 1: the host found its collector gone

  // Identity: set before publication.
  uint32_t pid;
  uint32_t parent_pid;
  uint64_t start_time_jiffies;
  uint64_t pid_namespace;  // inode of /proc/self/ns/pid: pid is only valid there
  char boot_id[40];
  char host[64];
  char program[64];
  char script[64];
  uint64_t shim_loaded_ticks;
  uint32_t clock_kind;
  uint32_t rank_variable_count;
  char clock_fallback_reason[96];
  ClockSample clock_samples[2];  // when the shim was loaded, when the session began
  uint64_t ticks_per_second;
  char run_key[96];
  char requested_output[256];
  char output_refusal[96];
  uint64_t trace_bytes_limit;          // 0: none; kTraceBytesOfDay: each day
  uint32_t counters_interval_ms;       // 0: the drain takes no samples
  uint32_t counters_at_interval_only;  // 1: threads make no readings themselves
  char counters[512];                  // DLHOOK_COUNTERS
  uint64_t sample_interval_ns;         // of each thread's CPU time; 0: no samples are taken
  Setting rank_variables[kMaxRankVariables];
  uint32_t setting_count;
  uint32_t processors;  // available to the process; 0: not known
  ProcessorId processor;
  Setting settings[kMaxSettings];
  char trace_path
      [4096];  // absolute, from the session's start: for messages and for this process; others use the next fields
  // What these rings belong to (run folder and its trace), so that a copy of the run is not mistaken for it.
  uint64_t folder_device;
  uint64_t folder_inode;
  uint64_t trace_inode;
  char trace_name[128];  // "program-pid[-n].dlh"

  TapSource tap_sources[kMaxTapSources];
  PythonView python;
  AsynchronousRange asynchronous_ranges[kAsynchronousRanges];

  uint64_t chunks_offset;
  uint64_t chunk_bytes;               // power of two
  uint32_t chunk_count;               // 0: rings can't grow
  std::atomic<uint32_t> chunks_used;  // chunks for records from here on never belonged to a slot
  Chunk chunks[kMaxChunks];

  alignas(64) std::atomic<uint32_t> current_checkpoint;  // 0 or 1
  std::atomic<uint32_t> checkpoint_generation;           // even: stable
  Checkpoint checkpoints[2];
  Slot slots[kMaxSlots];
};

// Incremented manually when fields change their meaning; a change of size is detected automatically.
constexpr uint32_t kSessionLayout = 7 * 1000000 + sizeof(SessionHeader);
constexpr uint64_t kSessionDataStart = (sizeof(SessionHeader) + 4095) & ~uint64_t{4095};
constexpr uint64_t kDefinitionsCapacity = 4 << 20;
constexpr uint64_t kStackNodesStart = kSessionDataStart + kDefinitionsCapacity;
constexpr uint64_t kStackNodesCapacity = 4 << 20;  // bytes
constexpr uint64_t kOpenScopesStart = kStackNodesStart + kStackNodesCapacity;
constexpr uint64_t kOpenScopesBytes = 12 << 10;  // of one slot; whole pages
constexpr uint64_t kRingsStart = kOpenScopesStart + kMaxSlots * kOpenScopesBytes;

inline uint64_t TicksPerSecond(const SessionHeader& session) {
  return session.ticks_per_second == 0 ? 1000000000u : session.ticks_per_second;
}

// Ring size by slot: a few large ones for the first threads (which usually do the work), many small ones for later
// ones. Their sum is about `total` (DLHOOK_RING_KIB): 8/15 in 8 slots, 3/15 in 24, 3/15 in 200.
inline uint64_t SlotBytes(uint32_t slot, uint64_t total) {
  uint64_t bytes = slot < 8 ? total / 15 : slot < 32 ? total / 120 : total / 960;
  uint64_t power = 16384;  // at least two of the longest records
  while (power * 2 <= bytes) power *= 2;
  return power;
}

inline uint64_t SlotOffset(uint32_t slot, uint64_t total) {
  uint64_t offset = kRingsStart;
  for (uint32_t i = 0; i < slot; ++i) offset += SlotBytes(i, total);
  return offset;
}

// Chunks from here on hold totals of calls (format/call_totals.h) and no records: they are kept when nothing else is.
inline uint32_t RecordChunks(const SessionHeader& session) {
  return session.chunk_count - (session.chunk_count + 3) / 4;
}

// For the total growth of rings: DLHOOK_GROWTH_KIB.
inline uint64_t ChunkBytes(uint64_t growth) {
  uint64_t power = 64 << 10;  // several of the longest records; a thread fills one within microseconds
  while (power * kMaxChunks < growth) power *= 2;
  return power;
}

inline uint64_t NowTicks(const SessionHeader& session) { return ReadTicks(static_cast<ClockKind>(session.clock_kind)); }

inline bool IsStopped(const SessionHeader& session) {
  return session.switches.load(std::memory_order_relaxed) % 2 != 0;
}

// Starts and stops the recording of a process: by dlhook ctl, and by the program's own calls (DLHOOK_START=profiler).
inline void SetRecording(bool record, SessionHeader* session) {
  uint32_t seen = session->switches.load();
  if ((seen % 2 != 0) != record) return;
  (record ? session->started_ticks : session->stopped_ticks).store(NowTicks(*session));
  if (!session->switches.compare_exchange_strong(seen, seen + 1)) return;  // another one did the same
  session->enabled_families.store(record ? session->configured_families : 0);
}

}  // namespace dlhook::inline format
