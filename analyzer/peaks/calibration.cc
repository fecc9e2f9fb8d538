// Medians and quartiles; look-up.
#include "analyzer/peaks/calibration.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dlhook::analyzer::inline peaks {
namespace {

// Linear between neighbours (Hyndman and Fan's definition 7).
double Quantile(const std::vector<double>& sorted, double part) {
  const double at = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr char kPrefix[] = "calibration-";
constexpr char kSuffix[] = ".json";
constexpr uint64_t kMaxBytes = 1 << 20;

Json ProcessorJson(const ProcessorInfo& processor) {
  return {{"vendor", processor.vendor},
          {"name", processor.name},
          {"family", processor.family},
          {"model", processor.model},
          {"stepping", processor.stepping},
          {"threads_per_core", processor.threads_per_core},
          {"instruction_sets", processor.instruction_sets}};
}

ProcessorInfo ReadProcessor(const Json& json) {
  return {.vendor = json.at("vendor"),
          .name = json.at("name"),
          .family = json.at("family"),
          .model = json.at("model"),
          .stepping = json.at("stepping"),
          .threads_per_core = json.at("threads_per_core"),
          .instruction_sets = json.at("instruction_sets")};
}

Json MeasurementJson(const Measurement& measurement) {
  const Spread& spread = measurement.spread;
  return {{"what", measurement.what},     {"threads", measurement.threads}, {"unit", measurement.unit},
          {"best", spread.best},          {"median", spread.median},        {"low_quartile", spread.low},
          {"high_quartile", spread.high}, {"repeats", spread.repeats},      {"method", measurement.method}};
}

Measurement MeasurementOf(const Json& json) {
  return {.what = json.at("what"),
          .threads = json.at("threads"),
          .unit = json.at("unit"),
          .spread = {.best = json.at("best"),
                     .median = json.at("median"),
                     .low = json.at("low_quartile"),
                     .high = json.at("high_quartile"),
                     .repeats = json.at("repeats")},
          .method = json.at("method")};
}

bool IsPlausible(const Measurement& measurement) {
  const Spread& spread = measurement.spread;
  for (const double value : {spread.best, spread.median, spread.low, spread.high}) {
    if (!std::isfinite(value) || value <= 0) return false;
  }
  return true;
}

Calibration CalibrationOf(const Json& json) {
  Calibration calibration = {.processor = ReadProcessor(json.at("processor")),
                             .microcode = json.at("microcode"),
                             .processors = json.at("processors"),
                             .l2_bytes = json.at("l2_bytes"),
                             .l3_bytes = json.at("l3_bytes"),
                             .gpu = json.at("gpu"),
                             .date = json.at("date"),
                             .tool_version = json.at("tool_version"),
                             .waiting_percent = json.at("waiting_percent")};
  for (const Json& one : json.at("measured")) calibration.measured.push_back(MeasurementOf(one));
  for (const Json& one : json.at("not_measured")) calibration.missing.push_back({one.at("what"), one.at("reason")});
  return calibration;
}

std::string Safe(std::string text) {
  for (char& c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.') c = '_';
  }
  return text;
}

}  // namespace

Spread SpreadOf(std::vector<double> values, bool is_rate) {
  absl::c_sort(values);
  return {.best = is_rate ? values.back() : values.front(),
          .median = Quantile(values, 0.5),
          .low = Quantile(values, 0.25),
          .high = Quantile(values, 0.75),
          .repeats = static_cast<int>(values.size())};
}

const Measurement* Calibration::Find(absl::string_view what, uint32_t threads) const {
  for (const Measurement& measurement : measured) {
    if (measurement.what == what && measurement.threads == threads) return &measurement;
  }
  return nullptr;
}

std::string CalibrationJson(const Calibration& calibration) {
  Json json = {{"format", kFormat},
               {"processor", ProcessorJson(calibration.processor)},
               {"microcode", calibration.microcode},
               {"processors", calibration.processors},
               {"l2_bytes", calibration.l2_bytes},
               {"l3_bytes", calibration.l3_bytes},
               {"gpu", calibration.gpu},
               {"date", calibration.date},
               {"tool_version", calibration.tool_version},
               {"waiting_percent", calibration.waiting_percent},
               {"measured", Json::array()},
               {"not_measured", Json::array()}};
  for (const Measurement& one : calibration.measured) json["measured"].push_back(MeasurementJson(one));
  for (const NotMeasured& one : calibration.missing) {
    json["not_measured"].push_back({{"what", one.what}, {"reason", one.reason}});
  }
  return absl::StrCat(json.dump(1, ' ', false, Json::error_handler_t::replace), "\n");
}

absl::StatusOr<Calibration> ParseCalibration(absl::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("format")) return absl::DataLossError("is no calibration of dlhook's");
  if (json["format"] != kFormat) return absl::DataLossError("is of another version of dlhook");
  try {
    Calibration calibration = CalibrationOf(json);
    if (calibration.processors == 0) return absl::DataLossError("is damaged: it names no processors");
    for (const Measurement& measurement : calibration.measured) {
      if (!IsPlausible(measurement)) {
        return absl::DataLossError(absl::StrCat("is damaged: its \"", measurement.what, "\" can't be"));
      }
    }
    return calibration;
  } catch (const Json::exception& error) {
    return absl::DataLossError(absl::StrCat("is damaged: ", error.what()));
  }
}

std::string CalibrationName(const Calibration& calibration) {
  const ProcessorInfo& processor = calibration.processor;
  return absl::StrCat(kPrefix, Safe(processor.name.empty() ? processor.vendor : processor.name), "-", processor.family,
                      "-", processor.model, "-", processor.stepping, "-microcode-",
                      calibration.microcode.empty() ? "unknown" : Safe(calibration.microcode), "-",
                      calibration.processors, kSuffix);
}

absl::Status WriteCalibration(const Calibration& calibration, const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) return absl::PermissionDeniedError(absl::StrCat(path, " can't be written: ", error.message()));
  return ReplaceFile(path, CalibrationJson(calibration));
}

absl::StatusOr<Calibration> ReadCalibration(const std::string& path, FileIs how) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMaxBytes, how);
  if (absl::IsNotFound(text.status())) return absl::NotFoundError(absl::StrCat(path, ": there is no such file"));
  if (!text.ok()) return text.status();
  absl::StatusOr<Calibration> calibration = ParseCalibration(*text);
  if (calibration.ok()) return calibration;
  return absl::Status(calibration.status().code(), absl::StrCat(path, ": ", calibration.status().message()));
}

bool Fits(const Calibration& calibration, const ProcessorInfo& processor, uint32_t processors) {
  return !processor.vendor.empty() && calibration.processor == processor && processors > 0 &&
         calibration.processors >= processors;
}

FoundCalibration FindCalibration(const std::string& folder, const ProcessorInfo& processor, uint32_t processors) {
  FoundCalibration found;
  std::vector<Calibration> fitting;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!absl::StartsWith(name, kPrefix) || !absl::EndsWith(name, kSuffix)) continue;
    absl::StatusOr<Calibration> calibration = ReadCalibration(at->path().string(), FileIs::kFound);
    if (!calibration.ok()) {
      found.complaints.push_back(absl::StrCat(calibration.status().message(), "; dlhook calibrate measures again"));
    } else if (Fits(*calibration, processor, processors)) {
      fitting.push_back(*std::move(calibration));
    }
  }
  const auto best = absl::c_max_element(fitting, [&](const Calibration& a, const Calibration& b) {
    return std::make_pair(a.processors == processors, absl::string_view(a.date)) <
           std::make_pair(b.processors == processors, absl::string_view(b.date));
  });
  if (best != fitting.end()) found.calibration = std::move(*best);
  return found;
}

}  // namespace dlhook::analyzer::peaks
