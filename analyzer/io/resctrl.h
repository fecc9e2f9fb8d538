// Groups of tasks in the kernel's resctrl file system (Intel RDT, AMD QoS), usually /sys/fs/resctrl: what they have of the L3
// caches, how much they read and write through the memory controllers, and which part of the caches they may fill.
#pragma once

#include <sys/types.h>

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline io {

// Why there is none at `root`, or it can't be used; OK: it can.
absl::Status CheckResctrl(const std::string& root);

class ResctrlGroup {
 public:
  // `mask`: hexadecimal, the ways of every L3 cache that the group may fill; empty: it is only watched. Groups bear the name
  // of this process, and stay until RemoveResctrlGroups.
  static absl::StatusOr<ResctrlGroup> Make(const std::string& root, const std::string& name, const std::string& mask);

  // A task, and those that it starts from now on.
  absl::Status Add(pid_t task) const;

  // Over all caches. Unset: the processor doesn't tell.
  std::optional<double> CacheBytes() const { return Sum("llc_occupancy"); }
  std::optional<double> TrafficBytes() const { return Sum("mbm_total_bytes"); }  // since it was made

 private:
  explicit ResctrlGroup(std::string path) : path_(std::move(path)) {}
  std::optional<double> Sum(const char* event) const;

  std::string path_;
};

// Of `owner`, and of processes that are gone.
void RemoveResctrlGroups(const std::string& root, pid_t owner);

}  // namespace dlhook::analyzer::io
