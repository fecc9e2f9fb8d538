// The file that launchers leave in a run folder, so that those of one launch share it and others stay out.
#pragma once

#include "analyzer/cli/command.h"
#include "analyzer/io/run_folder.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/peaks/peaks.h"

namespace dlhook::analyzer::inline cli {

// While it exists, a shared lock shows that this process works in the folder.
class RunFile {
 public:
  // Creates the file or joins its owners: launchers of the same launch (MakeRunKey), or any while one of them works.
  // AlreadyExists: the folder contains another run, which `replaces` removes if nobody works in it.
  static absl::StatusOr<std::unique_ptr<RunFile>> Join(std::shared_ptr<const RunFolder> folder, bool replaces);
  ~RunFile();
  RunFile(const RunFile&) = delete;
  RunFile& operator=(const RunFile&) = delete;

  // At the end: whether no other process works in the folder.
  bool IsLast();
  // The program could not be started: leaves the folder empty for others, unless another launcher works here.
  void RemoveIfLast();
  // The program failed, or made no recorded call; readers of the run report it (FindRun). Contains no words of its command
  // line, which may be secret. `failure`: see FailureOf.
  void TellOfEnd(const std::string& program, const std::string& failure);

 private:
  RunFile(std::shared_ptr<const RunFolder> folder, int fd) : folder_(std::move(folder)), fd_(fd) {}

  std::shared_ptr<const RunFolder> folder_;
  int fd_;
};

// The run folder of a launcher.
struct RunPlace {
  std::string path;  // absolute
  std::unique_ptr<RunFile> file;
};

// -o, of commands that start a program.
Flag RunFolderFlag();
// Makes the folder that the flag names, else DLHOOK_OUT, else a new one for `program`. If it holds a run and there is no
// --replace, RUN-2, RUN-3 ..., and says so.
absl::StatusOr<RunPlace> MakeRunPlace(const Args& args, const std::string& program);

// The peaks of the machine that a run is from: measured by `dlhook calibrate`, else stated.

// `calibration`: a file, or "off": stated peaks only. Not set: the one in the cache folder that fits, if there is one.
// Errors: the file can't be read, or is of another machine.
absl::StatusOr<Peaks> FindPeaks(const TraceModel& model, const std::optional<std::string>& calibration);

// $DLHOOK_CACHE, else $XDG_CACHE_HOME/dlhook, else ~/.cache/dlhook; empty: none ($DLHOOK_CACHE is "off").
std::string CacheFolder();

}  // namespace dlhook::analyzer::cli
