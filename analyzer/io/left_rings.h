// What this user's processes that are gone left in /dev/shm, of all runs.
#pragma once

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline io {

struct LeftRings {
  std::map<std::string, uint64_t> run_bytes;  // by the run's folder: a report of it takes them
  uint64_t other_builds_bytes = 0;            // only another build of dlhook can tell whose they are
  std::set<std::string> other_builds;         // as RingFile::OpenShared names them
};

LeftRings FindLeftRings();

// Removes those whose run was deleted before it was opened, and those of processes that were killed while they made them.
void RemoveOrphanedRings();

}  // namespace dlhook::analyzer::io
