// What PAPI can count here. It is loaded and tried in a child process: it may crash or print, and it leaves threads and
// files behind.
#ifndef DLHOOK_ANALYZER_DOCTOR_PAPI_TRIALS_H_
#define DLHOOK_ANALYZER_DOCTOR_PAPI_TRIALS_H_

#include <string>
#include <vector>

namespace dlhook::analyzer::inline doctor {

struct PapiEvent {
  std::string name;    // "PAPI_TOT_CYC", "perf::PAGE-FAULTS"
  bool works = false;  // it was added to an event set, which could be started and read
  std::string reason;  // PAPI's, where not
};

struct PapiTrials {
  std::string library;  // "libpapi.so.7"; empty: not there
  std::string version;  // "7.0"; empty: `trouble` says why it does not work
  std::string trouble;
  std::vector<PapiEvent> events;  // the presets that PAPI claims to have, then those asked for
};

// `wanted`: names of events beside the presets, as PAPI knows them.
PapiTrials TryPapi(const std::vector<std::string>& wanted);

}  // namespace dlhook::analyzer::doctor

#endif  // DLHOOK_ANALYZER_DOCTOR_PAPI_TRIALS_H_
