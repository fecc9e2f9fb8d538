// The rows of the table `summary`.
#pragma once

#include "analyzer/model/trace_model.h"
#include "analyzer/tables/columns.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {

struct Metric {
  std::string metric;
  int64_t value = 0;
  std::string unit;
  Cell percent;
  std::string note;
};

class Metrics {
 public:
  void Time(const std::string& metric, int64_t ns, const std::string& note) { Add(metric, ns, "ns", Cell(), note); }
  void TimeOf(const std::string& metric, int64_t ns, int64_t whole_ns, const std::string& note) {
    Add(metric, ns, "ns", Percent(ns, whole_ns), note);
  }
  void Count(const std::string& metric, int64_t count, const std::string& note) {
    Add(metric, count, "", Cell(), note);
  }
  void Add(const std::string& metric, int64_t value, const std::string& unit, Cell percent, const std::string& note) {
    all_.push_back({metric, value, unit, std::move(percent), note});
  }
  const std::vector<Metric>& all() const { return all_; }

 private:
  std::vector<Metric> all_;
};

// GPU times; no rows if the run has none.
void AddGpuMetrics(const TraceModel& model, const TableOptions& options, Metrics& metrics);

}  // namespace dlhook::analyzer::tables
