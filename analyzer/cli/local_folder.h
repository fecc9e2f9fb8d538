// `dlhook run --local`: the run is recorded into a folder of this machine, and its traces are moved when its processes have
// ended, so that a shared file system takes part in nothing but this.
#pragma once

#include <set>

#include "analyzer/io/run_folder.h"

namespace dlhook::analyzer::inline cli {

class LocalFolder {
 public:
  // Makes a new folder in `parent`. Until all is moved, a file in `run` says where it is (FindRun), whatever becomes of
  // this process.
  static absl::StatusOr<std::unique_ptr<LocalFolder>> Make(const std::string& parent,
                                                           std::shared_ptr<const RunFolder> run);

  const std::string& path() const { return path_; }
  const std::shared_ptr<const RunFolder>& run() const { return run_; }
  // Moves the traces whose processes have ended, and removes the folder if nothing stays in it. A trace that can't be
  // moved stays whole: problems() says why.
  void MoveTraces();
  // Names in the run of the traces that were moved.
  const std::set<std::string>& moved() const { return moved_; }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  LocalFolder(std::string path, std::string pointer, std::shared_ptr<const RunFolder> here,
              std::shared_ptr<const RunFolder> run)
      : path_(std::move(path)), pointer_(std::move(pointer)), here_(std::move(here)), run_(std::move(run)) {}
  absl::Status Move(const std::string& name);

  std::string path_;
  std::string pointer_;  // base name in the run's folder
  std::shared_ptr<const RunFolder> here_;
  std::shared_ptr<const RunFolder> run_;
  std::set<std::string> moved_;
  std::vector<std::string> problems_;
};

}  // namespace dlhook::analyzer::cli
