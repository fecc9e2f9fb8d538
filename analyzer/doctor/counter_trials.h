// What this machine can count: every counter is opened and read once, in the way in which the shim does it.
#ifndef DLHOOK_ANALYZER_DOCTOR_COUNTER_TRIALS_H_
#define DLHOOK_ANALYZER_DOCTOR_COUNTER_TRIALS_H_

#include <optional>
#include <string>
#include <vector>

#include "preload/counters/counter_names.h"

namespace dlhook::analyzer::inline doctor {

// What counting depends on.
struct CountingMachine {
  Processor processor;
  bool is_virtual = false;
  std::vector<std::string> pmus;  // of processors' cores, in /sys/bus/event_source/devices: "cpu"; empty: none
  std::optional<int> paranoid;    // kernel.perf_event_paranoid; nullopt: this kernel has no perf_event
  std::optional<int> watchdog;    // kernel.nmi_watchdog
  std::optional<int> rdpmc;       // /sys/bus/event_source/devices/cpu/rdpmc
  bool may_count_all = false;     // root, or CAP_PERFMON
  size_t counters_at_once = 0;    // that a group may have, tried; 0: none
};
CountingMachine LookAtCounting();

struct CounterTrial {
  CounterSpec spec;
  bool works = false;
  CounterSource source = CounterSource::kUnknown;  // the cheapest that has it
  bool user_only = false;                          // the kernel lets this user count no more than that
  double read_ns = 0;                              // of one reading of it alone
  std::string reason;                              // why it does not work
};
struct PapiEvent {
  std::string name;    // "PAPI_TOT_CYC", "perf::PAGE-FAULTS"
  bool works = false;  // it was added to an event set, which could be started
  std::string reason;  // PAPI's, where not
};
struct PapiTrials {
  std::string library;  // "libpapi.so.7"; empty: not there
  std::string version;  // "7.0"; empty: `trouble` says why it does not work
  std::string trouble;
  std::vector<PapiEvent> events;  // the presets that PAPI claims to have, then those of `wanted`
};
bool IsOfPapi(const CounterSpec& spec);
// In a process of its own: PAPI may crash or print, and leaves threads and files behind.
PapiTrials TryPapi(const CounterList& wanted);

// In the order of `list`. Nothing stays open.
std::vector<CounterTrial> TryCounters(const CountingMachine& machine, const CounterList& list, const PapiTrials& papi);

struct SetTrial {
  CounterSet set;
  std::vector<CounterTrial> counters;
  std::vector<CounterRefusal> refused;
  // Into how many groups the kernel has to divide those of the processor; more than one take turns, and counts are
  // scaled.
  size_t groups = 0;
};
SetTrial TrySet(const CountingMachine& machine, const CounterSet& set);

// What to do about a machine without counters, a counter that does not work; empty: nothing.
std::string PmuAdvice(const CountingMachine& machine);
std::string AdviceFor(const CountingMachine& machine, const CounterTrial& trial);

CounterList ParseWords(const std::string& words, const Processor& processor);
std::vector<CounterRefusal> RefusedOf(const CounterList& list);

}  // namespace dlhook::analyzer::doctor

#endif  // DLHOOK_ANALYZER_DOCTOR_COUNTER_TRIALS_H_
