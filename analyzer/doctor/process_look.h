// Examines a running (or stopped) process once: which objects it has loaded and to what their references to hooked
// names are bound.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "analyzer/doctor/elf_image.h"

namespace dlhook::analyzer::inline doctor {

// An ELF file as shown in /proc/PID/maps.
struct MappedFile {
  std::string path;
  uint64_t base = 0;  // address of its first page
};

// Files with code, once per mapping, in the order of addresses. `maps`: the text of /proc/PID/maps.
std::vector<MappedFile> MappedFiles(absl::string_view maps);

struct LoadedObject {
  std::string path;
  uint64_t base = 0;
  ElfImage image;
};

struct ProcessLook {
  pid_t pid = 0;
  std::string program;                             // path of the executable
  std::map<std::string, std::string> environment;  // at its start; only variables about preloading
  std::vector<LoadedObject> objects;
  std::optional<size_t> shim;  // its index

  // The object that contains `address`; null: none (code generated at run time, or not an address).
  const LoadedObject* ObjectAt(uint64_t address) const;
};

// The names that the shim exports, and the library of each.
class HookedNames {
 public:
  HookedNames();
  // Functions whose calls are recorded, and getenv and dlsym, through which taps are armed and pointers are found.
  const NameSet& all() const { return all_; }
  // "blas", "cudnn" …; empty for getenv and dlsym.
  static std::string FamilyOf(const std::string& name);

 private:
  NameSet all_;
};

// By way of one of its threads: the first one may have ended. NotFound: it is gone, or ended meanwhile. PermissionDenied:
// access is not allowed.
absl::StatusOr<ProcessLook> LookInto(pid_t pid, pid_t thread, const std::string& shim_path, const HookedNames& names);

}  // namespace dlhook::analyzer::doctor
