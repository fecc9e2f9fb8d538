// Attaches threads to the session; the slow paths of their rings.
#include "preload/runtime/thread_state.h"

#include <stddef.h>
#include <sys/prctl.h>

#include "preload/base/spin_lock.h"
#include "preload/runtime/config.h"
#include "preload/runtime/definitions.h"
#include "preload/runtime/full_ring.h"
#include "preload/runtime/parts.h"
#include "preload/runtime/registry.h"
#include "preload/runtime/undisturbed.h"

namespace dlhook::inline runtime {

extern "C" {
__thread ThreadState* dlhook_thread = nullptr;
}

namespace {

__thread uint8_t t_attaching;   // against hooks called while attaching
__thread uint8_t t_retry_wait;  // calls to skip before looking for a free ring again

std::atomic<ProcessState*> g_process{nullptr};

// The states of the threads that forked this process and its ancestors (the last ones). A signal handler may have forked
// inside a hook, and the child returns into it: what remains of that call goes to this state, which no thread may own.
constexpr uint32_t kForkedStates = 8;
const ThreadState* g_forked[kForkedStates];
uint32_t g_forks = 0;

bool IsOfForked(const ThreadState* thread) {
  for (const ThreadState* forked : g_forked) {
    if (forked == thread) return true;
  }
  return false;
}

// False if the ring has no room.
bool WriteThreadRecord(ThreadState* thread, RecordType type) {
  ThreadRecord record = {};
  record.header = {sizeof(ThreadRecord) / 8, type, 0, 0, 0, 0};
  record.ticks = ReadTicks(thread->clock);
  record.slot_dropped = thread->ring.slot->dropped.load(std::memory_order_relaxed);
  record.thread_id = thread->thread_id;
  record.tid = thread->tid;
  record.handle = pthread_self();
  prctl(PR_GET_NAME, record.name);
  FrameMark mark;
  RecordHeader* space = ReserveDescription(thread, record.header.words, &mark);
  if (space == nullptr) return false;
  memcpy(space, &record, sizeof record);
  CommitRecord(thread, space);
  return true;
}

// Called by the C library when an attached thread ends.
void DetachThread(void*) {
  ThreadState* thread = dlhook_thread;
  dlhook_thread = nullptr;
  if (thread == nullptr || thread->active == 0) return;
  CloseThreadSamples(thread);
  CloseThreadCounters(thread);
  FlushRegistry(thread);  // what did not fit into the full ring earlier
  GiveBackTotals(thread);
  WriteThreadRecord(thread, RecordType::kThreadEnd);
  ShrinkRing(thread);
  Slot* slot = thread->ring.slot;
  thread->active = 0;
  slot->owned.store(0, std::memory_order_release);
}

pthread_key_t ThreadEndKey() {
  static pthread_key_t key;
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, [] { pthread_key_create(&key, &DetachThread); });
  return key;
}

bool GiveMemory(ProcessState* process, uint32_t index) {
  Slot& slot = process->session->slots[index];
  if (slot.bytes.load(std::memory_order_acquire) != 0) return true;
  uint64_t bytes = SlotBytes(index, process->ring_bytes_total);
  uint64_t offset = SlotOffset(index, process->ring_bytes_total);
  if (!AllocatePages(process, offset, bytes)) return false;
  std::atomic<uint32_t>& in_use = process->session->slots_in_use;
  for (uint32_t seen = in_use.load(); seen <= index && !in_use.compare_exchange_weak(seen, index + 1);) {
  }
  slot.data_offset = offset;
  slot.bytes.store(bytes, std::memory_order_release);
  return true;
}

// The slot's earlier thread may have left more than the drain has taken yet.
bool HasRoom(const Slot& slot) {
  uint64_t used = slot.head.load(std::memory_order_relaxed) - slot.tail.load(std::memory_order_acquire);
  return used <= slot.bytes.load(std::memory_order_relaxed) / 2;
}

// Index of a ring that belongs to the calling thread from now on, or kMaxSlots. Prefers one with room to one that must
// grow at once.
uint32_t ClaimSlot(ProcessState* process) {
  bool rings_grow = process->session->chunk_count != 0;
  for (uint32_t i = 0; i < kMaxSlots * (rings_grow ? 2 : 1); ++i) {
    uint32_t index = i % kMaxSlots;
    Slot& slot = process->session->slots[index];
    uint32_t free = 0;
    if (slot.owned.load(std::memory_order_relaxed) != 0 || (i < kMaxSlots && !HasRoom(slot))) continue;
    if (IsOfForked(&process->threads[index])) continue;
    if (!slot.owned.compare_exchange_strong(free, 1, std::memory_order_acquire)) continue;
    if (GiveMemory(process, index)) return index;
    slot.owned.store(0, std::memory_order_release);
    return kMaxSlots;
  }
  return kMaxSlots;
}

void InitThread(ProcessState* process, uint32_t index, ThreadState* thread) {
  SessionHeader* session = process->session;
  Slot* slot = &session->slots[index];
  memset(static_cast<void*>(thread), 0, offsetof(ThreadState, memory_answers));
  thread->thread_id = session->next_thread_id.fetch_add(1) + 1;
  thread->tid = static_cast<uint32_t>(syscall(SYS_gettid));
  thread->clock = static_cast<ClockKind>(session->clock_kind);
  thread->session = session;
  // A reader must not mistake one thread's number for the other's: sampled_threads.cc, NameThreads.
  slot->thread_id.store(0, std::memory_order_relaxed);
  slot->tid.store(thread->tid, std::memory_order_release);
  slot->open_call.store(0, std::memory_order_relaxed);
  slot->python_state.store(0, std::memory_order_relaxed);
  slot->open_scopes.store(0, std::memory_order_relaxed);
  slot->thread_id.store(thread->thread_id, std::memory_order_release);
  thread->ring.Start(slot, reinterpret_cast<char*>(session) + slot->data_offset);
  thread->detail_families = DetailFamilies();
  thread->active = 1;
}

ThreadState* ClaimThread(ProcessState* process, bool is_call) {
  uint32_t index = ClaimSlot(process);
  if (index < kMaxSlots) {
    ThreadState* thread = &process->threads[index];
    InitThread(process, index, thread);
    // Without this record its calls could not be distinguished from those of the slot's earlier thread.
    if (WriteThreadRecord(thread, RecordType::kThreadBegin)) {
      dlhook_thread = thread;
      pthread_setspecific(ThreadEndKey(), thread);
      AdoptTotals(thread);
      FlushRegistry(thread);
      OpenThreadCounters(thread);
      OpenThreadSamples(thread);
      return thread;
    }
    thread->active = 0;
    process->session->slots[index].owned.store(0, std::memory_order_release);
  }
  t_retry_wait = 63;
  if (is_call) process->session->no_ring_calls.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

// Waits while another thread starts the session; false if this process is not recorded.
bool EnsureSession(ProcessState* process) {
  constexpr timespec kLongestWait = {1, 0};
  for (;;) {
    uint32_t phase = process->phase.load(std::memory_order_acquire);
    if (phase == kRecording) return true;
    if (phase == kFailed || phase == kFinished) return false;
    if (phase == kUntouched && process->phase.compare_exchange_strong(phase, kStarting)) {
      bool started = StartSession(process);
      process->phase.store(started ? kRecording : kFailed, std::memory_order_release);
      FutexWake(&process->phase, INT_MAX);
      continue;
    }
    FutexWait(&process->phase, kStarting, kLongestWait);
  }
}

// In a child that has its parent's memory (vfork, CLONE_VM): a session would end with it, and the parent goes on.
bool IsGuest(const ProcessState* process) {
  return process->phase.load(std::memory_order_acquire) == kUntouched && static_cast<uint32_t>(getpid()) != ProcessId();
}

struct Attachment {
  ProcessState* process;
  bool is_call;
  ThreadState* thread;  // the result
};

void Attach(void* argument) {
  auto attachment = static_cast<Attachment*>(argument);
  if (EnsureSession(attachment->process)) attachment->thread = ClaimThread(attachment->process, attachment->is_call);
}

// True in a signal handler that interrupted the writing of a record, and on a fibre while another is writing. The
// reservation of an abandoned frame is taken back.
bool IsBusy(ThreadState* thread, FrameMark* mark) {
  RingProducer* ring = &thread->ring;
  if (ring->busy == 0) return false;
  if (ring->IsInUse(mark)) return true;
  ring->Take(mark);  // a handler must not begin the same repair
  EndGrowth(thread);
  SettleTotals(thread);
  ring->Release();
  return false;
}

// Each failure to start a writer doubles the time until the next attempt: attempts take a thread or wait for a lock.
bool IsTurn(const ProcessState* process, uint64_t check) {
  uint32_t failures = process->writer_failures.load(std::memory_order_relaxed);
  return (check & ((uint64_t{1} << (failures < 32 ? failures : 32)) - 1)) == 0;
}

constexpr uint32_t kCallsBetweenLooks = 1024;
void NoteFull(ThreadState* thread, uint32_t calls);

// As ReserveAfterLook, growing the ring if it is full.
RecordHeader* ReserveAgain(ThreadState* thread, uint32_t words, FrameMark* mark, bool is_call) {
  if (IsBusy(thread, mark)) return nullptr;
  RingProducer* ring = &thread->ring;
  GoHome(thread, mark);
  RecordHeader* record = ring->ReserveAfterLook(words, mark, !is_call);
  if (record != nullptr || thread->active == 0 || !GrowRing(thread, mark)) return record;
  NoteFull(thread, kCallsBetweenLooks / 4);
  return ring->ReserveAfterLook(words, mark, !is_call);
}

// Whether the rings are drained. Starts the writer if nothing else drains.
bool HasDrain(ThreadState* thread) {
  SessionHeader* session = thread->session;
  if (session->drained_by_host.load(std::memory_order_relaxed) != 0) return true;
  ErrnoKeeper keeper;
  uint32_t collector = session->collector_pid;
  bool gone = collector != 0 && kill(static_cast<pid_t>(collector), 0) != 0 && errno == ESRCH;
  if (gone) session->collector_lost = 1;
  ProcessState* process = GetProcess();
  bool without = collector == 0 && process != nullptr && process->writer_started.load() == 0;
  if ((gone || without) && process != nullptr && IsTurn(process, thread->full_looks++)) StartWriter(process);
  return session->drained_by_host.load(std::memory_order_relaxed) != 0 || (collector != 0 && !gone);
}

// Counts calls that found the ring full; checks the drain once in a while.
void NoteFull(ThreadState* thread, uint32_t calls) {
  thread->full_calls += calls;
  if (thread->full_calls < kCallsBetweenLooks || thread->is_sampling != 0) return;
  thread->full_calls = 0;
  HasDrain(thread);
}

void CountDropped(ThreadState* thread) {
  thread->ring.CountDropped();
  NoteFull(thread, 1);
}

}  // namespace

ProcessState* GetProcess() { return OneForEachProcess(&g_process); }
ProcessState* FindProcess() { return g_process.load(std::memory_order_acquire); }

void DropStaleOpenCalls(ThreadState* thread, uintptr_t frame) {
  while (thread->depth > 0 && thread->depth <= kMaxOpenCalls) {
    const OpenCall& last = thread->open[thread->depth - 1];
    if (last.frame > frame || (last.frame != frame && Contains(last.frame, last.sequence))) return;
    --thread->depth;
  }
}

uint32_t OpenNestedCall(ThreadState* thread, uintptr_t frame, uint64_t sequence) {
  DropStaleOpenCalls(thread, frame);
  uint64_t parent = EnclosingSequence(thread);
  if (thread->depth < kMaxOpenCalls) thread->open[thread->depth] = {frame, sequence};
  ++thread->depth;
  return parent == 0 ? 0 : static_cast<uint32_t>(sequence - parent);
}

ThreadState* AttachThread(uint32_t family_bit) {
  bool is_call = family_bit != kForSamples;
  if (t_attaching != 0 || (is_call && (GetConfig().families & family_bit) == 0)) return nullptr;
  ProcessState* process = GetProcess();
  if (process == nullptr || process->phase.load(std::memory_order_relaxed) >= kFailed) return nullptr;
  if (t_retry_wait > 0 && process->phase.load(std::memory_order_acquire) == kRecording) {
    --t_retry_wait;
    process->session->no_ring_calls.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  if (IsGuest(process)) {
    process->calls_of_guests.fetch_add(is_call ? 1 : 0, std::memory_order_relaxed);
    return nullptr;
  }
  Undisturbed undisturbed;
  t_attaching = 1;
  if (dlhook_thread != nullptr) g_forked[g_forks++ % kForkedStates] = dlhook_thread;  // inactive: wiped by a fork
  dlhook_thread = nullptr;
  Attachment attachment = {process, is_call, nullptr};
  CallWithRoom(&Attach, &attachment);
  t_attaching = 0;
  return attachment.thread;
}

RecordHeader* ReserveDescription(ThreadState* thread, uint32_t words, FrameMark* mark) {
  RecordHeader* record = thread->ring.Reserve(words, mark);
  return record != nullptr ? record : ReserveAgain(thread, words, mark, false);
}

RecordHeader* ReservePatiently(ThreadState* thread, uint32_t words, FrameMark* mark, uint32_t* naps) {
  constexpr uint32_t kMostNaps = 5000;  // a second in total
  RecordHeader* record = ReserveDescription(thread, words, mark);
  for (; record == nullptr && *naps < kMostNaps && thread->active != 0; ++*naps) {
    timespec nap = {0, 200 * 1000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
    record = ReserveDescription(thread, words, mark);
  }
  if (record != nullptr) *naps = 0;
  return record;
}

bool WriteDescription(ThreadState* thread, RecordHeader* record, const void* text, uint32_t text_bytes,
                      uint32_t* naps) {
  const uint32_t head_bytes = uint32_t{record->words} * 8;
  record->words = static_cast<uint16_t>((head_bytes + text_bytes + 7) / 8);
  FrameMark mark;
  RecordHeader* space = naps == nullptr ? ReserveDescription(thread, record->words, &mark)
                                        : ReservePatiently(thread, record->words, &mark, naps);
  if (space == nullptr) return false;
  memcpy(static_cast<void*>(space), record, head_bytes);
  if (text_bytes != 0) memcpy(reinterpret_cast<char*>(space) + head_bytes, text, text_bytes);
  CommitRecord(thread, space);
  return true;
}

RecordHeader* ReserveScope(ThreadState* thread, uint32_t words, FrameMark* mark) {
  RecordHeader* record = ReserveDescription(thread, words, mark);
  if (record == nullptr && thread->active != 0) CountDropped(thread);
  return record;
}

RecordHeader* ReserveCallSlow(ThreadState* thread, uint32_t words, FrameMark* mark) {
  if (thread->active == 0) return nullptr;  // forked between begin and end of a call
  bool is_free = !IsBusy(thread, mark);
  RecordHeader* record = is_free && !IsKeepingTotals(thread) ? ReserveAgain(thread, words, mark, true) : nullptr;
  if (record == nullptr && is_free) record = StageCall(thread, mark);
  if (record == nullptr) CountDropped(thread);
  return record;
}

void CommitNoticed(ThreadState* thread, const RecordHeader* record) {
  RingProducer* ring = &thread->ring;
  if (thread->active == 0) return ring->Commit(record);  // forked since it was reserved
  if (IsStaged(thread, record)) {
    AddStagedCall(thread, record);
    ring->Release();
    NoteFull(thread, 1);
  } else {
    ring->Commit(record);
  }
  bool may_resume = IsKeepingTotals(thread) && thread->depth == 0 && ring->Backlog() <= thread->resume_backlog;
  FrameMark mark;
  if (may_resume) HandOverTotals(thread, &mark);
}

}  // namespace dlhook::inline runtime
