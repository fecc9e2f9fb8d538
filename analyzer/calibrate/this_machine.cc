// cpuid, /proc and sysfs.
#include "analyzer/calibrate/this_machine.h"

#include <sched.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "analyzer/calibrate/measuring.h"
#include "analyzer/io/machine_files.h"
#include "analyzer/tables/columns.h"
#include "preload/format/processor_id.h"

namespace dlhook::analyzer::inline calibrate {
namespace {

constexpr int kMaxProcessors = 8192;

std::string ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return std::string(absl::StripAsciiWhitespace(line));
}

// "1024K", "32M"; 0: another format.
uint64_t ReadSize(const std::string& path) {
  const std::string text = ReadLine(path);
  absl::string_view digits = text;
  const uint64_t unit = absl::ConsumeSuffix(&digits, "K") ? 1024 : absl::ConsumeSuffix(&digits, "M") ? 1024 * 1024 : 1;
  uint64_t size = 0;
  return absl::SimpleAtoi(digits, &size) ? size * unit : 0;
}

// How many of "0-3,8" are in `processors`.
uint32_t CountOf(const std::string& list, const std::vector<int>& processors) {
  uint32_t count = 0;
  for (const absl::string_view range : absl::StrSplit(list, ',', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(range, absl::MaxSplits('-', 1));
    int first = 0, last = 0;
    if (!absl::SimpleAtoi(ends.first, &first)) continue;
    if (!absl::SimpleAtoi(ends.second, &last)) last = first;
    count += static_cast<uint32_t>(
        absl::c_count_if(processors, [&](int processor) { return first <= processor && processor <= last; }));
  }
  return count;
}

std::string ProcessorText(const Calibration& calibration) {
  const ProcessorInfo& processor = calibration.processor;
  return absl::StrFormat(
      "%s (family %d, model %d, stepping %d, %s), %d processor%s",
      processor.name.empty() ? processor.vendor : processor.name, processor.family, processor.model, processor.stepping,
      calibration.microcode.empty() ? "microcode not known" : absl::StrCat("microcode ", calibration.microcode),
      calibration.processors, calibration.processors == 1 ? "" : "s");
}

// "2026-11-23T05:40:00Z"
std::string UtcNow() {
  const time_t now = ::time(nullptr);
  tm parts = {};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace

ProcessorInfo ThisProcessorInfo() {
  const ProcessorId id = IdentifyProcessor();
  return {.vendor = id.vendor,
          .name = id.name,
          .family = id.family,
          .model = id.model,
          .stepping = id.stepping,
          .threads_per_core = id.threads_per_core,
          .instruction_sets = id.instruction_sets};
}

std::vector<int> AllowedProcessors() {
  std::vector<int> allowed;
  cpu_set_t* set = CPU_ALLOC(kMaxProcessors);
  const size_t bytes = CPU_ALLOC_SIZE(kMaxProcessors);
  CPU_ZERO_S(bytes, set);
  if (sched_getaffinity(0, bytes, set) == 0) {
    for (int i = 0; i < kMaxProcessors; ++i) {
      if (CPU_ISSET_S(i, bytes, set)) allowed.push_back(i);
    }
  }
  CPU_FREE(set);
  return allowed;
}

std::vector<std::vector<int>> OneAndAll(const std::vector<int>& processors) {
  std::vector<std::vector<int>> crews = {{processors.front()}};
  if (processors.size() > 1) crews.push_back(processors);
  return crews;
}

bool RunOn(const std::vector<int>& processors) {
  cpu_set_t* set = CPU_ALLOC(kMaxProcessors);
  const size_t bytes = CPU_ALLOC_SIZE(kMaxProcessors);
  CPU_ZERO_S(bytes, set);
  for (const int processor : processors) CPU_SET_S(processor, bytes, set);
  const bool is_set = sched_setaffinity(0, bytes, set) == 0;
  CPU_FREE(set);
  return is_set;
}

Caches ReadCaches(const std::vector<int>& processors, const std::string& root) {
  Caches caches;
  std::set<std::string> l3_lists;
  for (const int processor : processors) {
    for (int index = 0; index < 8; ++index) {
      const std::string folder =
          absl::StrCat(root, "/sys/devices/system/cpu/cpu", processor, "/cache/index", index, "/");
      const std::string level = ReadLine(absl::StrCat(folder, "level"));
      if (level == "2") caches.l2_bytes = ReadSize(absl::StrCat(folder, "size"));
      if (level != "3") continue;
      const std::string sharers = ReadLine(absl::StrCat(folder, "shared_cpu_list"));
      caches.l3_bytes = ReadSize(absl::StrCat(folder, "size"));
      caches.l3_sharers = std::max(caches.l3_sharers, CountOf(sharers, processors));
      l3_lists.insert(sharers);
    }
  }
  caches.l3_count = static_cast<uint32_t>(l3_lists.size());
  return caches;
}

RunTime ReadRunTime() {
  RunTime sum;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/task", error), end; !error && at != end;
       at.increment(error)) {
    std::ifstream file(at->path() / "schedstat");
    uint64_t running = 0, waiting = 0;
    if (!(file >> running >> waiting)) continue;
    sum.running_ns += running;
    sum.waiting_ns += waiting;
  }
  return sum;
}

Calibration DescribeMachine() {
  Calibration machine;
  machine.processor = ThisProcessorInfo();
  machine.microcode = ValueIn("/proc/cpuinfo", "microcode");
  machine.processors = static_cast<uint32_t>(AllowedProcessors().size());
  const Caches caches = ReadCaches(AllowedProcessors());
  machine.l2_bytes = caches.l2_bytes;
  machine.l3_bytes = caches.l3_bytes * caches.l3_count;
  machine.tool_version = DLHOOK_VERSION;
  return machine;
}

// The measurements run one after the other, so that they do not disturb each other.
Calibration Calibrate(const CalibrateOptions& options) {
  Calibration calibration = DescribeMachine();
  const std::vector<int> processors = AllowedProcessors();
  const bool is_asked = !options.libraries.empty();
  calibration.Add(
      MeasureProducts(processors, is_asked ? options.libraries : ProductLibraries(options.python), is_asked));
  calibration.Add(MeasureBandwidth(processors));
  const RunTime time = RunTimeOfChildren();
  const auto wanted = static_cast<double>(time.running_ns + time.waiting_ns);
  calibration.waiting_percent = wanted > 0 ? 100 * static_cast<double>(time.waiting_ns) / wanted : 0;
  calibration.Add(MeasureGpu(processors));
  calibration.date = UtcNow();
  return calibration;
}

Table CalibrationTable(const Calibration& calibration) {
  const auto value = [](const char* name, const char* explanation, double Spread::*of) {
    return TypedColumn<Measurement>(RealColumn(name, "", Better::kNeither, explanation),
                                    [of](const Measurement& one) { return one.repeats == 0 ? Cell() : Cell(one.*of); });
  };
  const TypedColumns<Measurement> columns = {
      {TextColumn("what"),
       "f32, f64, bf16, int8: matrix products of this type; L2, L3, memory: reading them; triad: a = b + s c; call: of "
       "a library, whatever it computes; dividing: handing work to all threads and waiting for them.",
       &Measurement::what},
      {NumberColumn("threads"), "Threads that did it; none of a GPU.",
       [](const Measurement& one) { return one.threads > 0 ? Cell(int64_t{one.threads}) : Cell(); }},
      value("best", "The fastest repeat: what bounds are made of.", &Spread::best),
      {TextColumn("unit"), "Of best, median and quartiles.", Known(&Measurement::unit)},
      value("median", "Half of the repeats are below it.", &Spread::median),
      value("low_quartile", "A quarter of the repeats is below it.", &Spread::low_quartile),
      value("high_quartile", "A quarter of the repeats is above it.", &Spread::high_quartile),
      {Detail(NumberColumn("repeats")), "How often it was measured.",
       [](const Measurement& one) { return one.repeats == 0 ? Cell() : Cell(int64_t{one.repeats}); }},
      {TextColumn("method"), "By which library or how; in brackets why it could not be measured.",
       &Measurement::method},
  };
  std::vector<Measurement> rows = calibration.measured;
  for (const NotMeasured& one : calibration.not_measured) {
    rows.push_back({{}, one.what, 0, "", absl::StrCat("[not measured: ", one.reason, "]")});
  }
  Table table = NewTable("peaks", "What this machine computes and moves at most", columns, rows);
  table.notes.push_back(absl::StrCat("Processor: ", ProcessorText(calibration), "."));
  if (!calibration.gpu.empty()) table.notes.push_back(absl::StrCat("GPU: ", calibration.gpu, "."));
  for (const NotMeasured& one : calibration.not_measured) {
    table.notes.push_back(absl::StrCat("Not measured: ", one.what, ": ", one.reason, "."));
  }
  if (calibration.waiting_percent > kBusyPercent) {
    table.notes.push_back(
        absl::StrFormat("The machine was busy: threads waited for a processor in %.0f %% of their time, so that what "
                        "all threads reach may be too low. Measure again when it is idle.",
                        calibration.waiting_percent));
  }
  return table;
}

}  // namespace dlhook::analyzer::calibrate
