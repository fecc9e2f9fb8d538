// Pure functions.
#include "analyzer/doctor/cpu_time.h"

#include <algorithm>
#include <initializer_list>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "analyzer/doctor/program_report.h"
#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer::inline doctor {
namespace {

constexpr int64_t kFewestSamples = 40;

bool BeginsWithOneOf(absl::string_view name, std::initializer_list<absl::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [name](absl::string_view beginning) { return absl::StartsWith(name, beginning); });
}

CpuTime::Kind KindOf(const std::string& path, const std::set<std::string>& seen) {
  if (seen.contains(path)) return CpuTime::Kind::kSeen;
  const std::string name = BaseName(path);
  if (BeginsWithOneOf(name, {"python", "libpython"})) return CpuTime::Kind::kPython;
  const bool is_system =
      BeginsWithOneOf(name, {"libc.so", "libm.so", "ld-linux", "libpthread", "libdl.so", "librt.so", "libstdc++",
                             "libgcc_s", "libgomp", "libiomp5", "libomp", "libjemalloc", "libtcmalloc", "libdlhook"});
  return is_system ? CpuTime::Kind::kSystem : CpuTime::Kind::kUnseen;
}

template <typename Wanted>
int64_t Sum(const std::vector<CpuTime>& times, Wanted wanted) {
  int64_t samples = 0;
  for (const CpuTime& time : times) samples += wanted(time) ? time.samples : 0;
  return samples;
}

int64_t SumAll(const std::vector<CpuTime>& times) {
  return Sum(times, [](const CpuTime&) { return true; });
}

int64_t SumOf(const std::vector<CpuTime>& times, CpuTime::Kind kind) {
  return Sum(times, [kind](const CpuTime& time) { return time.kind == kind; });
}

int Percent(int64_t part, int64_t whole) { return static_cast<int>((100 * part + whole / 2) / whole); }

// "61 % in libraries that dlhook sees (libtorch_cpu.so 50 %, libmkl_core.so.2 11 %)"
std::string Share(const std::vector<CpuTime>& times, CpuTime::Kind kind, absl::string_view what) {
  constexpr size_t kShown = 3;
  const int64_t all = SumAll(times);
  std::vector<std::string> names;
  for (const CpuTime& time : times) {
    if (time.kind != kind || Percent(time.samples, all) == 0 || names.size() == kShown) continue;
    names.push_back(absl::StrCat(time.path.empty() ? "code generated at run time" : ShortPath(time.path), " ",
                                 Percent(time.samples, all), " %"));
  }
  const std::string share = absl::StrCat(Percent(SumOf(times, kind), all), " % ", what);
  return names.empty() ? share : absl::StrCat(share, " (", absl::StrJoin(names, ", "), ")");
}

}  // namespace

std::vector<CpuTime> DivideCpuTime(const Trial& trial, const std::set<std::string>& seen) {
  std::map<std::string, int64_t> samples_of;
  for (const ProcessLook& look : trial.looks) {
    const auto samples = trial.samples.find(look.pid);
    if (samples == trial.samples.end()) continue;
    for (const auto& [address, count] : samples->second) {
      const LoadedObject* object = look.ObjectAt(address);
      samples_of[object == nullptr ? "" : object->path] += count;
    }
  }
  std::vector<CpuTime> times;
  for (const auto& [path, count] : samples_of) times.push_back({KindOf(path, seen), path, count});
  std::stable_sort(times.begin(), times.end(),
                   [](const CpuTime& a, const CpuTime& b) { return a.samples > b.samples; });
  return times;
}

std::optional<int> SeenPercent(const std::vector<CpuTime>& times) {
  const int64_t all = SumAll(times);
  if (all < kFewestSamples) return std::nullopt;
  return Percent(SumOf(times, CpuTime::Kind::kSeen), all);
}

// A tenth of the CPU time in one unseen object is worth a warning.
void AddCpuTimeFindings(const Trial& trial, const std::vector<CpuTime>& times, std::vector<Finding>* findings) {
  if (!trial.why_not_sampled.empty()) {
    findings->push_back(
        {"cpu-time-unknown", Level::kNote, "",
         absl::StrCat("how much of the program's CPU time is spent in libraries that dlhook sees is not known (",
                      trial.why_not_sampled, ")."),
         "Allow perf_event_open: kernel.perf_event_paranoid at most 2; in a container --cap-add=PERFMON."});
  }
  if (!SeenPercent(times).has_value()) return;
  const int64_t all = SumAll(times);
  findings->push_back({"cpu-time", Level::kOk, "",
                       absl::StrCat(Share(times, CpuTime::Kind::kSeen, "of its CPU time in libraries that dlhook sees"),
                                    "; ", Share(times, CpuTime::Kind::kUnseen, "in others"), "; ",
                                    Percent(SumOf(times, CpuTime::Kind::kPython), all), " % in Python's interpreter; ",
                                    Share(times, CpuTime::Kind::kSystem, "in the C library and in runtimes"), "; ", all,
                                    " samples, start and imports included."),
                       ""});
  for (const CpuTime& time : times) {
    if (time.kind != CpuTime::Kind::kUnseen || 10 * time.samples < all) continue;
    findings->push_back(
        {"computes-unseen", Level::kWarning, time.path,
         absl::StrCat(time.path.empty() ? "code generated at run time " : "", "has ", Percent(time.samples, all),
                      " % of the program's CPU time, and dlhook cannot see what it does."),
         "Reports show its time as not seen; a sampling profiler (perf) shows its functions."});
  }
}

}  // namespace dlhook::analyzer::doctor
