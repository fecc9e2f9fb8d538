// Drains the rings of this launcher's processes from outside, as they come and go, for `dlhook run`. Several may work
// in one folder: a ring names its drain.
#pragma once

#include "absl/functional/function_ref.h"
#include "analyzer/io/ring_file.h"

namespace dlhook::analyzer::inline cli {

class Collector {
 public:
  // Opens the folder, so create it before starting the program, which may rename the folder.
  explicit Collector(std::string run_folder) : path_(std::move(run_folder)) { FindFolder(); }

  // Looks for new rings, drains all, closes the traces of processes that have exited. Returns the fill level of the
  // fullest ring, in 1/256.
  uint32_t Step();
  // Until some process's counters must be sampled; UINT64_MAX: none.
  uint64_t NanosecondsToSample() const;
  // Whether all rings can grow, so that they can be left alone for longer.
  bool RingsGrow() const;
  // At the end of the run: drains everything; processes that still live continue without us.
  void Finish();

  int processes() const { return static_cast<int>(traces_.size()); }
  int still_running() const { return still_running_; }
  // What its processes recorded, wherever it was written.
  uint64_t calls() const { return calls_; }
  // Base names of the traces that it drained.
  const std::set<std::string>& traces() const { return traces_; }
  // The folders that may contain traces: the run folder and, if it was renamed or removed, the one that replaced it.
  const std::vector<std::shared_ptr<const RunFolder>>& folders() const { return folders_; }
  // Rings that could not be drained: sentences.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  using Drains = std::map<std::string, std::unique_ptr<RingDrain>>;

  void FindFolder();
  void FindRings();
  void Adopt(const std::shared_ptr<const RunFolder>& folder, const std::string& trace_name);
  void Refuse(const std::string& key, const absl::Status& status);
  void Close(Drains::iterator drain);

  std::string path_;
  std::vector<std::shared_ptr<const RunFolder>> folders_;
  Drains drains_;  // by KeyOf()
  std::set<std::string> traces_;
  std::set<std::string> not_ours_;       // keys
  std::map<std::string, int> failures_;  // by key
  std::vector<std::string> problems_;
  int64_t next_look_ns_ = 0;
  int still_running_ = 0;
  uint64_t calls_ = 0;
};

// Drains until the program has ended, and holds the ending signals; returns its wait status.
int CollectUntilEnd(pid_t program, Collector* collector);

// What the end of a program must not wait for.

// From here on the signals that ask a process to end (SIGTERM, SIGINT, SIGHUP, SIGQUIT) wait for MakeInTime.
void HoldEndingSignals();

struct Made {
  absl::Status status;  // not OK: why pieces are missing, to follow "the analysis"
  std::vector<std::string> pieces;
};

// The pieces (some lines each) that `make` gives, in a child process: it has two seconds of processor time, or six on a
// busy machine, and a held signal ends it at once.
using GivePiece = absl::FunctionRef<void(absl::string_view)>;
Made MakeInTime(absl::FunctionRef<void(GivePiece)> make);

}  // namespace dlhook::analyzer::cli
