// Drains the rings of the processes that this launcher started from outside, as they come and go. The host of the drain under
// `dlhook run`. Several may work in one folder: a ring names the one that drains it.
#ifndef DLHOOK_ANALYZER_CLI_COLLECTOR_H_
#define DLHOOK_ANALYZER_CLI_COLLECTOR_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "analyzer/io/ring_file.h"

namespace dlhook::analyzer::inline cli {

class Collector {
 public:
  // Holds the folder from now on: to be made before the program starts, which may rename it.
  explicit Collector(std::string run_folder) : path_(std::move(run_folder)) { FindFolder(); }

  // Looks for new rings, drains all, closes the traces of processes that have exited. Returns how full the fullest ring
  // was, in 1/256.
  uint32_t Step();
  // Until some process's counters are to be sampled; UINT64_MAX: none are.
  uint64_t NanosecondsToSample() const;
  // All rings do: they may be left alone for longer.
  bool RingsGrow() const;
  // At the end of the run: everything is drained; processes that still live go on without us.
  void Finish();

  int processes() const { return static_cast<int>(traces_.size()); }
  int still_running() const { return still_running_; }
  // What its processes made, wherever it went.
  uint64_t calls() const { return calls_; }
  // Base names of the traces that it drained.
  const std::set<std::string>& traces() const { return traces_; }
  // Where traces may lie: the run folder and, where that was renamed or removed, the one that came in its place.
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

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_COLLECTOR_H_
