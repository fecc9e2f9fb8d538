// What this machine can count: opens and reads every counter once, in the same way as the shim.
#pragma once

#include "analyzer/doctor/finding.h"
#include "analyzer/table/table.h"
#include "preload/counters/counter_names.h"

namespace dlhook::analyzer::inline doctor {

// What counting depends on.
struct CountingMachine {
  Processor processor;
  bool is_virtual = false;
  std::vector<std::string> pmus;  // of processor cores, in /sys/bus/event_source/devices: "cpu"; empty: none
  std::optional<int> paranoid;    // kernel.perf_event_paranoid; nullopt: this kernel has no perf_event
  bool may_count_all = false;     // root, or CAP_PERFMON
};
CountingMachine LookAtCounting();

struct CounterTrial {
  CounterSpec spec = {};
  bool works = false;
  CounterSource source = CounterSource::kUnknown;  // the cheapest that has it
  bool user_only = false;                          // the kernel lets this user count only in user mode
  double read_ns = 0;                              // for reading it alone
  std::string reason;                              // why it does not work …
  std::string advice;                              // … and what to do; empty: nothing
};
struct PapiEvent {
  std::string name;    // "PAPI_TOT_CYC", "perf::PAGE-FAULTS"
  bool works = false;  // it could be added to an event set and started
  std::string reason;  // PAPI's, if it does not work
};
struct PapiTrials {
  std::string library;  // "libpapi.so.7"; empty: not installed
  std::string version;  // "7.0"; empty: `trouble` says why it does not work
  std::string trouble;
  std::vector<PapiEvent> events;  // those in `wanted`
};
bool IsOfPapi(const CounterSpec& spec);
// Runs in a child process: PAPI may crash or print, and leaves threads and files behind.
PapiTrials TryPapi(const CounterList& wanted);

// In the order of `list`. Leaves nothing open.
std::vector<CounterTrial> TryCounters(const CountingMachine& machine, const CounterList& list, const PapiTrials& papi);

struct SetTrial {
  CounterSet set;
  std::vector<CounterTrial> counters;
  std::vector<CounterRefusal> refused;
  // Number of groups into which the kernel must divide those of the processor; several are multiplexed, and counts are
  // scaled.
  size_t groups = 0;
};
SetTrial TrySet(const CountingMachine& machine, const CounterSet& set);

// Advice for a machine without counters; empty: none.
std::string PmuAdvice(const CountingMachine& machine);

CounterList ParseWords(const std::string& words, const Processor& processor);
std::vector<CounterRefusal> RefusedOf(const CounterList& list);

// What `dlhook counters` and the doctor report about counting, from the trials.
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
