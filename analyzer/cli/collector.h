// Drains the rings of all processes of a run from outside, as they come and go. The host of the drain under `dlhook run`.
#ifndef DLHOOK_ANALYZER_CLI_COLLECTOR_H_
#define DLHOOK_ANALYZER_CLI_COLLECTOR_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/io/ring_file.h"

namespace dlhook::analyzer {

class Collector {
 public:
  explicit Collector(std::string run_folder) : folder_(std::move(run_folder)) {}

  // Looks for new rings, drains all, closes the traces of processes that have exited. Returns how full the fullest ring
  // was, in 1/256.
  uint32_t Step();
  // Until some process's counters are to be sampled; UINT64_MAX: none are.
  uint64_t NanosecondsToSample() const;
  // At the end of the run: everything is drained; processes that still live go on without us.
  void Finish();

  int processes() const { return processes_; }
  int still_running() const { return still_running_; }
  uint64_t calls() const { return calls_; }
  // Rings that could not be drained: sentences.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void FindRings();
  void Close(const std::string& link);

  std::string folder_;
  std::map<std::string, std::unique_ptr<RingDrain>> drains_;  // by link
  std::vector<std::string> failed_;                           // links
  std::vector<std::string> problems_;
  int64_t next_look_ns_ = 0;
  int processes_ = 0;
  int still_running_ = 0;
  uint64_t calls_ = 0;
};

}  // namespace dlhook::analyzer

#endif  // DLHOOK_ANALYZER_CLI_COLLECTOR_H_
