// What threads did over time, as the launcher saw it from outside: they ran, were ready to run but had no processor (were
// queued), or were blocked. The first two are the kernel's sums, exact between two looks; blocked is the rest. In what a
// thread was blocked is known from looks alone.
#pragma once

#include "analyzer/steps/phases.h"
#include "analyzer/time/time_division.h"
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

// What threads were doing when the launcher looked: whether they ran, had no processor or were blocked, and in which
// activity they were. A row of time is divided by the looks that met it: any time that is short, but comes often.

// What a share by looks may be, with 95 % certainty.
struct LookRange {
  int64_t least_ns, most_ns;
};

// What looks stand for: the time since the one before.
struct LookSums {
  int64_t looks = 0;
  int64_t running_ns = 0;
  int64_t queued_ns = 0;
  int64_t blocked_ns = 0;
  std::array<int64_t, kBlockedIns> found_ns = {};

  void Add(const LookSums& other);
  // The part of a row's time; empty: too few looks. Of a thread that was not there for much of that time: of what its looks
  // stand for.
  std::optional<int64_t> BlockedOf(int64_t ns) const { return PartOf(blocked_ns, ns); }
  std::optional<int64_t> QueuedOf(int64_t ns) const { return PartOf(queued_ns, ns); }
  // As if each look met the thread at random: Wilson's score interval. Only where BlockedOf is known.
  LookRange BlockedRangeOf(int64_t ns) const;

 private:
  std::optional<int64_t> PartOf(int64_t part_ns, int64_t ns) const;
  double CoveredOf(int64_t ns) const;
};

// Of looks at the thread in these times.
LookSums LooksIn(const ThreadStates& states, const IntervalSet& times);

struct StateLook {
  TimePiece piece;  // what the thread was in; start_ns: when
  LookSums sums;
};

class StateLooks {
 public:
  explicit StateLooks(const TraceModel& model);

  // By time. Only of threads that have a part of the time then. If nothing is known of a time and the process has one
  // thread that records, it is this thread's, if it is the process's first or only one.
  const std::vector<StateLook>& Of(ProcessIndex process) const { return of_[process]; }

 private:
  std::vector<std::vector<StateLook>> of_;  // by process
};

// Requests that a program makes itself, one after the other.

// A request ends with the network's own last work: what follows is time between requests, in which a server waits for the
// next one. But if the thread rather computes there, for a tenth of its processor time or more, it is the program's loop:
// it makes the next input, or a framework's `predict` does something before and after the network runs. Then a request
// lasts until the next one begins, as a training step does.
void CloseLoops(const TraceModel& model, std::vector<StepTrack>* tracks);

}  // namespace dlhook::analyzer::time
