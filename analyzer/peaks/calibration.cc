// Medians and quartiles; look-up.
#include "analyzer/peaks/calibration.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

namespace dlhook::values {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Processor, vendor, name, family, model, stepping, threads_per_core, instruction_sets)
}  // namespace dlhook::values

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
using Json = nlohmann::json;

constexpr int kFormat = 1;
constexpr char kPrefix[] = "calibration-";
constexpr char kSuffix[] = ".json";
constexpr uint64_t kMaxBytes = 1 << 20;

bool IsPlausible(const Spread& spread) {
  return absl::c_all_of(std::array{spread.best, spread.median, spread.low_quartile, spread.high_quartile},
                        [](double value) { return std::isfinite(value) && value > 0; });
}

std::string Safe(std::string text) {
  for (char& c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.') c = '_';
  }
  return text;
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Measurement, what, threads, unit, best, median, low_quartile, high_quartile, repeats,
                                   method)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NotMeasured, what, reason)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Calibration, processor, microcode, processors, l2_bytes, l3_bytes, gpu, date,
                                   tool_version, waiting_percent, measured, not_measured)

Spread SpreadOf(std::vector<double> values, bool is_rate) {
  absl::c_sort(values);
  return {.best = is_rate ? values.back() : values.front(),
          .median = Quantile(values, 0.5),
          .low_quartile = Quantile(values, 0.25),
          .high_quartile = Quantile(values, 0.75),
          .repeats = static_cast<int>(values.size())};
}

void Calibration::Add(Calibration more) {
  std::move(more.measured.begin(), more.measured.end(), std::back_inserter(measured));
  std::move(more.not_measured.begin(), more.not_measured.end(), std::back_inserter(not_measured));
  if (gpu.empty()) gpu = more.gpu;
}

const Measurement* Calibration::Find(absl::string_view what, uint32_t threads) const {
  for (const Measurement& measurement : measured) {
    if (measurement.what == what && measurement.threads == threads) return &measurement;
  }
  return nullptr;
}

std::string CalibrationJson(const Calibration& calibration) {
  Json json = calibration;
  json["format"] = kFormat;
  return absl::StrCat(json.dump(1, ' ', false, Json::error_handler_t::replace), "\n");
}

absl::StatusOr<Calibration> ParseCalibration(absl::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("format")) return absl::DataLossError("is no calibration of dlhook's");
  if (json["format"] != kFormat) return absl::DataLossError("is of another version of dlhook");
  try {
    auto calibration = json.get<Calibration>();
    if (calibration.processors == 0) return absl::DataLossError("is damaged: it names no processors");
    for (const Measurement& measurement : calibration.measured) {
      if (IsPlausible(measurement)) continue;
      return absl::DataLossError(absl::StrCat("is damaged: its \"", measurement.what, "\" can't be"));
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
