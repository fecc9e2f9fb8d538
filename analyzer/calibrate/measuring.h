// Measurements run in child processes: libraries choose their number of threads by the processors available when they
// are loaded, may crash, and must not keep memory or threads in the command's own process.
#ifndef DLHOOK_ANALYZER_CALIBRATE_MEASURING_H_
#define DLHOOK_ANALYZER_CALIBRATE_MEASURING_H_

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "analyzer/calibrate/this_machine.h"
#include "analyzer/peaks/calibration.h"

namespace dlhook::analyzer::inline calibrate {

// A child's answer: its results, and how long its threads waited for a processor.
struct Measurements {
  std::vector<Measurement> measured = {};
  std::vector<NotMeasured> missing = {};
  RunTime run_time = {};

  void Add(Measurements more);
};

// Runs `measure` in a child that may run on `processors` and whose environment does not limit libraries' threads or
// instructions. If the child crashes or takes more than `seconds`, its measurements (`what`) are missing.
Measurements MeasureInChild(const std::vector<int>& processors, int seconds, absl::string_view what,
                            absl::FunctionRef<Measurements()> measure);

// Seconds of one `work()`, repeated for about `seconds`; at least five times.
std::vector<double> TimesOf(double seconds, absl::FunctionRef<void()> work);

using Clock = std::chrono::steady_clock;
inline double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace dlhook::analyzer::calibrate

#endif  // DLHOOK_ANALYZER_CALIBRATE_MEASURING_H_
