// Which threads the sampler of counters reads: the kernel's list of them, their numbers and names.
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/drain/counter_sampler.h"
#include "preload/format/folders.h"

namespace dlhook::inline drain {

// Retried if no descriptor was available.
bool CounterSampler::OpenDirectory() {
  char path[32];
  snprintf(path, sizeof path, "/proc/%u/task", session_->pid);
  if (directory_ < 0) directory_ = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return directory_ >= 0 && lseek(directory_, 0, SEEK_SET) == 0;
}

void CounterSampler::ListThreads(Drain* drain) {
  if (!OpenDirectory()) return;
  for (uint32_t i = 1; i < thread_count_; ++i) ++threads_[i].listings_without;
  cursor_ = 1;
  VisitEntries(directory_, [&](const char* name) {
    auto tid = static_cast<uint32_t>(strtoul(name, nullptr, 10));
    Thread* known = tid == 0 ? nullptr : FindThread(tid);
    if (known != nullptr) {
      known->listings_without = 0;
    } else if (tid != 0) {  // "." and ".."
      BeginThread(tid, drain);
    }
  });
  // The kernel ends a listing early if the thread it has reached dies: a single listing proves nothing.
  for (uint32_t i = 1; i < thread_count_; ++i) {
    if (threads_[i].listings_without > 1) threads_[i].is_alive = false;
  }
  NameThreads(drain);
  NameOwnThread(drain);
}

// Assigns the numbers of recording threads.
void CounterSampler::NameThreads(Drain* drain) {
  uint32_t slots = session_->slots_in_use.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < slots && i < kMaxSlots; ++i) {
    const Slot& slot = session_->slots[i];
    if (slot.owned.load(std::memory_order_acquire) == 0) continue;
    // Consistent: the number is 0 while the slot changes its owner.
    uint32_t thread_id = slot.thread_id.load(std::memory_order_acquire);
    uint32_t tid = slot.tid.load(std::memory_order_acquire);
    if (thread_id == 0 || slot.thread_id.load(std::memory_order_relaxed) != thread_id) continue;
    Thread* thread = tid == 0 ? nullptr : FindThread(tid);
    if (thread == nullptr || thread->thread_id == thread_id || !drain->HasThread(thread_id)) continue;
    HandOver(drain, thread);
    thread->thread_id = thread_id;
    // from now on it reads them itself
    if (wants_perf_ && session_->counters_at_interval_only == 0) perf_.End(PerfOf(thread));
  }
}

// The drain's own thread, under a name that distinguishes it from the program's. After the program's first thread,
// which is number 1.
void CounterSampler::NameOwnThread(Drain* drain) {
  static const char kName[16] = "dlhook";
  if (!is_own_process_ || is_own_named_ || session_->next_thread_id.load(std::memory_order_relaxed) == 0) return;
  auto tid = static_cast<uint32_t>(syscall(SYS_gettid));
  Thread* own = FindThread(tid);
  if (own == nullptr) return;
  HandOver(drain, own);
  is_own_named_ = true;
  own->thread_id = session_->next_thread_id.fetch_add(1) + 1;
  drain->AddThread(own->thread_id, tid, kName);
}

// Of a thread that makes no calls, at its second look: it may have given itself the name after the first.
void CounterSampler::TellNameAgain(Drain* drain, Thread* thread) const {
  char text[1024];
  ProcStat stat;
  thread->may_be_renamed = false;
  if (ReadProcFile(&thread->files, ProcFile::kStat, text, sizeof text) && ParseStat(text, &stat))
    drain->AddThread(0, thread->tid, stat.name);
}

// They are always listed in the same order.
CounterSampler::Thread* CounterSampler::FindThread(uint32_t tid) {
  for (uint32_t i = 0; i < thread_count_; ++i) {
    uint32_t at = (cursor_ + i) % thread_count_;
    if (threads_[at].tid != tid) continue;
    cursor_ = at + 1;
    return &threads_[at];
  }
  return nullptr;
}

void CounterSampler::BeginThread(uint32_t tid, Drain* drain) {
  if (thread_count_ == kMaxThreads) return;
  Thread* thread = &threads_[thread_count_++];
  memset(static_cast<void*>(thread), 0, sizeof *thread);
  if (wants_perf_) memset(static_cast<void*>(PerfOf(thread)), 0, sizeof(PerfSampler::Thread));
  thread->tid = tid;
  thread->is_alive = true;
  StartProcFiles(session_->pid, tid, &thread->files);
  if (wants_perf_ && tid != 0) perf_.Begin(PerfOf(thread), tid, drain);
}

void CounterSampler::EndThread(Drain* drain, Thread* thread) {
  HoldIdle(drain, thread);
  HandOver(drain, thread);
  CloseProcFiles(&thread->files);
  if (wants_perf_) perf_.End(PerfOf(thread));
  const Thread* last = &threads_[--thread_count_];
  if (thread == last) return;
  memcpy(static_cast<void*>(thread), last, sizeof *last);
  if (wants_perf_) memcpy(static_cast<void*>(PerfOf(thread)), PerfOf(last), sizeof(PerfSampler::Thread));
}

}  // namespace dlhook::inline drain
