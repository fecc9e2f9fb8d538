// The measurements run one after the other, so that they do not disturb each other.
#include "analyzer/calibrate/calibrate.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analyzer/calibrate/measuring.h"
#include "analyzer/calibrate/this_machine.h"
#include "analyzer/tables/columns.h"

namespace dlhook::analyzer::inline calibrate {
namespace {

struct PeakRow {
  const Measurement* measured = nullptr;
  const NotMeasured* missing = nullptr;
};

TypedColumn<PeakRow> ValueColumn(std::string name, std::string explanation, double Spread::*value) {
  return {RealColumn(std::move(name), "", Better::kNeither, std::move(explanation)),
          [value](const PeakRow& row) { return row.measured == nullptr ? Cell() : Cell(row.measured->spread.*value); }};
}

std::string ProcessorText(const Calibration& calibration) {
  const ProcessorInfo& processor = calibration.processor;
  return absl::StrFormat(
      "%s (family %d, model %d, stepping %d, %s), %d processor%s",
      processor.name.empty() ? processor.vendor : processor.name, processor.family, processor.model, processor.stepping,
      calibration.microcode.empty() ? "microcode not known" : absl::StrCat("microcode ", calibration.microcode),
      calibration.processors, calibration.processors == 1 ? "" : "s");
}

}  // namespace

Calibration DescribeMachine() {
  Calibration machine;
  machine.processor = ThisProcessorInfo();
  machine.microcode = Microcode();
  machine.processors = static_cast<uint32_t>(AllowedProcessors().size());
  const Caches caches = ReadCaches(AllowedProcessors());
  machine.l2_bytes = caches.l2_bytes;
  machine.l3_bytes = caches.l3_bytes * caches.l3_count;
  machine.tool_version = DLHOOK_VERSION;
  return machine;
}

Calibration Calibrate(const CalibrateOptions& options) {
  Calibration calibration = DescribeMachine();
  const std::vector<int> processors = AllowedProcessors();
  const bool is_asked = !options.libraries.empty();
  Measurements all =
      MeasureProducts(processors, is_asked ? options.libraries : ProductLibraries(options.python), is_asked);
  all.Add(MeasureBandwidth(processors));
  const RunTime run_time = all.run_time;
  GpuMeasurements gpu = MeasureGpu(processors);
  all.Add(std::move(gpu.results));
  calibration.gpu = gpu.name;
  calibration.date = UtcNow();
  calibration.measured = std::move(all.measured);
  calibration.missing = std::move(all.missing);
  const auto wanted = static_cast<double>(run_time.running_ns + run_time.waiting_ns);
  calibration.waiting_percent = wanted > 0 ? 100 * static_cast<double>(run_time.waiting_ns) / wanted : 0;
  return calibration;
}

Table CalibrationTable(const Calibration& calibration) {
  std::vector<PeakRow> rows;
  for (const Measurement& one : calibration.measured) rows.push_back({.measured = &one});
  for (const NotMeasured& one : calibration.missing) rows.push_back({.missing = &one});
  const TypedColumns<PeakRow> columns = {
      {TextColumn("what",
                  "f32, f64, bf16, int8: matrix products of this type; L2, L3, memory: reading them; triad: a = b + s "
                  "c; call: of a library, whatever it computes; dividing: handing work to all threads and waiting for "
                  "them."),
       [](const PeakRow& row) { return row.measured != nullptr ? row.measured->what : row.missing->what; }},
      {NumberColumn("threads", "Threads that did it; none of a GPU."),
       [](const PeakRow& row) {
         return row.measured != nullptr && row.measured->threads > 0 ? Cell(static_cast<int64_t>(row.measured->threads))
                                                                     : Cell();
       }},
      ValueColumn("best", "The fastest repeat: what bounds are made of.", &Spread::best),
      {TextColumn("unit", "Of best, median and quartiles."),
       [](const PeakRow& row) { return KnownText(row.measured != nullptr ? row.measured->unit : ""); }},
      ValueColumn("median", "Half of the repeats are below it.", &Spread::median),
      ValueColumn("low_quartile", "A quarter of the repeats is below it.", &Spread::low),
      ValueColumn("high_quartile", "A quarter of the repeats is above it.", &Spread::high),
      {Detail(NumberColumn("repeats", "How often it was measured.")),
       [](const PeakRow& row) {
         return row.measured == nullptr ? Cell() : Cell(static_cast<int64_t>(row.measured->spread.repeats));
       }},
      {TextColumn("method", "By which library or how; in brackets why it could not be measured."),
       [](const PeakRow& row) {
         return row.measured != nullptr ? row.measured->method
                                        : absl::StrCat("[not measured: ", row.missing->reason, "]");
       }},
  };
  Table table = NewTable("peaks", "What this machine computes and moves at most", columns, rows);
  table.notes.push_back(absl::StrCat("Processor: ", ProcessorText(calibration), "."));
  if (!calibration.gpu.empty()) table.notes.push_back(absl::StrCat("GPU: ", calibration.gpu, "."));
  for (const NotMeasured& one : calibration.missing) {
    table.notes.push_back(absl::StrCat("Not measured: ", one.what, ": ", one.reason, "."));
  }
  if (calibration.waiting_percent > kBusyPercent) {
    table.notes.push_back(
        absl::StrFormat("The machine was busy: threads waited for a processor in %.0f %% of their time, so that "
                        "what all threads reach may be too low. Measure again when it is idle.",
                        calibration.waiting_percent));
  }
  return table;
}

}  // namespace dlhook::analyzer::calibrate
