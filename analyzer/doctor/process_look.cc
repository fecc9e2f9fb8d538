// Reads /proc/PID and the process's memory; writes and stops nothing.
#include "analyzer/doctor/process_look.h"

#include <errno.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "preload/format/hook_table.h"

namespace dlhook::analyzer::inline doctor {
namespace {

constexpr std::array<absl::string_view, 7> kWantedVariables = {"LD_PRELOAD",
                                                               "LD_AUDIT",
                                                               "CUDA_INJECTION64_PATH",
                                                               "NVTX_INJECTION64_PATH",
                                                               "NSYS_PROFILING_SESSION_ID",
                                                               "CUDA_MPS_PIPE_DIRECTORY",
                                                               "DLHOOK_CAPTURE"};

absl::StatusOr<std::string> ReadProcFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (file) text << file.rdbuf();
  if (!file || file.bad()) return absl::ErrnoToStatus(errno == 0 ? EACCES : errno, path);
  return text.str();
}

std::map<std::string, std::string> WantedVariables(absl::string_view environment) {
  std::map<std::string, std::string> variables;
  for (absl::string_view entry : absl::StrSplit(environment, '\0')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(entry, absl::MaxSplits('=', 1));
    const bool is_wanted =
        std::find(kWantedVariables.begin(), kWantedVariables.end(), parts.first) != kWantedVariables.end();
    if (is_wanted && !parts.second.empty()) variables.emplace(parts.first, parts.second);
  }
  return variables;
}

bool IsSameFile(const std::string& path, const std::string& other) {
  std::error_code error;
  return path == other || (std::filesystem::equivalent(path, other, error) && !error);
}

// Objects in every process that neither export nor call hooked functions.
bool IsLoaderOrLibc(absl::string_view path) {
  const absl::string_view name = path.substr(path.rfind('/') + 1);
  return absl::StartsWith(name, "ld-linux") || absl::StartsWith(name, "libc.so.");
}

}  // namespace

std::vector<MappedFile> MappedFiles(absl::string_view maps) {
  struct Group {
    MappedFile file;
    std::string key;
    bool has_code = false;
  };
  std::vector<Group> groups;
  for (absl::string_view line : absl::StrSplit(maps, '\n')) {
    MapsLine parsed;
    if (!ParseMapsLine(line, &parsed)) continue;
    if (parsed.offset == 0 && (groups.empty() || groups.back().key != parsed.file || groups.back().has_code)) {
      groups.push_back(
          {{std::string(absl::StripSuffix(parsed.path, " (deleted)")), parsed.start}, parsed.file, parsed.is_code});
      continue;
    }
    const auto group = std::find_if(groups.rbegin(), groups.rend(),
                                    [&](const Group& candidate) { return candidate.key == parsed.file; });
    if (group != groups.rend()) group->has_code = group->has_code || parsed.is_code;
  }
  std::vector<MappedFile> files;
  for (Group& group : groups) {
    if (group.has_code) files.push_back(std::move(group.file));
  }
  return files;
}

const LoadedObject* ProcessLook::ObjectAt(uint64_t address) const {
  for (const LoadedObject& object : objects) {
    if (object.image.Contains(address)) return &object;
  }
  return nullptr;
}

HookedNames::HookedNames() : all_({"getenv", "dlsym"}) {
  for (int i = 0; i < kHookCount; ++i) all_.emplace(kHookNames[i].name);
}

std::string HookedNames::FamilyOf(const std::string& name) {
  const int hook = FindHook(name.c_str());
  return hook < 0 ? "" : kFamilyNames[kHookNames[hook].family];
}

absl::StatusOr<ProcessLook> LookInto(pid_t pid, pid_t thread, const std::string& shim_path, const HookedNames& names) {
  const std::string folder = absl::StrCat("/proc/", thread);
  ProcessLook look;
  look.pid = pid;
  std::error_code error;
  look.program = std::filesystem::read_symlink(folder + "/exe", error).string();
  const absl::StatusOr<std::string> maps = ReadProcFile(folder + "/maps");
  if (!maps.ok()) return maps.status();
  if (const absl::StatusOr<std::string> environment = ReadProcFile(folder + "/environ"); environment.ok()) {
    look.environment = WantedVariables(*environment);
  }
  const ProcessMemory memory(thread);
  const std::vector<MappedFile> files = MappedFiles(*maps);
  for (const MappedFile& file : files) {
    absl::StatusOr<ElfImage> image = ReadElfImage(memory, file.base, names.all());
    if (!image.ok()) continue;  // another kind of file with executable pages, or a statically linked program
    if (IsSameFile(file.path, shim_path)) look.shim = look.objects.size();
    look.objects.push_back({file.path, file.base, *std::move(image)});
    if (IsLoaderOrLibc(file.path)) look.objects.back().image.slots.clear();
  }
  char byte = 0;
  if (!files.empty() && !memory.Read(files.front().base, &byte, 1)) {
    if (errno == ESRCH) return absl::NotFoundError("the process ended meanwhile");
    if (look.objects.empty()) {
      return absl::PermissionDeniedError(
          absl::StrCat("the memory of process ", pid, " can't be read: ", strerror(errno)));
    }
  }
  return look;
}

}  // namespace dlhook::analyzer::doctor
