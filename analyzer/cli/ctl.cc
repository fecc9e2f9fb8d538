// `dlhook ctl`: starts and stops recording in running processes by writing one word in shared memory, which they read
// at their next call.
#include <filesystem>

#include "analyzer/cli/output.h"
#include "analyzer/io/ring_file.h"
#include "analyzer/render/escape.h"
#include "preload/format/session.h"

namespace dlhook::analyzer::inline cli {
namespace {

using Rings = std::vector<std::unique_ptr<RingFile>>;

// The rings of the run's live processes, or of the one with this number. FailedPrecondition: there are none of this host and build.
absl::StatusOr<Rings> LiveRings(const std::string& path, std::optional<uint32_t> pid) {
  ASSIGN_OR_RETURN(const auto folder, RunFolder::Open(path));
  Rings rings;
  absl::Status refused;
  for (const std::string& link : folder->Names(kRingSuffix)) {
    absl::StatusOr<std::unique_ptr<RingFile>> ring =
        RingFile::Open(folder, absl::StrCat(absl::StripSuffix(link, kRingSuffix), kTraceSuffix));
    if (absl::IsFailedPrecondition(ring.status())) refused = ring.status();
    if (!ring.ok() || (pid.has_value() && (*ring)->header().pid != *pid)) continue;
    if ((*ring)->IsMappedByProcess()) rings.push_back(*std::move(ring));
  }
  if (rings.empty() && !refused.ok()) return refused;
  return rings;
}

std::string WhyNoRings(const std::string& folder, std::optional<uint32_t> pid) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return ": no such folder; expected the folder of a run that is going on (dlhook run -o RUN, or DLHOOK_OUT)";
  }
  if (pid.has_value()) {
    return absl::StrCat(": process ", *pid,
                        " does not record into this folder, or has not yet loaded a library that is recorded");
  }
  return ": no process recorded into this folder is alive; recording can be started and stopped only while the program "
         "runs";
}

absl::StatusOr<int> RunCtl(const Args& args) {
  const std::string& verb = args.operands()[0];
  const std::string& folder = args.operands()[1];
  if (verb != "start" && verb != "stop" && verb != "status") {
    return UnknownName("action", verb, {"start", "stop", "status"});
  }
  std::optional<uint32_t> pid;
  if (const std::optional<std::string> text = args.Last("process")) {
    if (!absl::SimpleAtoi(*text, &pid.emplace())) {
      return Unexpected("process", "the number of a process", *text);
    }
  }
  const absl::StatusOr<Rings> rings = LiveRings(folder, pid);
  if (absl::IsFailedPrecondition(rings.status())) return rings.status();
  if (absl::IsPermissionDenied(rings.status())) {
    return absl::PermissionDeniedError(
        absl::StrCat(rings.status().message(), "; so it is not known whether a process records into it"));
  }
  if (!rings.ok() || rings->empty()) return absl::NotFoundError(absl::StrCat(folder, WhyNoRings(folder, pid)));
  std::string text;
  int exit_code = kExitOk;
  for (const std::unique_ptr<RingFile>& ring : *rings) {
    const std::string process = absl::StrCat(ring->header().pid, " ", VisibleText(TextOf(ring->header().program)));
    bool is_stopped = IsStopped(ring->header());
    if (verb != "status") {
      const absl::Status status =
          ring->IsOurs() ? ring->Map() : absl::PermissionDeniedError("of another user, who alone may");
      if (status.ok()) {
        SetRecording(verb == "start", ring->session());
        is_stopped = verb == "stop";
      } else {
        exit_code = Fail("ctl", absl::StrCat(process, ": can't ", verb, " its recording: ", status.message()));
      }
    }
    absl::StrAppend(&text, process, is_stopped ? ": stopped\n" : ": recording\n");
  }
  return std::max(exit_code, PrintOutput(text));
}

}  // namespace

Command CtlCommand() {
  return {.name = "ctl",
          .summary = "start or stop recording while the program runs",
          .operands = "start|stop|status RUN",
          .flags = {{"process", "PID", "only this process of the run"}},
          .examples = {{"dlhook ctl start late",
                        "records from now on, where the run late was started with DLHOOK_START=off"},
                       {"dlhook ctl stop late", "records nothing from now on; takes effect at the program's next call"},
                       {"dlhook ctl status late", "its live processes, and whether they are recorded"}},
          .operand_count = {2, 2},
          .run = RunCtl};
}

}  // namespace dlhook::analyzer::cli
