// Examines a running (or stopped) process once: which objects it has loaded and to what their references to hooked
// names are bound.
#pragma once

#include "absl/container/flat_hash_set.h"
#include "analyzer/io/outside_code.h"

namespace dlhook::analyzer::inline doctor {

// How the loader bound one ELF object: names are read from its file, values from the memory of the process, so that it
// shows what was bound, not what the file suggests.
using NameSet = absl::flat_hash_set<std::string>;

// A word of the object that the loader sets to the address of a symbol: in the GOT, or in a table of function pointers.
struct BoundSlot {
  std::string name;
  uint64_t value = 0;       // its current value
  uint64_t definition = 0;  // where the object itself defines the name; 0: nowhere
  bool is_weak = false;     // a reference that may remain null
};

struct ExportedSymbol {
  std::string name;
  bool is_protected = false;  // the object's own calls to it can't be interposed
};

struct ElfImage {
  std::string soname;                                   // empty: none, as in an executable
  std::string build_id;                                 // in hexadecimal digits; empty: none
  std::vector<std::string> needed;                      // sonames of the libraries that it is linked to
  bool is_symbolic = false;                             // linked -Bsymbolic
  bool is_executable = false;                           // has PT_INTERP or is linked to a fixed address
  std::vector<std::pair<uint64_t, uint64_t>> segments;  // start and end
  std::vector<BoundSlot> slots;                         // of wanted names only
  std::vector<ExportedSymbol> exports;                  // of wanted names only

  bool Contains(uint64_t address) const;
};

// The file whose first page is mapped at `base`. Collects slots and exports of names in `wanted`. An error: it is no ELF
// object of this architecture, or can't be read.
absl::StatusOr<ElfImage> ReadElfImage(const std::string& path, uint64_t base, const MemoryReader& memory,
                                      const NameSet& wanted);

// An ELF file as shown in /proc/PID/maps.
struct MappedFile {
  std::string path;
  uint64_t base = 0;  // address of its first page
};

// Files with code, once per mapping, in the order of addresses. `maps`: the text of /proc/PID/maps.
std::vector<MappedFile> MappedFiles(absl::string_view maps);

struct LoadedObject {
  std::string path;
  ElfImage image;
};

struct ProcessLook {
  pid_t pid = 0;
  std::string program;  // path of the executable
  std::string preload;  // LD_PRELOAD at its start
  std::vector<LoadedObject> objects;
  std::optional<size_t> shim;  // its index

  // The object that contains `address`; null: none (code generated at run time, or not an address).
  const LoadedObject* ObjectAt(uint64_t address) const;
};

// The names that the shim exports: functions whose calls are recorded, and getenv and dlsym, through which taps are armed and
// pointers are found.
const NameSet& ExportedNames();
// "blas", "cudnn" …; empty for others, and getenv and dlsym.
std::string FamilyOf(const std::string& name);

// By way of one of its threads: the first one may have ended. NotFound: it is gone, or ended meanwhile. PermissionDenied:
// access is not allowed.
absl::StatusOr<ProcessLook> LookInto(pid_t pid, pid_t thread, const std::string& shim_path);

}  // namespace dlhook::analyzer::doctor
