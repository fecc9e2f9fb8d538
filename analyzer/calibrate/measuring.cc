#include "analyzer/calibrate/measuring.h"

#include <cstdlib>

#include "analyzer/symbols/isolated.h"

namespace dlhook::analyzer::inline calibrate {
namespace {

constexpr size_t kLeastRepeats = 5;
constexpr size_t kMostRepeats = 1000;

const char* const kLimitingVariables[] = {
    "OMP_NUM_THREADS",   "OMP_THREAD_LIMIT", "OMP_PROC_BIND",      "OMP_PLACES",           "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",      "MKL_NUM_THREADS",  "MKL_CBWR",           "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS",
    "OPENBLAS_CORETYPE", "BLIS_NUM_THREADS", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA",     "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_VERBOSE",    "DNNL_VERBOSE",     "MKL_VERBOSE"};

RunTime g_of_children;

// What `value` makes of the seconds of each repeat.
std::vector<double> Repeated(double seconds, absl::FunctionRef<void()> work, absl::FunctionRef<double(double)> value) {
  std::vector<double> values;
  const Clock::time_point begin = Clock::now();
  while (values.size() < kLeastRepeats || (SecondsSince(begin) < seconds && values.size() < kMostRepeats)) {
    const Clock::time_point start = Clock::now();
    work();
    values.push_back(value(SecondsSince(start)));
  }
  return values;
}

}  // namespace

RunTime RunTimeOfChildren() { return g_of_children; }

Calibration MeasureInChild(const std::vector<int>& processors, int seconds, absl::string_view what,
                           absl::FunctionRef<Calibration()> measure) {
  const auto not_measured = [&](std::string reason) {
    return Calibration{.not_measured = {{std::string(what), std::move(reason)}}};
  };
  const auto work = [&](size_t) -> std::string {
    for (const char* variable : kLimitingVariables) unsetenv(variable);
    Calibration results = RunOn(processors) ? measure() : not_measured("the kernel refuses to bind it to processors");
    results.processors = static_cast<uint32_t>(processors.size());
    const RunTime time = ReadRunTime();
    return absl::StrCat(time.running_ns, " ", time.waiting_ns, " ", CalibrationJson(results));
  };
  const IsolatedResult answer = RunIsolated(1, seconds, work, IsolatedMemory::kFree).front();
  if (!answer.failure.empty())
    return not_measured(absl::StrReplaceAll(answer.failure, {{"reading it", "measuring it"}}));
  const std::vector<absl::string_view> parts = absl::StrSplit(answer.bytes, absl::MaxSplits(' ', 2));
  absl::StatusOr<Calibration> results = ParseCalibration(parts.back());
  if (!results.ok()) return not_measured(absl::StrCat("what was measured ", results.status().message()));
  RunTime time;
  if (absl::SimpleAtoi(parts[0], &time.running_ns) && absl::SimpleAtoi(parts[1], &time.waiting_ns)) {
    g_of_children.running_ns += time.running_ns;
    g_of_children.waiting_ns += time.waiting_ns;
  }
  return *std::move(results);
}

Spread TimeOfEach(int count, double seconds, absl::FunctionRef<void()> work) {
  return SpreadOf(Repeated(seconds, work, [=](double time) { return time / count * 1e9; }), /*is_rate=*/false);
}

Spread RateOf(double amount, double seconds, absl::FunctionRef<void()> work) {
  return SpreadOf(Repeated(seconds, work, [=](double time) { return amount / time / 1e9; }), /*is_rate=*/true);
}

}  // namespace dlhook::analyzer::calibrate
