// What `dlhook contend` has beside a program: processes that are started before, stopped and measured after it; and what the
// machine counts meanwhile.
#pragma once

#include "analyzer/calibrate/measuring.h"
#include "analyzer/cli/try_run.h"
#include "analyzer/io/machine_files.h"
#include "analyzer/io/resctrl.h"
#include "analyzer/time/intervals.h"
#include "analyzer/whatif/contend_table.h"

namespace dlhook::analyzer::inline cli {

struct NeighbourOptions {
  std::vector<std::string> commands;  // for sh
  std::vector<LoadKind> loads;
  size_t copies = 1;            // of each
  double intensity = 1;         // of the loads
  std::vector<int> processors;  // where they may run; empty: everywhere
  std::string folder;           // for what they write
};

class Neighbours {
 public:
  explicit Neighbours(const NeighbourOptions& options);
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  // Returns when all loads do their work. `join`: called with each before it does anything.
  absl::Status Start(const std::function<void(pid_t)>& join);
  // An error: a command had failed before.
  absl::Status Stop();

  const std::vector<NeighbourUse>& uses() const { return uses_; }  // by command and load

 private:
  struct Process {
    size_t use = 0;
    pid_t pid = 0;
    std::atomic<uint64_t>* done = nullptr;
    uint64_t done_at_start = 0;
    double seconds_at_start = 0;  // of a processor
  };
  pid_t Start(size_t use, std::atomic<uint64_t>* done, const std::function<void(pid_t)>& join) const;

  const NeighbourOptions options_;
  std::atomic<uint64_t>* const meters_;  // shared, one a process
  std::vector<NeighbourUse> uses_;
  std::vector<Process> processes_;
  TryClock::time_point start_;
};

// "0-1,3"; empty: the flag is not given.
absl::StatusOr<std::vector<int>> ReadProcessors(const Args& args, absl::string_view flag);

// What is known of a run: its times, and what the machine counted.
class MachineWatch {
 public:
  // `masks`: of the program and its neighbours (ResctrlGroup).
  MachineWatch(std::string sys, const std::string (&masks)[2]);

  // An error: a mask can't be set.
  absl::Status Open();
  const std::vector<std::string>& notes() const { return notes_; }  // what this machine can't tell

  // In the process that is added or that starts it, which ends if that fails.
  void AddProgram(pid_t task) const { Add("program", task); }
  void AddNeighbour(pid_t task) const { Add("neighbours", task); }

  void Look();
  void Forget() { looks_.clear(); }  // looks at another run
  ContendedRun Read(const TryRun& run) const;

 private:
  // Sums since some time, by name; and amounts at that time.
  struct MachineLook {
    int64_t time_ns = 0;
    std::map<std::string, double> sums, amounts;
  };
  void Add(const char* group, pid_t task) const;
  void AddLooks(const Interval& time, double steps, std::map<std::string, double>* counts) const;

  const std::string sys_;
  const std::vector<std::string> masks_;
  std::optional<PackageEnergy> energy_;
  std::map<std::string, ResctrlGroup> groups_;
  std::vector<MachineLook> looks_;
  std::vector<std::string> notes_;
};

}  // namespace dlhook::analyzer::cli
