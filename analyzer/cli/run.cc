// `dlhook run`: starts a program with libdlhook.so preloaded, drains its rings from outside, prints the summary.

#include <cstdlib>

#include "analyzer/answer/answer.h"
#include "analyzer/cli/collector.h"
#include "analyzer/cli/launch.h"
#include "analyzer/cli/run_file.h"
#include "analyzer/cli/tables.h"
#include "analyzer/io/left_rings.h"
#include "analyzer/io/ring_file.h"
#include "analyzer/model/process_info.h"
#include "analyzer/reader/load_run.h"
#include "analyzer/render/renderer.h"
#include "analyzer/symbols/add_symbols.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr int kExitNotExecutable = 126;  // as in shells
constexpr int kExitNotFound = 127;

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

// The analysis of a long run must not delay the end of a program: of more bytes than twice this it is made of parts.
constexpr Reading kEndReading = {6 << 20, 48};
constexpr char kNoAnswer[] = "The run is too long for a summary here: dlhook report makes it.\n";

// Empty: there is none.
std::string AnswerOf(const std::string& path, TraceModel* model) {
  if (!model->samples.empty())
    AddSymbols({.cache_folder = CacheFolder()}, model);  // else whose code it was is not known
  const RunAnalysis analysis(model);
  if (!HasEnoughSteps(*model, analysis.layers().steps())) return kNoAnswer;
  // dlhook report reports errors in .dlhook-ignore.
  const auto ignored = ReadIgnored(Args());
  return MakeAnswer(StepFacts(*model, analysis.options()),
                    {.run = path,
                     .width = static_cast<size_t>(OutputWidth(STDERR_FILENO)),
                     .color = IsColorful(STDERR_FILENO),
                     .is_brief = true,
                     .ignored_findings = ignored.ok() ? *ignored : std::vector<std::string>()})
      .value_or("");
}

// The last line, counted in the traces: what was drained from the rings may not have fit into these. Then the answers.
void MakeEnd(const Collector& collector, bool is_shared, GivePiece give) {
  Held held;
  std::vector<std::pair<std::string, LoadedRun>> runs;
  for (const auto& folder : collector.folders()) {
    if (folder->IsRemoved()) continue;
    LoadOptions options = {.drain_leftover = DrainLeftoverRings,
                           .progress = nullptr,
                           .most_bytes = kEndReading.most_bytes,
                           .parts = kEndReading.parts};
    if (is_shared) options.only = collector.traces();
    absl::StatusOr<LoadedRun> run = LoadRun(folder->Path(), options);
    if (!run.ok() || run->model.processes.empty()) continue;
    Count(run->model, &held);
    runs.emplace_back(folder->Path(), *std::move(run));
  }
  if (collector.calls() > held.calls + held.lost && collector.still_running() == 0) {
    held.lost = collector.calls() - held.calls;
    held.reasons.insert(LossSentence(LossReason::kOutputGone));
  }
  std::string line = absl::StrCat(held.calls, held.calls == 1 ? " call recorded" : " calls recorded");
  if (held.lost > 0) absl::StrAppend(&line, ", ", held.lost, " lost (", absl::StrJoin(held.reasons, "; "), ")");
  if (is_shared)
    absl::StrAppend(&line, collector.processes() == 1 ? " of the process" : " of the processes",
                    " of this launcher, others share the run");
  give(line);
  for (auto& [path, run] : runs) give(is_shared ? "" : AnswerOf(path, &run.model));
}

constexpr uint64_t kLeastTraceBytes = 4096;

void PrintEnd(const Collector& collector, bool is_shared, const std::string& end) {
  const Made made = MakeInTime([&](GivePiece give) { MakeEnd(collector, is_shared, give); });
  for (size_t i = 1; i < made.pieces.size(); ++i) {
    WriteOutput(made.pieces[i], OutputKind::kText, STDERR_FILENO).IgnoreError();
  }
  std::vector<std::string> parts(made.pieces.begin(), made.pieces.begin() + (made.pieces.empty() ? 0 : 1));
  if (!made.status.ok()) parts.push_back(absl::StrCat("the analysis ", made.status.message()));
  rlimit size;
  if (getrlimit(RLIMIT_FSIZE, &size) == 0 && size.rlim_cur < kLeastTraceBytes) {
    parts.push_back(absl::StrCat("files may have at most ", size.rlim_cur, " bytes here (ulimit -f)"));
  }
  if (!end.empty()) parts.push_back(absl::StrCat("the program ", end));
  std::vector<std::string> places;
  for (const auto& folder : collector.folders()) {
    if (!folder->IsRemoved() && !folder->Names(std::string(kTraceSuffix)).empty()) places.push_back(folder->Path());
  }
  if (!places.empty())
    parts.push_back(absl::StrCat("next: dlhook report ", absl::StrJoin(places, " and dlhook report ")));
  PrintError(absl::StrJoin(parts, "; "));
}

bool HasTraces(const Collector& collector) {
  for (const auto& folder : collector.folders()) {
    if (!folder->Names(std::string(kTraceSuffix)).empty()) return true;
  }
  return collector.processes() > 0;
}

// `end`: how the program failed, see FailureOf.
void PrintSummary(const Collector& collector, bool is_shared, const std::string& end, const std::string& program) {
  for (const std::string& problem : collector.problems()) PrintError(problem);
  if (collector.processes() == 0 && (is_shared || !HasTraces(collector))) {
    const std::string hint = ContainerHint(program);
    if (!end.empty()) {
      PrintError(absl::StrCat("the program ", end, " before any recorded call, so nothing was recorded", hint));
      return;
    }
    const char* const why =
        getenv("DLHOOK_SAMPLE") != nullptr
            ? "; why: dlhook doctor -- PROGRAM"
            : "; why: dlhook doctor -- PROGRAM; whose code computes: dlhook run --sample -- PROGRAM";
    PrintError(
        absl::StrCat("the program made no call that dlhook sees, so nothing was recorded", hint.empty() ? why : hint));
    return;
  }
  if (collector.still_running() > 0) {
    PrintError(absl::StrCat(collector.still_running(), " of its processes still run; their traces go on in ",
                            collector.folders().front()->Path(), ", and what is there can be read at any time"));
  }
  PrintEnd(collector, is_shared, end);
}

absl::StatusOr<int> RunRun(const Args& args) {
  RETURN_IF_ERROR(SetVariables(args));
  const std::vector<std::string>& words = args.operands();
  const absl::StatusOr<std::string> program = FindProgram(words.front());
  if (!program.ok()) {
    return Fail("run", program.status(), absl::IsNotFound(program.status()) ? kExitNotFound : kExitNotExecutable);
  }
  if (absl::Status status = CheckPreloadable(*program); !status.ok()) {
    return Fail("run", absl::StrCat(status.message(), ContainerHint(words.front())),
                absl::IsNotFound(status) ? kExitNotFound : kExitBadInput);
  }
  ASSIGN_OR_RETURN(const std::string shim, FindShim());
  const auto on_long_file = signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes must end a write, not the collection
  ASSIGN_OR_RETURN(const RunPlace place, MakeRunPlace(args, words.front()));
  Collector collector(place.path);
  signal(SIGXFSZ, on_long_file);  // the program inherits it
  const absl::StatusOr<pid_t> started = StartProgram(*program, words, PreloadVariables(shim, place.path));
  signal(SIGXFSZ, SIG_IGN);
  if (!started.ok()) {
    place.file->RemoveIfLast();
    return Fail("run", started.status(), absl::IsNotFound(started.status()) ? kExitNotFound : kExitNotExecutable);
  }
  RemoveOrphanedRings();
  const int wait_status = CollectUntilEnd(*started, &collector);
  const std::string end = FailureOf(wait_status);
  PrintSummary(collector, !place.file->IsLast(), end, words.front());
  if (!end.empty() || !HasTraces(collector)) place.file->TellOfEnd(words.front(), end);
  return EndAs(wait_status);
}

}  // namespace

Command RunCommand() {
  return {
      .name = "run",
      .summary = "start a program and record it",
      .operands = "PROGRAM [WORD]...",
      .flags = Joined({{RunFolderFlag(),
                        {"replace", "", "a run that RUN holds already is removed (default: this one goes to RUN-2)"}},
                       VariableFlags()}),
      .examples =
          {{"dlhook run -o first -- python train.py", "records into the folder first; then: dlhook report first"},
           {"dlhook run --sample -- ./program", "what no hook sees, too; then: dlhook report RUN --table hotspots"},
           {"dlhook run --capture onednn,blas -- ./serve --port 80", "only the calls of two families of libraries"},
           {"dlhook run --start off -o late -- python train.py", "nothing until: dlhook ctl start late"}},
      .operand_count = {1, SIZE_MAX},
      .stops_at_operand = true,
      .details =
          "Ends as the program does: with its exit code, or by its signal. 127: program not\n"
          "found; 126: it cannot be executed; 2: it cannot be profiled, or bad usage.\n"
          "A flag from --capture on does what its DLHOOK_* variable does (dlhook help variables),\n"
          "and both are checked before the program starts.\n",
      .run = RunRun};
}

}  // namespace dlhook::analyzer::cli
