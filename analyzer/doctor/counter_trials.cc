// Opens counters with the shim's own functions (preload/counters/perf_group.h), so that what works here works there.
#include "analyzer/doctor/counter_trials.h"

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>

#include "analyzer/io/machine_files.h"
#include "analyzer/symbols/isolated.h"
#include "preload/counters/papi.h"
#include "preload/counters/perf_group.h"
#include "preload/counters/rusage_counters.h"

namespace dlhook::analyzer::inline doctor {
namespace {

constexpr char kPmuFolder[] = "/sys/bus/event_source/devices";
constexpr int kReadings = 200;  // per round
constexpr int kRounds = 5;
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

// ns per item: the fastest round, because others may have been disturbed.
template <typename Read>
double TimeOf(const Read& read) {
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kReadings; ++i) read();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    const double each = took.count() / kReadings;
    if (round == 0 || each < best) best = each;
  }
  return best;
}

bool Has(const CounterSpec& spec, CounterSource source) { return (spec.sources & SourceBit(source)) != 0; }

void TryUsage(CounterTrial* trial) {
  const bool is_clock = UsageFieldOf(trial->spec.name) == UsageField::kTaskClock;
  Usage usage;
  trial->works = ReadUsage(RUSAGE_THREAD, CLOCK_THREAD_CPUTIME_ID, is_clock, !is_clock, &usage);
  if (!trial->works) {
    trial->reason = "the kernel refuses getrusage";
    return;
  }
  trial->source = CounterSource::kRusage;
  trial->read_ns = TimeOf([&] { ReadUsage(RUSAGE_THREAD, CLOCK_THREAD_CPUTIME_ID, is_clock, !is_clock, &usage); });
}

void KeepReason(void* context, const CounterSpec&, const char* reason) { *static_cast<std::string*>(context) = reason; }

void TryPerf(CounterTrial* trial) {
  // Counters that only count together with `slots` are tested together with it.
  const CounterList with_slots = ParseWords("slots", ThisProcessor());
  const CounterSpec* specs[2] = {&trial->spec, nullptr};
  size_t count = 1;
  if (trial->spec.needs_slots && with_slots.count == 1) {
    specs[0] = &with_slots.counters[0];
    specs[1] = &trial->spec;
    count = 2;
  }
  PerfGroups groups = {};
  DividePerfGroups(specs, count, &KeepReason, &trial->reason, &groups);
  if (groups.count != 1 || groups.sizes[0] != count) {
    if (trial->reason.empty()) trial->reason = "the processor can't count it in one group with slots";
    return;
  }
  PerfGroup group = {};
  if (!OpenPerfGroup(groups.events, groups.sizes[0], 0, false, &group)) {
    char reason[200];
    ExplainPerfError(trial->spec, errno, reason, sizeof reason);
    trial->reason = reason;
    return;
  }
  trial->works = true;
  trial->reason.clear();
  trial->user_only = groups.events[count - 1].user_only;
  const bool by_rdpmc = !trial->spec.needs_slots && !trial->spec.leads_group && MapPerfGroup(&group);
  trial->source = by_rdpmc ? CounterSource::kPerfRdpmc : CounterSource::kPerfRead;
  PerfReading reading;
  trial->read_ns = TimeOf([&] { ReadPerfGroup(group, &reading); });
  ClosePerfGroup(&group);
}

void* FindSymbol(void* library, const char* name) { return dlsym(library, name); }

// A line "event NAME" or "event NAME: reason".
std::string TryEvent(const Papi& papi, const CounterSpec& spec) {
  const CounterSpec* specs[] = {&spec};
  int set = 0;
  const int error = MakePapiSet(papi, specs, 1, &set);
  if (error == kPapiOk) StopPapiSet(papi, set);
  return absl::StrCat("event ", PapiName(spec), error == kPapiOk ? "" : absl::StrCat(": ", papi.strerror(error)), "\n");
}

// Lines for TakeLine; empty: no such library.
std::string AskPapi(const char* soname, const CounterList& wanted) {
  void* library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return "";
  Papi papi = {};
  int version = 0;
  const char* trouble = StartPapi(library, &FindSymbol, &papi, &version);
  if (trouble != nullptr) return absl::StrCat("trouble ", trouble, "\n");
  std::string lines = absl::StrCat("version ", version >> 8, ".", version & 0xff, "\n");
  for (size_t i = 0; i < wanted.count; ++i) {
    if (IsOfPapi(wanted.counters[i])) lines += TryEvent(papi, wanted.counters[i]);
  }
  return lines;
}

void TakeLine(absl::string_view line, PapiTrials* trials) {
  if (absl::ConsumePrefix(&line, "version ")) {
    trials->version = std::string(line);
  } else if (absl::ConsumePrefix(&line, "trouble ")) {
    trials->trouble = std::string(line);
  } else if (absl::ConsumePrefix(&line, "event ")) {
    const size_t colon = line.find(": ");
    const bool works = colon == absl::string_view::npos;
    trials->events.push_back(
        {std::string(line.substr(0, colon)), works, std::string(works ? "" : line.substr(colon + 2))});
  }
}

void TakePapi(const PapiTrials& papi, CounterTrial* trial) {
  for (const PapiEvent& event : papi.events) {
    if (event.name != PapiName(trial->spec)) continue;
    trial->works = event.works;
    trial->reason = event.works ? "" : absl::StrCat("PAPI: ", event.reason);
    trial->source = event.works ? CounterSource::kPapi : CounterSource::kUnknown;
    return;
  }
  trial->reason = papi.library.empty()    ? "PAPI is not installed"
                  : !papi.trouble.empty() ? absl::StrCat(papi.library, ": ", papi.trouble)
                                          : "PAPI says that this machine does not have it";
}

std::string AdviceForTrial(const CountingMachine& machine, const CounterTrial& trial) {
  if (trial.works || Has(trial.spec, CounterSource::kPapi)) return "";
  if (!machine.paranoid.has_value()) return "a kernel with CONFIG_PERF_EVENTS is needed.";
  if (trial.spec.perf_type != PERF_TYPE_SOFTWARE && machine.pmus.empty()) return PmuAdvice(machine);
  if (!machine.may_count_all && *machine.paranoid >= (trial.spec.is_in_kernel ? 2 : 3)) {
    return absl::StrCat("sysctl kernel.perf_event_paranoid=", trial.spec.is_in_kernel ? 1 : 2);
  }
  return "";
}

size_t GroupsOf(const std::vector<CounterTrial>& trials) {
  std::vector<const CounterSpec*> specs;
  for (const CounterTrial& trial : trials) {
    const bool by_perf = trial.source == CounterSource::kPerfRead || trial.source == CounterSource::kPerfRdpmc;
    if (by_perf && trial.spec.perf_type != PERF_TYPE_SOFTWARE) specs.push_back(&trial.spec);
  }
  if (specs.empty()) return 0;
  PerfGroups groups = {};
  std::string unused;
  DividePerfGroups(specs.data(), specs.size(), &KeepReason, &unused, &groups);
  return groups.count;
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
  const auto results = RunIsolated(std::size(kPapiSonames), kSeconds, [&](size_t i) {
    static bool is_found = false;
    std::string lines = is_found ? "" : AskPapi(kPapiSonames[i], wanted);
    is_found = is_found || !lines.empty();
    return lines;
  });
  for (size_t i = 0; i < results.size() && trials.library.empty(); ++i) {
    const auto& [lines, failure] = results[i];
    if (lines.empty() && failure.empty()) continue;
    trials.library = kPapiSonames[i];
    trials.trouble = absl::StrReplaceAll(failure, {{"reading it", "it"}});
    for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) TakeLine(line, &trials);
  }
  return trials;
}

std::vector<CounterTrial> TryCounters(const CountingMachine& machine, const CounterList& list, const PapiTrials& papi) {
  std::vector<CounterTrial> trials;
  for (size_t i = 0; i < list.count; ++i) {
    CounterTrial trial;
    trial.spec = list.counters[i];
    if (Has(trial.spec, CounterSource::kRusage)) {
      TryUsage(&trial);
    } else if (Has(trial.spec, CounterSource::kPapi)) {
      TakePapi(papi, &trial);
    } else {
      TryPerf(&trial);
    }
    const bool lacks_pmu =
        !trial.works && trial.spec.perf_type < PERF_TYPE_MAX && trial.spec.perf_type != PERF_TYPE_SOFTWARE;
    if (lacks_pmu && machine.pmus.empty()) trial.reason = "no PMU";  // the kernel's error says less
    trial.advice = AdviceForTrial(machine, trial);
    trials.push_back(std::move(trial));
  }
  return trials;
}

std::vector<CounterRefusal> RefusedOf(const CounterList& list) {
  return {list.refused, list.refused + list.refused_count};
}

SetTrial TrySet(const CountingMachine& machine, const CounterSet& set) {
  const CounterList list = ParseWords(set.name, machine.processor);
  SetTrial trial = {set, TryCounters(machine, list, {}), RefusedOf(list), 0};
  trial.groups = GroupsOf(trial.counters);
  return trial;
}

std::string PmuAdvice(const CountingMachine& machine) {
  if (!machine.pmus.empty() || !machine.is_virtual) return "";
  return "ask the operator of this virtual machine for a PMU (KVM: -cpu host,pmu=on; clouds: a metal or large "
         "instance).";
}

}  // namespace dlhook::analyzer::doctor
