// See resctrl.h. The kernel's Documentation/arch/x86/resctrl.rst describes the files.
#include "analyzer/io/resctrl.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "absl/cleanup/cleanup.h"
#include "analyzer/io/machine_files.h"

namespace dlhook::analyzer::inline io {
namespace {

namespace fs = std::filesystem;

// "dlhook-4026531836-": process ids mean something in one namespace only.
std::string GroupPrefix() {
  std::error_code error;
  const std::string space = fs::read_symlink("/proc/self/ns/pid", error).string();  // "pid:[4026531836]"
  uint64_t number = 0;
  if (!absl::SimpleAtoi(absl::StripSuffix(absl::StripPrefix(space, "pid:["), "]"), &number)) number = 0;
  return absl::StrCat("dlhook-", number, "-");
}

absl::Status WriteTo(const std::string& path, const std::string& text) {
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_CREAT, 0600);
  const absl::Cleanup close_file = [file] { close(file); };
  if (file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size())) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": can't write '", absl::StripSuffix(text, "\n"), "'"));
}

// "L3:0=ff0;1=ff0" for caches as the root's "    L3:0=fff;1=fff" lists them.
std::string SchemaOf(const std::string& root, const std::string& mask) {
  for (absl::string_view caches : absl::StrSplit(ReadSmallFile(root + "/schemata"), '\n')) {
    caches = absl::StripLeadingAsciiWhitespace(caches);
    if (!absl::ConsumePrefix(&caches, "L3:")) continue;
    std::vector<std::string> parts;
    for (const absl::string_view cache : absl::StrSplit(caches, ';'))
      parts.push_back(absl::StrCat(cache.substr(0, cache.find('=')), "=", mask));
    return absl::StrCat("L3:", absl::StrJoin(parts, ";"), "\n");
  }
  return "";
}

}  // namespace

absl::Status CheckResctrl(const std::string& root) {
  std::error_code error;
  if (!fs::exists(root + "/info", error) || !fs::exists(root + "/tasks", error)) {
    return absl::NotFoundError(
        absl::StrCat(root, ": no resctrl: the processor or the kernel has none, or it is not mounted"));
  }
  if (access(root.c_str(), W_OK) == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(root, ": groups can't be made: ", strerror(errno)));
}

absl::StatusOr<ResctrlGroup> ResctrlGroup::Make(const std::string& root, const std::string& name,
                                                const std::string& mask) {
  ResctrlGroup group(absl::StrCat(root, mask.empty() ? "/mon_groups/" : "/", GroupPrefix(), getpid(), "-", name));
  if (mkdir(group.path_.c_str(), 0700) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat(group.path_, ": can't be made"));
  if (mask.empty()) return group;
  const std::string schema = SchemaOf(root, mask);
  if (schema.empty()) return absl::FailedPreconditionError(absl::StrCat(root, "/schemata: no L3 cache can be divided"));
  const absl::Status status = WriteTo(group.path_ + "/schemata", schema);
  if (status.ok()) return group;
  const std::string reason = ReadSmallFile(root + "/info/last_cmd_status");
  return absl::Status(status.code(), absl::StrCat(status.message(), ": ", absl::StripTrailingAsciiWhitespace(reason)));
}

absl::Status ResctrlGroup::Add(pid_t task) const { return WriteTo(path_ + "/tasks", absl::StrCat(task, "\n")); }

std::optional<double> ResctrlGroup::Sum(const char* event) const {
  std::optional<double> sum;
  std::error_code error;
  for (const auto& cache : fs::directory_iterator(path_ + "/mon_data", error)) {
    uint64_t value = 0;  // else "Unavailable", "Error"
    const std::string text = ReadSmallFile(cache.path() / event);
    if (absl::SimpleAtoi(text, &value)) sum = sum.value_or(0) + static_cast<double>(value);
  }
  return sum;
}

void RemoveResctrlGroups(const std::string& root, pid_t owner) {
  const std::string prefix = GroupPrefix();
  for (const std::string& folder : {root, root + "/mon_groups"}) {
    std::error_code error;
    std::vector<fs::path> groups;
    for (const auto& group : fs::directory_iterator(folder, error)) {
      const std::string name = group.path().filename();
      absl::string_view rest = name;
      pid_t pid = 0;
      if (!absl::ConsumePrefix(&rest, prefix) || !absl::SimpleAtoi(rest.substr(0, rest.find('-')), &pid)) continue;
      if (pid == owner || (kill(pid, 0) != 0 && errno == ESRCH)) groups.push_back(group.path());
    }
    for (const fs::path& group : groups) {
      if (rmdir(group.c_str()) != 0 && errno == ENOTEMPTY) fs::remove_all(group, error);  // a test's tree
    }
  }
}

}  // namespace dlhook::analyzer::io
