// What threads did over time, as the launcher saw it from outside: they ran, were ready to run but had no processor (were
// queued), or were blocked. The first two are the kernel's sums, exact between two looks; blocked is the rest. In what a
// thread was blocked is known from looks alone.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/model/trace_model.h"
#include "analyzer/steps/phases.h"
#include "analyzer/time/intervals.h"
#include "preload/format/thread_states.h"

namespace dlhook::analyzer::inline time {

// Parts of a time of one thread. Between two looks they are taken to be spread evenly.
struct StateSums {
  int64_t wall_ns = 0;
  int64_t running_ns = 0;
  int64_t queued_ns = 0;
  std::array<int64_t, kBlockedIns> found_ns = {};  // what looks stand for that found it blocked in this
  int64_t spread_ns = 0;  // of wall_ns: parts of the time between two looks between which it did several things

  int64_t blocked_ns() const { return wall_ns - running_ns - queued_ns; }
  // Not where much was spread: the time is then shorter than that between two looks.
  bool IsTold() const { return wall_ns > 0 && spread_ns <= wall_ns / 10; }
  void Add(const StateSums& other);
};

struct ThreadStates {
  ProcessIndex process = 0;
  ThreadIndex thread = kNone;  // kNone: a thread without recorded calls; with tid 0: the whole process, only running_ns
  uint32_t tid = 0;
  std::string name;  // of a thread without calls; empty: not known
  // Readings: ascending times, and what the thread had done until then since it began, the first time.
  std::vector<int64_t> time_ns;
  std::vector<StateSums> until;

  StateSums In(Interval time) const;
};

// By process, threads with recorded calls first, the whole process last.
std::vector<ThreadStates> ReadThreadStates(const TraceModel& model);

// Of the thread whose steps these are; else of the process's first. Null: not known.
const ThreadStates* StatesOf(const TraceModel& model, const std::vector<ThreadStates>& threads, const StepTrack& track);

// A thread of dlhook's own: none of the program's.
bool IsOwnThread(const ThreadData& thread);

// "lock 81 %, sleep 12 %": in what it was blocked, by looks; empty: it was not, or no look met it.
std::string BlockedInText(const std::array<int64_t, kBlockedIns>& found_ns);
// "lock, sleep": only where it was a good part of the time.
std::string BlockedInWords(const std::array<int64_t, kBlockedIns>& found_ns);

}  // namespace dlhook::analyzer::time
