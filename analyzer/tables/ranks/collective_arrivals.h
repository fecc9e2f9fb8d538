// When each rank arrived at the same collective call.
#pragma once

#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline tables {

struct Arrival {
  ProcessIndex process = 0;
  int64_t called_ns = 0;  // when the host made the call, or began the operation
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // start_ns: not known (asynchronous, and no GPU times)
};

// One collective operation, with those of its ranks that are in this run: at least two.
struct Meeting {
  std::vector<Arrival> arrivals;
  CallIndex call = kNone;     // of one of them; kNone: a range of a backend
  bool on_gpu = false;        // times of the kernels, else of the calls on the host …
  bool is_estimated = false;  // … which return before the work is done
  int64_t FirstNs() const { return std::ranges::min(arrivals, {}, &Arrival::start_ns).start_ns; }
  int64_t LastNs() const { return std::ranges::max(arrivals, {}, &Arrival::start_ns).start_ns; }
};

struct Meetings {
  std::vector<Meeting> meetings;
  std::map<std::string, int64_t> oddities;  // what could not be matched, and why: sentence -> how many
};

// One rank is late, rather than each in turn, if this part of the time for which ranks are waited for is its (and chance
// does not explain it).
constexpr double kLateRankMostly = 0.6;

// One rank of a communicator: its calls, or the ranges of its backend, in order.
struct CollectiveMember {
  ProcessIndex process = 0;
  int32_t rank = 0;
  std::vector<CallIndex> calls;
  std::vector<ScopeIndex> ranges;
};
using Communicator = std::tuple<std::string, int32_t, size_t>;  // family, ranks, index among those of that size
std::map<Communicator, std::vector<CollectiveMember>> FindCommunicators(const TraceModel& model);
// What a backend's range (scope_names.h) is told by. Bytes: of the tensors that the rank gave; -1: not known.
struct RangeKind {
  std::string name;
  int64_t bytes = -1;
  auto operator<=>(const RangeKind&) const = default;
};
RangeKind RangeKindOf(const TraceModel& model, ScopeIndex range);
// Ranges of collective operations by name, and by bytes where these are the same on all ranks; of processes with a rank.
std::map<RangeKind, std::vector<CollectiveMember>> FindCollectiveRanges(const TraceModel& model);
// By process: until when all collective operations were recorded, so that it is known which each is. A bounded trace has only
// some of the later ones, or totals.
std::vector<int64_t> OrderKnownUntil(const TraceModel& model);
// How often torchrun had restarted the job when this process began; 0: or not told.
int32_t RestartOf(const ProcessInfo& process);
// From the first kernel of each call to its last one, for calls with kernels.
absl::flat_hash_map<CallIndex, std::pair<int64_t, int64_t>> CollectivesOnGpu(const TraceModel& model);

// The k-th collective operation of a communicator on one rank is the k-th on every other: NCCL and MPI require the same
// order. Communicators of different processes are matched if they have the same number of ranks, are the process's n-th
// of that size (and of that rank, if one process has several devices), and all ranks in them differ; or else those that
// met in each operation that waits for all, and no others. A rank that torchrun restarted meets those of its own start
// only. Not matched: operations between two ranks, captured or failed operations, unknown ranks, what is later than
// OrderKnownUntil, and runs of which only parts were read. Ranges of backends (scope_names.h) do not identify a
// communicator: the k-th of a kind and size on one rank is the k-th of that kind on every other one, unless a rank
// finished before another began, which shows that they belong to several groups: of ranks that always met, where each
// met all of its own group and none of another. A few of these, of operations at the same time, were begun in another
// order: they alone are left out.
Meetings MatchCollectives(const TraceModel& model);

// Which rank the others wait for, for the table ranks and for what judges by it.
struct RankFacts {
  ProcessIndex process = 0;
  std::string name;  // "rank 0"; "process 4711" if the launcher gave no rank
  double step_ns = 0;
  double waiting_ns = 0;       // in a mean step, in collectives, until the last rank had come; 0: not known
  double no_processor_ns = 0;  // in a mean step its first thread waited for one; 0: or not known
  int64_t collectives = 0;
  int64_t came_last = 0;
  bool is_late = false;  // the others wait mostly for it
};

// Of the processes that took part in something; empty if these are fewer than two.
std::vector<RankFacts> RanksCompared(const TraceModel& model, const std::vector<StepTrack>& tracks);

}  // namespace dlhook::analyzer::tables
