// The result of a trial of a program: pure data and pure functions of what was examined and recorded.
#pragma once

#include "analyzer/doctor/finding.h"
#include "analyzer/doctor/process_look.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline doctor {

struct Trial {
  std::vector<std::string> words;
  int wait_status = 0;
  bool was_ended = false;             // by --seconds
  std::vector<ProcessLook> looks;     // the last one per process
  std::vector<Finding> obstacles;     // of processes that the program started, which LD_PRELOAD can't reach
  std::string why_not_followed;       // ptrace's refusal; empty: every process was examined when it ended
  const TraceModel* model = nullptr;  // the recording; null: none
  std::map<pid_t, std::map<uint64_t, int64_t>> samples;  // CPU time, by process and address
};

constexpr int64_t kSampleNs = 5 * 1000 * 1000;  // of a thread's CPU time

struct CpuTime {
  enum class Kind {
    kSeen,    // a library whose calls or log dlhook records, or one that works for such a library
    kPython,  // the interpreter
    kSystem,  // the C library, the loader, runtimes of languages and threads: they work for their callers
    kUnseen,
  };
  Kind kind = Kind::kUnseen;
  std::string path;  // empty: code generated at run time
  int64_t samples = 0;
  std::set<std::string> through = {};  // of a library that works for those: the recorded ones that need it …
  std::set<std::string> others = {};   // … and those that are not recorded
};

// One entry per object, most samples first. `seen`: paths of libraries that dlhook sees; the empty path stands for code
// generated at run time. `recorded_ns`: in recorded calls.
std::vector<CpuTime> DivideCpuTime(const Trial& trial, const std::set<std::string>& seen, int64_t recorded_ns);

// The share of libraries that dlhook sees; nullopt: too few samples.
std::optional<int> SeenPercent(const std::vector<CpuTime>& times);

void AddCpuTimeFindings(const std::vector<CpuTime>& times, std::vector<Finding>* findings);

struct SeenTap {
  std::string name;
  std::string state;
  std::string reason;
};

// One library (or the executable) that provides or uses hooked names or taps.
struct LibraryReport {
  std::string path;
  std::string soname;
  std::string build_id;
  std::set<std::string> families;   // of the functions that it provides and calls
  std::set<std::string> provides;   // hooked functions that it exports
  std::set<std::string> calls;      // hooked functions that it refers to …
  std::set<std::string> through;    // … of these, bound to dlhook
  std::set<std::string> past;       // … bound elsewhere: never seen
  std::set<std::string> unbound;    // … not called yet (lazy binding)
  std::set<std::string> weak;       // … weak references that only dlhook defines
  std::optional<int64_t> recorded;  // calls of the functions it provides; not known if several libraries share them
  std::vector<SeenTap> taps;
  std::string inside;  // "oneDNN", "OpenBLAS", "MKL": a library linked into it whose functions it does not export
  int processes = 0;

  // "hooked", "tapped", "hooked and tapped", "not called", "not seen", "caller".
  std::string State() const;
  bool IsTapped() const;
  // Whether at least some of its work is seen.
  bool IsSeen() const { return recorded.has_value() || IsTapped(); }
};

struct ProgramReport {
  std::vector<std::string> words;
  std::string end;                       // "exit code 0", "signal 11", "ended after 10 s"
  std::string run;                       // the folder that holds its recording; empty: nothing was recorded
  std::vector<LibraryReport> libraries;  // those that provide functions or report through taps, then callers
  std::vector<Finding> findings;
  std::map<std::string, int64_t> recorded;  // calls by family, "scopes"
  int64_t recorded_ns = 0;                  // of threads, in these calls
  std::vector<CpuTime> cpu_time;            // one entry per object, most samples first
  int processes_looked_into = 0;
  int processes_recorded = 0;
};

// The samples of a recording.
std::map<pid_t, std::map<uint64_t, int64_t>> SamplesOf(const TraceModel& model);

// Without `end` and `run`.
ProgramReport DescribeTrial(const Trial& trial);

// The name of a library that `path` contains without exporting its functions, from texts present in all releases:
// "oneDNN", "OpenBLAS", "MKL". Empty: none. Reads the file.
std::string LibraryInside(const std::string& path);

// In program_findings.cc: what can't be seen of a program, why, and what to do about it.

enum class Binding { kThroughShim, kPastShim, kUnbound };

// Where a call through the slot goes. For processes with the shim.
Binding BindingOf(const BoundSlot& slot, const LoadedObject& object, const ProcessLook& look);

// Whether an object other than the shim exports `name`.
bool IsDefinedBeside(const std::string& name, const ProcessLook& look, const LoadedObject& shim);

// To add one: write a function that appends to the findings, call it here, and add its id to docs/schema.md.
std::vector<Finding> FindTroubles(const Trial& trial, const ProgramReport& report);

// The doctor's report as text and as json.
struct DoctorReport {
  std::vector<Finding> machine;
  std::optional<ProgramReport> program;

  // Warnings and problems.
  int CountBad() const;
  // One sentence.
  std::string Verdict() const;
};

std::string DoctorText(const DoctorReport& report, size_t width, bool color);
std::string DoctorJson(const DoctorReport& report);

}  // namespace dlhook::analyzer::doctor
