// What `dlhook contend` knows of a run: its times, and what the machine counted meanwhile.
#pragma once

#include "analyzer/cli/try_run.h"
#include "analyzer/io/machine_files.h"
#include "analyzer/io/resctrl.h"
#include "analyzer/time/intervals.h"
#include "analyzer/whatif/contend_table.h"

namespace dlhook::analyzer::inline cli {

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
