// What is measured, and how. Measurements run in child processes: libraries choose their number of threads by the processors available when they
// are loaded, may crash, and must not keep memory or threads in the command's own process.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>

#include "absl/functional/function_ref.h"
#include "analyzer/calibrate/this_machine.h"
#include "analyzer/peaks/calibration.h"

namespace dlhook::analyzer::inline calibrate {

// Runs `measure` in a child that may run on `processors` and whose environment does not limit libraries' threads or
// instructions. If the child crashes or takes more than `seconds`, its measurements (`what`) are missing.
Calibration MeasureInChild(const std::vector<int>& processors, int seconds, absl::string_view what,
                           absl::FunctionRef<Calibration()> measure);
// Of the threads of all these children.
RunTime RunTimeOfChildren();

// Of `work()`, repeated for about `seconds`, at least five times: ns of each of `count` things that it does, or how many
// billions of `amount` it does in a second.
Spread TimeOfEach(int count, double seconds, absl::FunctionRef<void()> work);
Spread RateOf(double amount, double seconds, absl::FunctionRef<void()> work);

using Clock = std::chrono::steady_clock;
inline double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Bandwidth: L2, L3 and memory, read with one thread and with all; memory also by triad (McCalpin's STREAM: a = b + s c). Also the
// time to pass work to all threads and to wait for them.
Calibration MeasureBandwidth(const std::vector<int>& processors);

// The name of the first GPU, and the cost of launches and copies on it. Uses only the driver: libcuda.so.1, found by the loader.
Calibration MeasureGpu(const std::vector<int>& processors);

// Libraries that multiply matrices, found by the loader or inside a Python's packages: names and paths for dlopen, each library once as far as its name shows. `python`: an interpreter whose packages are
// searched; empty: the one in the PATH.
std::vector<std::string> ProductLibraries(const std::string& python);

// GFLOP/s of matrix products with the fastest available library: f32, f64, bf16 and int8 with one thread and with all, and the cost of the smallest product. `libraries`: names and
// paths for dlopen; those that can't be opened are left out, or reported as missing if `is_asked`.
Calibration MeasureProducts(const std::vector<int>& processors, const std::vector<std::string>& libraries,
                            bool is_asked);

// What the neighbours that are built into `dlhook contend` do: use one part of the machine for ever.
enum class LoadKind : uint8_t { kProcessors, kCache, kMemory, kDisk };
absl::StatusOr<LoadKind> FindLoad(absl::string_view name);  // "cache"
std::string LoadName(LoadKind kind);
bool MovesBytes(LoadKind kind);  // its work is counted in bytes

// To be called in a process of its own. Works for the part `intensity` of the time, in slices of 10 ms. `sharers`: processes
// that do the same; together they fill the caches. `folder`: for the file of kDisk. `done`: in memory that the caller sees;
// bytes read and written (kProcessors: slices).
[[noreturn]] void RunLoad(LoadKind kind, double intensity, size_t sharers, const std::string& folder,
                          std::atomic<uint64_t>* done);

}  // namespace dlhook::analyzer::calibrate
