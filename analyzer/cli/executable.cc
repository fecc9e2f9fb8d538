// Only examines files, starts nothing.
#include "analyzer/cli/executable.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer::inline cli {
namespace {

constexpr int kMaxInterpreters = 4;  // as in the kernel

bool IsFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

std::string ReadStart(const std::string& path, size_t size) {
  std::ifstream file(path, std::ios::binary);
  std::string start(size, '\0');
  file.read(start.data(), static_cast<std::streamsize>(size));
  start.resize(static_cast<size_t>(file.gcount()));
  return start;
}

constexpr absl::string_view kObstaclePayload = "dlhook/obstacle";

absl::Status CantPreload(const std::string& path, absl::string_view id, absl::string_view why) {
  absl::Status status = absl::FailedPreconditionError(
      absl::StrCat("can't be profiled: ", path, " ", why, ", so libdlhook.so can't be loaded into it"));
  status.SetPayload(kObstaclePayload, absl::Cord(id));
  return status;
}

absl::Status CheckElf(const std::string& path, const std::string& start) {
  Elf64_Ehdr header;
  if (start.size() < sizeof header) return CantPreload(path, "broken-file", "is no complete ELF file");
  memcpy(&header, start.data(), sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64) {
    return CantPreload(path, "other-architecture", "is for another architecture than libdlhook.so (x86-64)");
  }
  for (int i = 0; i < header.e_phnum; ++i) {
    const size_t at = header.e_phoff + static_cast<size_t>(i) * sizeof(Elf64_Phdr);
    if (at + sizeof(Elf64_Phdr) > start.size()) break;
    Elf64_Phdr segment;
    memcpy(&segment, start.data() + at, sizeof segment);
    if (segment.p_type != PT_INTERP || segment.p_offset + segment.p_filesz > start.size()) continue;
    const std::string loader(start.c_str() + segment.p_offset);
    if (absl::StrContains(loader, "ld-musl")) return CantPreload(path, "other-libc", "uses musl, not glibc");
    return absl::OkStatus();
  }
  return CantPreload(path, "static-binary", "is statically linked");
}

// Like the kernel's AT_SECURE. For root, set-uid root and capabilities change nothing.
bool IsPrivileged(const std::string& path) {
  struct stat info;
  const bool may_gain = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1;
  if (!may_gain || stat(path.c_str(), &info) != 0) return false;
  const bool changes_user = (info.st_mode & S_ISUID) != 0 && info.st_uid != getuid();
  const bool changes_group = (info.st_mode & S_ISGID) != 0 && info.st_gid != getgid();
  const bool adds_capabilities = getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
  return changes_user || changes_group || adds_capabilities;
}

}  // namespace

absl::StatusOr<std::string> FindProgram(const std::string& program) {
  std::vector<std::string> candidates;
  if (absl::StrContains(program, '/')) {
    std::error_code error;
    if (std::filesystem::is_directory(program, error)) {
      return absl::PermissionDeniedError(absl::StrCat(program, ": is a folder, expected a program"));
    }
    candidates.push_back(program);
  } else {
    const char* path = getenv("PATH");
    for (absl::string_view folder : absl::StrSplit(path == nullptr ? "/bin:/usr/bin" : path, ':')) {
      candidates.push_back(absl::StrCat(folder.empty() ? "." : folder, "/", program));
    }
  }
  bool found = false;
  for (const std::string& candidate : candidates) {
    if (!IsFile(candidate)) continue;
    found = true;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  if (found) {
    return absl::PermissionDeniedError(absl::StrCat(
        program, ": not executable; chmod +x it, or name its interpreter: dlhook run -- python ", program));
  }
  const bool has_path = absl::StrContains(program, '/');
  return absl::NotFoundError(absl::StrCat(program, ": no such program", has_path ? "" : " in any folder of PATH"));
}

absl::Status CheckPreloadable(const std::string& path) {
  std::string file = path;
  for (int depth = 0; depth < kMaxInterpreters; ++depth) {
    if (IsPrivileged(file)) return CantPreload(file, "set-uid", "is set-uid or set-gid or has capabilities");
    const std::string start = ReadStart(file, 64 << 10);
    if (absl::StartsWith(start, ELFMAG)) return CheckElf(file, start);
    if (!absl::StartsWith(start, "#!")) return absl::OkStatus();  // the shell will try
    const std::string line = start.substr(2, start.find('\n') - 2);
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) return absl::OkStatus();
    if (!IsFile(words.front())) {
      return absl::NotFoundError(absl::StrCat(file, ": its interpreter ", words.front(), " (first line) is not there"));
    }
    file = words.front();
    const bool by_env = words.size() > 1 && absl::EndsWith(file, "/env") && !absl::StartsWith(words[1], "-");
    if (!by_env) continue;
    const absl::StatusOr<std::string> found = FindProgram(words[1]);
    if (!found.ok()) return absl::OkStatus();
    file = *found;
  }
  return absl::OkStatus();
}

std::string ObstacleId(const absl::Status& status) {
  const auto id = status.GetPayload(kObstaclePayload);
  return id.has_value() ? std::string(*id) : "not-preloadable";
}

std::string ContainerHint(const std::string& program) {
  const absl::string_view name = BaseName(program);
  for (const absl::string_view known : {"docker", "podman", "nerdctl", "kubectl"}) {
    if (name != known) continue;
    return absl::StrCat("; what it starts runs in a container, and dlhook run goes there: ", name,
                        " run ... IMAGE dlhook run -o RUN -- PROGRAM (docs/launchers.md)");
  }
  return "";
}

absl::StatusOr<std::string> FindShim() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("/proc/self/exe can't be read (", error.message(),
                                               "), so libdlhook.so can't be found: /proc is not mounted here"));
  }
  const std::filesystem::path folder = self.parent_path();
  std::vector<std::string> tried;
  for (const char* relative : {"../lib", "../lib/x86_64-linux-gnu", "../lib64", "lib"}) {
    const std::filesystem::path candidate = folder / relative / "libdlhook.so";
    if (std::filesystem::exists(candidate, error)) return std::filesystem::canonical(candidate, error).string();
    tried.push_back(candidate.string());
  }
  return absl::NotFoundError(absl::StrCat("libdlhook.so is not there; looked for ", absl::StrJoin(tried, ", "),
                                          "; keep bin/dlhook and lib/libdlhook.so as cmake --install puts them"));
}

}  // namespace dlhook::analyzer::cli
