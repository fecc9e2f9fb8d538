// Pure functions.
#include <thread>

#include "analyzer/doctor/program_report.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/stacks/call_stacks.h"

namespace dlhook::analyzer::inline doctor {
namespace {

constexpr int64_t kFewestSamples = 40;
constexpr char kSampleAdvice[] =
    "dlhook run --sample shows its functions and their time; without samples reports show it as not seen.";
constexpr double kMostlyRecorded = 0.8;  // of its CPU time: more can hardly be other calls'

CpuTime::Kind KindOf(const std::string& path, const std::set<std::string>& seen) {
  if (seen.contains(path)) return CpuTime::Kind::kSeen;
  const std::string name = BaseName(path);
  if (absl::StartsWith(name, "python") || absl::StartsWith(name, "libpython")) return CpuTime::Kind::kPython;
  const bool is_runtime = absl::c_any_of(
      std::initializer_list<const char*>{"libdl.so", "librt.so", "libomp", "libgfortran", "libquadmath", "libdlhook"},
      [&](const char* begin) { return absl::StartsWith(name, begin); });
  return is_runtime || IsSharedCode(path) ? CpuTime::Kind::kSystem : CpuTime::Kind::kUnseen;
}

// `kind`: unset: of all.
int64_t SumOf(const std::vector<CpuTime>& times, std::optional<CpuTime::Kind> kind = std::nullopt) {
  int64_t samples = 0;
  for (const CpuTime& time : times) samples += !kind || time.kind == kind ? time.samples : 0;
  return samples;
}

int Percent(int64_t part, int64_t whole) { return static_cast<int>((100 * part + whole / 2) / whole); }

std::string Joined(const std::set<std::string>& paths) {
  return absl::StrJoin(paths, " and ", [](std::string* out, const std::string& path) { *out += ShortPath(path); });
}

// "61 % in libraries that dlhook observes (libtorch_cpu.so 50 %, libmkl_core.so.2 11 %)"
std::string Share(const std::vector<CpuTime>& times, CpuTime::Kind kind, absl::string_view what) {
  constexpr size_t kShown = 3;
  const int64_t all = SumOf(times);
  std::vector<std::string> names;
  for (const CpuTime& time : times) {
    if (time.kind != kind || Percent(time.samples, all) == 0 || names.size() == kShown) continue;
    names.push_back(absl::StrCat(time.path.empty() ? "code generated at run time" : ShortPath(time.path), " ",
                                 Percent(time.samples, all), " %",
                                 time.through.empty() ? "" : absl::StrCat(" for ", Joined(time.through))));
  }
  const std::string share = absl::StrCat(Percent(SumOf(times, kind), all), " % ", what);
  return names.empty() ? share : absl::StrCat(share, " (", absl::StrJoin(names, ", "), ")");
}

// Debian's libblas.so.3 leaves the work to libopenblas.so.0, which it needs; MKL's libraries open each other.
bool Needs(const LoadedObject& object, const LoadedObject& other) {
  const auto is_mkls = [](const LoadedObject& part) { return absl::StartsWith(BaseName(part.path), "libmkl_"); };
  const std::vector<std::string>& needed = object.image.needed;
  const std::string& soname = other.image.soname;
  return (is_mkls(object) && is_mkls(other)) ||
         absl::c_linear_search(needed, soname.empty() ? BaseName(other.path) : soname);
}

// A library that works for recorded ones is seen as far as their calls can be what takes its time: if others need it, too,
// at most that of all processors in these calls.
void FindUsers(const ProcessLook& look, const std::set<std::string>& seen, double recorded_ns, CpuTime& time) {
  const auto self = absl::c_find_if(look.objects, [&](const LoadedObject& object) { return object.path == time.path; });
  if (time.kind != CpuTime::Kind::kUnseen || self == look.objects.end()) return;
  for (const LoadedObject& object : look.objects) {
    if (&object != &*self && Needs(object, *self))
      (seen.contains(object.path) ? time.through : time.others).insert(object.path);
  }
  const double cpu_ns = kMostlyRecorded * static_cast<double>(time.samples) * kSampleNs;
  if (recorded_ns >= cpu_ns) time.others.clear();
  const bool may_be = recorded_ns * std::thread::hardware_concurrency() >= cpu_ns;
  if (!time.through.empty() && (time.others.empty() || may_be)) time.kind = CpuTime::Kind::kSeen;
}

}  // namespace

// A process that runs another program in its place has two traces: the last one's code is that which was looked into.
std::map<pid_t, std::map<uint64_t, int64_t>> SamplesOf(const TraceModel& model) {
  std::map<pid_t, ProcessIndex> last;
  for (ProcessIndex i = 0; i < model.processes.size(); ++i) {
    const auto place = last.try_emplace(static_cast<pid_t>(model.processes[i].pid), i).first;
    if (model.processes[i].start_ns > model.processes[place->second].start_ns) place->second = i;
  }
  std::map<pid_t, std::map<uint64_t, int64_t>> samples;
  for (size_t i = 0; i < model.samples.size(); ++i) {
    const FrameIndex frame = model.samples.frame[i];
    if (frame == kNone) continue;
    const ProcessIndex process = model.native_frames.process[frame];
    const auto pid = static_cast<pid_t>(model.processes[process].pid);
    if (last[pid] == process) samples[pid][model.native_frames.address[frame]] += model.samples.cpu_ns[i] / kSampleNs;
  }
  return samples;
}

std::vector<CpuTime> DivideCpuTime(const Trial& trial, const std::set<std::string>& seen, int64_t recorded_ns) {
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
  for (const auto& [path, count] : samples_of) {
    times.push_back({KindOf(path, seen), path, count});
    for (const ProcessLook& look : trial.looks) FindUsers(look, seen, static_cast<double>(recorded_ns), times.back());
  }
  absl::c_stable_sort(times, [](const CpuTime& a, const CpuTime& b) { return a.samples > b.samples; });
  return times;
}

std::optional<int> SeenPercent(const std::vector<CpuTime>& times) {
  const int64_t all = SumOf(times);
  if (all < kFewestSamples) return std::nullopt;
  return Percent(SumOf(times, CpuTime::Kind::kSeen), all);
}

// A tenth of the CPU time in one unseen object is worth a warning.
void AddCpuTimeFindings(const std::vector<CpuTime>& times, std::vector<Finding>* findings) {
  if (!SeenPercent(times).has_value()) return;
  const int64_t all = SumOf(times);
  findings->push_back(
      {"cpu-time", Level::kOk, "",
       absl::StrCat(Share(times, CpuTime::Kind::kSeen, "of its CPU time in libraries that dlhook observes"), "; ",
                    Share(times, CpuTime::Kind::kUnseen, "in others"), "; ",
                    Percent(SumOf(times, CpuTime::Kind::kPython), all), " % in Python's interpreter; ",
                    Share(times, CpuTime::Kind::kSystem, "in the C library and in runtimes"), "; ", all,
                    " samples, start and imports included.")});
  for (const CpuTime& time : times) {
    if (10 * time.samples < all) continue;
    if (time.kind == CpuTime::Kind::kSeen && !time.others.empty()) {
      findings->push_back(
          {"computes-for-others", Level::kNote, time.path,
           absl::StrCat("has ", Percent(time.samples, all), " % of the program's CPU time and computes for ",
                        Joined(time.through), ", whose calls are recorded, and for ", Joined(time.others),
                        ", whose calls are not: the shares of the two cannot be separated."),
           kSampleAdvice});
    }
    if (time.kind != CpuTime::Kind::kUnseen) continue;
    findings->push_back(
        {"computes-unseen", Level::kWarning, time.path,
         absl::StrCat(time.path.empty() ? "code generated at run time " : "", "has ", Percent(time.samples, all),
                      " % of the program's CPU time, and dlhook cannot observe what it does."),
         kSampleAdvice});
  }
}

}  // namespace dlhook::analyzer::doctor
