// The end of a run that goes on: of all its process traces what was recorded last, read again and again as they grow.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "analyzer/io/trace_bytes.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/reader/trace_tail.h"

namespace dlhook::analyzer::inline reader {

class RecentRun {
 public:
  // `path`: as FindRun takes it; it need not exist yet. Keeps about `most_bytes` of the newest calls and scopes.
  RecentRun(std::string path, uint64_t most_bytes) : path_(std::move(path)), most_bytes_(most_bytes) {}

  // Reads what was added to traces, new traces included; forgets those that are gone. Not OK: there is no trace to read (NotFound
  // also if there is none yet).
  absl::Status Read();

  // In the order of the model's processes.
  const std::vector<const TraceTail*>& traces() const { return order_; }
  // What could not be read, and why.
  const std::vector<std::string>& damage() const { return damage_; }
  int64_t calls() const;  // calls and scopes of the whole run

  // A model of the last `seconds` in which something was recorded; of less if these have more than `bytes`. Its read_spans tell which
  // part of each process it holds.
  // `open`: of each trace, what its process has not ended yet (DrainOpen), or empty. What was read must hold all that ended before.
  TraceModel Last(int64_t seconds, uint64_t bytes, const std::vector<Leftover>& open = {}) const;

 private:
  const std::string path_;
  const uint64_t most_bytes_;
  RunFiles files_;
  std::map<std::string, std::unique_ptr<TraceTail>> tails_;  // by path
  std::vector<const TraceTail*> order_;
  std::vector<std::string> damage_;
};

}  // namespace dlhook::analyzer::reader
