// Opens counters with the shim's own functions (preload/counters/perf_group.h), so that what works here works there.
#include "analyzer/doctor/counter_trials.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>

#include "analyzer/io/machine_files.h"
#include "analyzer/symbols/isolated_json.h"
#include "preload/counters/papi.h"
#include "preload/counters/perf_group.h"
#include "preload/counters/rusage_counters.h"

namespace dlhook::analyzer::inline doctor {

// What the child finds.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PapiTrials, library, version, trouble, reasons)

namespace {

constexpr char kPmuFolder[] = "/sys/bus/event_source/devices";
constexpr int kCapPerfmon = 38;  // linux/capability.h, since 5.8
constexpr int kCapSysAdmin = 21;

bool ReadSmall(const char* path, char* text, size_t size) {
  const std::string read = ReadSmallFile(path);
  absl::SNPrintF(text, size, "%s", read);
  return !read.empty();
}

bool MayCountAll() {
  uint64_t effective = 0;
  if (!absl::SimpleHexAtoi(ValueIn("/proc/self/status", "CapEff"), &effective)) return false;
  return (effective >> kCapPerfmon & 1) != 0 || (effective >> kCapSysAdmin & 1) != 0;
}

// "cpu"; on hybrid processors "cpu_core" and "cpu_atom"; on ARM "armv8_pmuv3_0".
std::vector<std::string> CorePmus() {
  std::vector<std::string> pmus;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(kPmuFolder, error)) {
    const std::string name = entry.path().filename();
    if (name == "cpu" || absl::StartsWith(name, "cpu_") || absl::StartsWith(name, "armv8_")) pmus.push_back(name);
  }
  absl::c_sort(pmus);
  return pmus;
}

bool Has(const CounterSpec& spec, CounterSource source) { return (spec.sources & SourceBit(source)) != 0; }

void TryUsage(CounterTrial* trial) {
  Usage usage;
  trial->source = CounterSource::kRusage;
  if (!ReadUsage(RUSAGE_THREAD, CLOCK_THREAD_CPUTIME_ID, true, true, &usage))
    trial->reason = "the kernel refuses getrusage";
}

// Of the trial with this spec.
void KeepReason(void* trials, const CounterSpec& spec, const char* reason) {
  for (CounterTrial& trial : *static_cast<std::vector<CounterTrial>*>(trials)) {
    if (&trial.spec == &spec) trial.reason = reason;
  }
}

// As the shim divides them: how many groups the kernel must make of those of the processor.
size_t TryPerf(std::vector<CounterTrial>* trials) {
  std::vector<const CounterSpec*> specs;
  for (const CounterTrial& trial : *trials) {
    if (trial.source == CounterSource::kPerfRead) specs.push_back(&trial.spec);
  }
  PerfGroups groups = {};
  DividePerfGroups(specs.data(), specs.size(), &KeepReason, trials, &groups);
  size_t of_processor = 0;
  const PerfEvent* event = groups.events;
  for (uint32_t group = 0; group < groups.count; ++group) {
    of_processor += event->spec->perf_type != PERF_TYPE_SOFTWARE ? 1 : 0;
    for (const PerfEvent* const end = event + groups.sizes[group]; event != end; ++event) {
      for (CounterTrial& trial : *trials) trial.user_only |= &trial.spec == event->spec && event->user_only;
    }
  }
  return of_processor;
}

// In a child process.
PapiTrials AskPapi(const char* soname, const CounterList& wanted) {
  void* library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  PapiTrials trials = {.library = soname};
  Papi papi = {};
  int version = 0;
  if (const char* const trouble = StartPapi(library, &dlsym, &papi, &version)) {
    trials.trouble = trouble;
    return trials;
  }
  trials.version = absl::StrCat(version >> 8, ".", version & 0xff);
  for (size_t i = 0; i < wanted.count; ++i) {
    const CounterSpec* const spec = &wanted.counters[i];
    if (!IsOfPapi(*spec)) continue;
    int set = 0;
    const int error = MakePapiSet(papi, &spec, 1, &set);
    if (error == kPapiOk) StopPapiSet(papi, set);
    trials.reasons[PapiName(*spec)] = error == kPapiOk ? "" : papi.strerror(error);
  }
  return trials;
}

std::string PapiReason(const PapiTrials& papi, const CounterSpec& spec) {
  if (papi.library.empty()) return "PAPI is not installed";
  const auto reason = papi.reasons.find(PapiName(spec));
  if (reason == papi.reasons.end()) return absl::StrCat(papi.library, ": ", papi.trouble);
  return reason->second.empty() ? "" : absl::StrCat("PAPI: ", reason->second);
}

std::string AdviceForTrial(const CountingMachine& machine, const CounterTrial& trial) {
  if (trial.works() || Has(trial.spec, CounterSource::kPapi)) return "";
  if (!machine.paranoid.has_value()) return "a kernel with CONFIG_PERF_EVENTS is needed.";
  if (trial.spec.perf_type != PERF_TYPE_SOFTWARE && machine.pmus.empty()) return PmuAdvice(machine);
  if (!machine.may_count_all && *machine.paranoid >= (trial.spec.is_in_kernel ? 2 : 3)) {
    return absl::StrCat("sysctl kernel.perf_event_paranoid=", trial.spec.is_in_kernel ? 1 : 2);
  }
  return "";
}

}  // namespace

CounterList ParseWords(const std::string& words, const Processor& processor) {
  CounterList list;
  ParseCounters(words.c_str(), processor, &ReadSmall, &list);
  return list;
}

CountingMachine LookAtCounting() {
  CountingMachine machine;
  machine.processor = ThisProcessor();
  machine.is_virtual = absl::StrContains(ValueIn("/proc/cpuinfo", "flags"), " hypervisor");
  machine.pmus = CorePmus();
  int paranoid = 0;
  if (absl::SimpleAtoi(ReadSmallFile("/proc/sys/kernel/perf_event_paranoid"), &paranoid)) machine.paranoid = paranoid;
  machine.may_count_all = MayCountAll();
  return machine;
}

bool IsOfPapi(const CounterSpec& spec) { return spec.perf_type == kNoPerfType && Has(spec, CounterSource::kPapi); }

PapiTrials TryPapi(const CounterList& wanted) {
  constexpr int kSeconds = 10;
  PapiTrials trials;
  for (const char* soname : kPapiSonames) {
    const std::string failure = AskIsolated(
        kSeconds, [&] { return AskPapi(soname, wanted); }, &trials);
    if (!failure.empty()) trials = {.library = soname, .trouble = absl::StrReplaceAll(failure, {{"reading it", "it"}})};
    if (!trials.library.empty()) break;
  }
  return trials;
}

std::vector<CounterTrial> TryCounters(const CountingMachine& machine, const CounterList& list, const PapiTrials& papi,
                                      size_t* groups) {
  std::vector<CounterTrial> trials(list.count);
  for (size_t i = 0; i < list.count; ++i) {
    trials[i].spec = list.counters[i];
    if (Has(trials[i].spec, CounterSource::kRusage)) {
      TryUsage(&trials[i]);
    } else if (Has(trials[i].spec, CounterSource::kPapi)) {
      trials[i].source = CounterSource::kPapi;
      trials[i].reason = PapiReason(papi, trials[i].spec);
    } else {
      trials[i].source = CounterSource::kPerfRead;
    }
  }
  const size_t of_processor = TryPerf(&trials);
  if (groups != nullptr) *groups = of_processor;
  for (CounterTrial& trial : trials) {
    const bool needs_pmu = trial.spec.perf_type < PERF_TYPE_MAX && trial.spec.perf_type != PERF_TYPE_SOFTWARE;
    if (!trial.works() && needs_pmu && machine.pmus.empty()) trial.reason = "no PMU";  // the kernel's error says less
    trial.advice = AdviceForTrial(machine, trial);
  }
  return trials;
}

std::vector<CounterRefusal> RefusedOf(const CounterList& list) {
  return {list.refused, list.refused + list.refused_count};
}

SetTrial TrySet(const CountingMachine& machine, const CounterSet& set) {
  const CounterList list = ParseWords(set.name, machine.processor);
  SetTrial trial = {.set = set, .counters = {}, .refused = RefusedOf(list)};
  trial.counters = TryCounters(machine, list, {}, &trial.groups);
  return trial;
}

std::string PmuAdvice(const CountingMachine& machine) {
  if (!machine.pmus.empty() || !machine.is_virtual) return "";
  return "ask the operator of this virtual machine for a PMU (KVM: -cpu host,pmu=on; clouds: a metal or large "
         "instance).";
}

}  // namespace dlhook::analyzer::doctor
