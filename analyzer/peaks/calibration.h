// The results of `dlhook calibrate` on a machine: its peak rates of computation and transfers.
#pragma once

#include "analyzer/io/run_folder.h"
#include "analyzer/model/process_info.h"

namespace dlhook::analyzer::inline peaks {

// Of repeated measurements. `best`: the fastest, from which bounds are computed.
struct Spread {
  double best = 0;
  double median = 0;
  double low_quartile = 0;
  double high_quartile = 0;
  int repeats = 0;
};

// `values`: at least one. The best is the largest rate or the shortest time.
Spread SpreadOf(std::vector<double> values, bool is_rate);

// Names of measurements; of GPUs they begin with "gpu ".
inline constexpr absl::string_view kProductTypes[] = {"f32", "f64", "bf16", "int8"};  // GFLOP/s of matrix products
inline constexpr char kL2Read[] = "L2 read";
inline constexpr char kL3Read[] = "L3 read";
inline constexpr char kMemoryRead[] = "memory read";
inline constexpr char kCallCost[] = "call";      // of a library, for an almost empty product
inline constexpr char kDividing[] = "dividing";  // passing work to all threads and waiting for them
inline constexpr char kGpuLaunch[] = "gpu launch";

struct Measurement : Spread {
  std::string what;
  uint32_t threads = 0;  // 0: of a GPU
  std::string unit;      // "GFLOP/s", "GB/s", "ns"
  std::string method;    // a clause: library and function, sizes
};

struct NotMeasured {
  std::string what;
  std::string reason;  // a clause
};

// Of a machine; while it is measured also a part of one.
struct Calibration {
  ProcessorInfo processor;
  std::string microcode;    // "0xa0011d5"; empty: unknown to the kernel
  uint32_t processors = 0;  // available to the command
  uint64_t l2_bytes = 0;    // of one core; 0: not known
  uint64_t l3_bytes = 0;    // of all of them
  std::string gpu;          // name of the first one; empty: none
  std::string date;         // of its end, "2026-11-23T05:40:00Z"
  std::string tool_version;
  double waiting_percent = 0;  // of its threads' time: runnable without a processor
  std::vector<Measurement> measured = {};
  std::vector<NotMeasured> not_measured = {};

  void Add(Calibration more);                                               // what was measured, and what not
  const Measurement* Find(absl::string_view what, uint32_t threads) const;  // null: not measured
};

// With more waiting the peaks may be too low.
inline constexpr double kBusyPercent = 2;

// Calibrations as files: one json object each, in the user's cache folder.
std::string CalibrationJson(const Calibration& calibration);
absl::StatusOr<Calibration> ParseCalibration(absl::string_view text);

// "calibration-AMD_EPYC-26-2-1-microcode-0xa0011d5-2.json": processor, microcode, number of available processors.
std::string CalibrationName(const Calibration& calibration);

// Errors name the path. The file is replaced atomically; folders above it are created.
absl::Status WriteCalibration(const Calibration& calibration, const std::string& path);
absl::StatusOr<Calibration> ReadCalibration(const std::string& path, FileIs how = FileIs::kNamed);

struct FoundCalibration {
  std::optional<Calibration> calibration;
  std::vector<std::string> complaints;  // files that could not be used, with the reason: sentences
};
// The calibration of a machine with this processor. If there are several: one for `processors` processors, else for
// more (a program may have been given a part of its machine); of these the newest.
FoundCalibration FindCalibration(const std::string& folder, const ProcessorInfo& processor, uint32_t processors);

// Whether it is valid for a program on that many processors of this kind.
bool Fits(const Calibration& calibration, const ProcessorInfo& processor, uint32_t processors);

}  // namespace dlhook::analyzer::peaks
