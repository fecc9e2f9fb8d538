// What `dlhook counters` and the doctor report about counting, from the trials. Pure.
#pragma once

#include "analyzer/doctor/counter_trials.h"
#include "analyzer/doctor/finding.h"
#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline doctor {

struct CountingReport {
  CountingMachine machine;
  PapiTrials papi;
  std::vector<SetTrial> sets;
  std::vector<CounterTrial> counters;  // those that were requested, else all that this processor may have
  std::vector<CounterRefusal> refused;
};

// `machine`: what counting depends on and what to do, one row per fact.
Table MachineTable(const CountingMachine& machine, const PapiTrials& papi);
// `sets`: which sets work, completely or partly.
Table SetsTable(const CountingReport& report);
// `counters`: one row per counter.
Table CountersTable(const CountingReport& report);
// `metrics`: which metrics these counters allow, and their formulas.
Table MetricsTable(const std::vector<CounterTrial>& counters);

// The doctor's sentence.
Finding CountingFinding(const CountingMachine& machine, const std::vector<SetTrial>& sets);

}  // namespace dlhook::analyzer::doctor
