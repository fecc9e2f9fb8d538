// The file that launchers leave in a run folder, so that those of one launch share it and others keep out.
#ifndef DLHOOK_ANALYZER_CLI_RUN_FILE_H_
#define DLHOOK_ANALYZER_CLI_RUN_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "analyzer/io/run_folder.h"

namespace dlhook::analyzer::inline cli {

// While it lives this process is known to work in the folder: by a shared lock of the file.
class RunFile {
 public:
  // Makes the file or joins those who have it: launchers of the same launch (MakeRunKey), or any while one of them works.
  // AlreadyExists: the folder holds a run of others.
  static absl::StatusOr<std::unique_ptr<RunFile>> Join(std::shared_ptr<const RunFolder> folder);
  ~RunFile();
  RunFile(const RunFile&) = delete;
  RunFile& operator=(const RunFile&) = delete;

  // Asked at the end: nobody else works in the folder any more.
  bool IsLast();
  // The program could not be started: others than those who work here find an empty folder again.
  void RemoveIfLast();
  // The program made no call that is recorded. Whoever opens the run is told (FindRun). No words of its command line: they may be secret.
  void TellOfNoCalls(const std::string& program);

 private:
  RunFile(std::shared_ptr<const RunFolder> folder, int fd) : folder_(std::move(folder)), fd_(fd) {}

  std::shared_ptr<const RunFolder> folder_;
  int fd_;
};

}  // namespace dlhook::analyzer::cli

#endif  // DLHOOK_ANALYZER_CLI_RUN_FILE_H_
