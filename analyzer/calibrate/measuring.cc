// The child's answer consists of lines with tab-separated fields.
#include "analyzer/calibrate/measuring.h"

#include <cstdlib>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
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

std::string Encode(const Measurements& results) {
  std::string lines = absl::StrCat("time\t", results.run_time.running_ns, "\t", results.run_time.waiting_ns, "\n");
  for (const Measurement& one : results.measured) {
    const Spread& spread = one.spread;
    absl::StrAppend(&lines,
                    absl::StrJoin({one.what, absl::StrCat(one.threads), one.unit, absl::StrCat(spread.best),
                                   absl::StrCat(spread.median), absl::StrCat(spread.low), absl::StrCat(spread.high),
                                   absl::StrCat(spread.repeats), one.method},
                                  "\t"),
                    "\n");
  }
  for (const NotMeasured& one : results.missing) absl::StrAppend(&lines, "missing\t", one.what, "\t", one.reason, "\n");
  return lines;
}

Measurements Decode(absl::string_view lines) {
  Measurements results;
  for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> fields = absl::StrSplit(line, '\t');
    if (fields.size() == 3 && fields[0] == "time") {
      (void)absl::SimpleAtoi(fields[1], &results.run_time.running_ns);
      (void)absl::SimpleAtoi(fields[2], &results.run_time.waiting_ns);
    } else if (fields.size() == 3) {
      results.missing.push_back({fields[1], fields[2]});
    } else if (fields.size() == 9) {
      Measurement one = {.what = fields[0], .unit = fields[2], .method = fields[8]};
      const bool is_whole =
          absl::SimpleAtoi(fields[1], &one.threads) && absl::SimpleAtod(fields[3], &one.spread.best) &&
          absl::SimpleAtod(fields[4], &one.spread.median) && absl::SimpleAtod(fields[5], &one.spread.low) &&
          absl::SimpleAtod(fields[6], &one.spread.high) && absl::SimpleAtoi(fields[7], &one.spread.repeats);
      if (is_whole) results.measured.push_back(std::move(one));
    }
  }
  return results;
}

}  // namespace

void Measurements::Add(Measurements more) {
  std::move(more.measured.begin(), more.measured.end(), std::back_inserter(measured));
  std::move(more.missing.begin(), more.missing.end(), std::back_inserter(missing));
  run_time.running_ns += more.run_time.running_ns;
  run_time.waiting_ns += more.run_time.waiting_ns;
}

Measurements MeasureInChild(const std::vector<int>& processors, int seconds, absl::string_view what,
                            absl::FunctionRef<Measurements()> measure) {
  const auto work = [&](size_t) -> std::string {
    for (const char* variable : kLimitingVariables) unsetenv(variable);
    if (!RunOn(processors))
      return Encode({.missing = {{std::string(what), "the kernel refuses to bind it to processors"}}});
    Measurements results = measure();
    results.run_time = ReadRunTime();
    return Encode(results);
  };
  const std::vector<IsolatedResult> answers = RunIsolated(1, seconds, work, IsolatedMemory::kFree);
  if (answers.front().failure.empty()) return Decode(answers.front().bytes);
  return {
      .missing = {{std::string(what), absl::StrReplaceAll(answers.front().failure, {{"reading it", "measuring it"}})}}};
}

std::vector<double> TimesOf(double seconds, absl::FunctionRef<void()> work) {
  std::vector<double> times;
  const Clock::time_point begin = Clock::now();
  while (times.size() < kLeastRepeats || (SecondsSince(begin) < seconds && times.size() < kMostRepeats)) {
    const Clock::time_point start = Clock::now();
    work();
    times.push_back(SecondsSince(start));
  }
  return times;
}

}  // namespace dlhook::analyzer::calibrate
