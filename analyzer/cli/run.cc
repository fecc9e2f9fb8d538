// `dlhook run`: starts a program with libdlhook.so preloaded, drains its rings from outside, prints the summary.
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/answer/answer.h"
#include "analyzer/cli/collector.h"
#include "analyzer/cli/commands.h"
#include "analyzer/cli/executable.h"
#include "analyzer/cli/ignored.h"
#include "analyzer/cli/launch.h"
#include "analyzer/cli/load_options.h"
#include "analyzer/cli/output.h"
#include "analyzer/cli/run_file.h"
#include "analyzer/cli/tables.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/io/left_rings.h"
#include "analyzer/model/load_run.h"
#include "analyzer/model/losses.h"
#include "analyzer/render/run_facts.h"
#include "preload/drain/nap.h"
#include "preload/format/folders.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr int kExitNotExecutable = 126;  // as in shells
constexpr int kExitNotFound = 127;
constexpr int kDrainNice = -5;
constexpr int64_t kMostSamplesPerSecond = 1000;  // as DLHOOK_SAMPLE

// The collector holds several descriptors for each of the program's processes, and for their samples. The program,
// already started, keeps its own limit.
void RaiseDescriptorLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Drains until the program has ended; returns its wait status.
int CollectUntilEnd(pid_t program, Collector* collector) {
  DrainNap naps;
  int wait_status = 0;
  sigset_t child, before;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, &before);  // it interrupts a nap
  const int priority = getpriority(PRIO_PROCESS, 0);
  setpriority(PRIO_PROCESS, 0, priority + kDrainNice);  // if permitted: on a busy machine the drain must still run
  while (waitpid(program, &wait_status, WNOHANG) == 0) {
    const uint32_t fullness = collector->Step();
    const timespec nap = {0, naps.Next(fullness, collector->RingsGrow(), collector->NanosecondsToSample())};
    sigtimedwait(&child, nullptr, &nap);
  }
  setpriority(PRIO_PROCESS, 0, priority);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  collector->Finish();
  return wait_status;
}

// The contents of traces, and which calls they lack.
struct Held {
  uint64_t calls = 0;
  uint64_t lost = 0;
  std::set<std::string> reasons = {};
};

void Count(const TraceModel& model, Held* held) {
  for (const ProcessInfo& process : model.processes) {
    held->calls += process.calls;
    for (const Loss& loss : process.losses) {
      if (!CountsCalls(loss.reason) || loss.calls == 0) continue;
      held->lost += loss.calls;
      held->reasons.insert(LossSentence(loss.reason));
    }
  }
}

// The analysis of a long run must not delay the end of a program.
constexpr size_t kMostForAnswer = 2'000'000;  // calls and scopes: some seconds

void PrintAnswer(const std::string& path, TraceModel* model) {
  if (model->calls.size() + model->scopes.size() > kMostForAnswer) return;
  const RunAnalysis analysis(model);
  if (!HasEnoughSteps(*model, analysis.layers().steps())) return;
  // dlhook report reports errors in .dlhook-ignore.
  const auto ignored = ReadIgnored(Args());
  const absl::StatusOr<std::string> answer =
      MakeAnswer(StepFacts(*model, analysis.options()),
                 {.run = path,
                  .width = static_cast<size_t>(OutputWidth(STDERR_FILENO)),
                  .color = IsColorful(STDERR_FILENO),
                  .is_brief = true,
                  .ignored_findings = ignored.ok() ? *ignored : std::vector<std::string>()});
  if (answer.ok()) WriteOutput(*answer, OutputKind::kText, STDERR_FILENO).IgnoreError();
}

// Counted in the traces: what was drained from the rings may not have fit into these.
void PrintEnd(const Collector& collector, bool is_shared) {
  Held held;
  std::vector<std::string> places;
  for (const auto& folder : collector.folders()) {
    if (folder->IsRemoved()) continue;
    const std::string path = folder->Path();
    LoadOptions options = {.drain_leftover = LeftoverDrain(),
                           .progress = nullptr,
                           .most_bytes = kAnswerReadings[0].most_bytes,
                           .parts = kAnswerReadings[0].parts};
    if (is_shared) options.only = collector.traces();
    absl::StatusOr<LoadedRun> run = LoadRun(path, options);
    if (!run.ok() || run->model.processes.empty()) continue;
    Count(run->model, &held);
    places.push_back(path);
    if (!is_shared) PrintAnswer(path, &run->model);
  }
  if (collector.calls() > held.calls + held.lost && collector.still_running() == 0) {
    held.lost = collector.calls() - held.calls;
    held.reasons.insert(LossSentence(LossReason::kOutputGone));
  }
  std::string line = absl::StrCat(held.calls, " calls recorded");
  if (held.lost > 0) absl::StrAppend(&line, ", ", held.lost, " lost (", absl::StrJoin(held.reasons, "; "), ")");
  if (is_shared)
    absl::StrAppend(&line, " of the ", collector.processes(), " processes of this launcher, others share the run");
  if (!places.empty()) absl::StrAppend(&line, "; next: dlhook report ", absl::StrJoin(places, " and dlhook report "));
  PrintError(line);
}

bool HasTraces(const Collector& collector) {
  for (const auto& folder : collector.folders()) {
    if (!folder->Names(std::string(kTraceSuffix)).empty()) return true;
  }
  return collector.processes() > 0;
}

void PrintSummary(const Collector& collector, bool is_shared) {
  for (const std::string& problem : collector.problems()) PrintError(problem);
  if (collector.processes() == 0 && (is_shared || !HasTraces(collector))) {
    PrintError("the program made no call that dlhook sees, so nothing was recorded; why: dlhook doctor -- PROGRAM");
    return;
  }
  if (collector.still_running() > 0) {
    PrintError(absl::StrCat(collector.still_running(), " of its processes still run; their traces go on in ",
                            collector.folders().front()->Path(), ", and what is there can be read at any time"));
  }
  PrintEnd(collector, is_shared);
}

// The variable for --sample; empty without it.
absl::StatusOr<std::string> SampleVariable(const Args& args) {
  const std::optional<std::string> text = args.Last("sample");
  if (!text) return std::string();
  int64_t hertz = 0;
  if (!absl::SimpleAtoi(*text, &hertz) || hertz < 1 || hertz > kMostSamplesPerSecond) {
    return absl::InvalidArgumentError(absl::StrCat("--sample expects samples per second of CPU time, from 1 to ",
                                                   kMostSamplesPerSecond, ", found '", *text, "'"));
  }
  return absl::StrCat("DLHOOK_SAMPLE=", hertz);
}

int RunRun(const Args& args) {
  const absl::StatusOr<std::string> sample = SampleVariable(args);
  if (!sample.ok()) return Fail("run", sample.status(), kExitBadInput);
  const std::vector<std::string>& words = args.operands();
  const absl::StatusOr<std::string> program = FindProgram(words.front());
  if (!program.ok()) {
    return Fail("run", program.status(), absl::IsNotFound(program.status()) ? kExitNotFound : kExitNotExecutable);
  }
  if (absl::Status status = CheckPreloadable(*program); !status.ok()) {
    return Fail("run", status, absl::IsNotFound(status) ? kExitNotFound : kExitBadInput);
  }
  const absl::StatusOr<std::string> shim = FindShim();
  if (!shim.ok()) return Fail("run", shim.status(), kExitBadInput);
  const absl::StatusOr<RunPlace> place = MakeRunPlace(args, words.front());
  if (!place.ok()) return Fail("run", place.status(), kExitBadInput);
  Collector collector(place->path);
  std::vector<std::string> variables = PreloadVariables(*shim, place->path);
  if (!sample->empty()) variables.push_back(*sample);
  const absl::StatusOr<pid_t> started = StartProgram(*program, words, variables);
  if (!started.ok()) {
    place->file->RemoveIfLast();
    return Fail("run", started.status(), absl::IsNotFound(started.status()) ? kExitNotFound : kExitNotExecutable);
  }
  signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes must end a write, not the collection
  RaiseDescriptorLimit();
  RemoveOrphanedRings();
  const int wait_status = CollectUntilEnd(*started, &collector);
  PrintSummary(collector, !place->file->IsLast());
  if (!HasTraces(collector)) place->file->TellOfNoCalls(words.front());
  return EndAs(wait_status);
}

}  // namespace

Command RunCommand() {
  return {.name = "run",
          .summary = "start a program and record it",
          .operands = "PROGRAM [WORD]...",
          .flags = {RunFolderFlag(),
                    {.name = "sample",
                     .value = "HZ",
                     .help = "also where threads compute, HZ times per second of their CPU time (default: 99)",
                     .standard = "99"}},
          .examples =
              {{"dlhook run -o first -- python train.py", "records into the folder first; then: dlhook report first"},
               {"dlhook run --sample -- ./program", "what no hook sees, too; then: dlhook report RUN --table hotspots"},
               {"DLHOOK_CAPTURE=onednn,blas dlhook run -- ./serve --port 80",
                "only the calls of two families of libraries"},
               {"DLHOOK_START=off dlhook run -o late -- python train.py", "nothing until: dlhook ctl start late"}},
          .min_operands = 1,
          .max_operands = SIZE_MAX,
          .stops_at_operand = true,
          .details =
              [] {
                return std::string(
                    "Ends as the program ends: with its exit code, or by its signal. 127: no such\n"
                    "program; 126: it can't be executed; 2: it can't be profiled, or bad usage.\n"
                    "What is recorded: the DLHOOK_* variables, see dlhook help variables.\n");
              },
          .run = RunRun};
}

}  // namespace dlhook::analyzer::cli
