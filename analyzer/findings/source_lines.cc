// See source_lines.h.
#include "analyzer/findings/source_lines.h"

#include <sys/stat.h>

#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/io/whole_file.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr uint64_t kLongestFile = 4 << 20;

}  // namespace

SourceLines::SourceLines(const TraceModel& model) {
  for (const PythonStack& stack : model.python_stacks) {
    for (const PythonFrame& frame : stack.frames) {
      if (frame.file == kNone) continue;
      const std::string& path = model.names[frame.file];
      if (absl::StartsWith(path, "/") && absl::EndsWith(path, ".py"))
        paths_[path.substr(path.rfind('/') + 1)].insert(path);
    }
  }
  if (model.processes.empty()) return;
  const ProcessInfo& first = model.processes.front();
  began_s_ = first.realtime_offset_ns ? (first.start_ns + *first.realtime_offset_ns) / 1'000'000'000 : 0;
}

std::vector<std::string> SourceLines::Of(absl::string_view label) const {
  const std::vector<absl::string_view> parts = absl::StrSplit(label, ':');
  const auto paths = paths_.find(std::string(parts.front()));
  struct stat status = {};
  if (parts.size() != 2 || paths == paths_.end() || paths->second.size() != 1) return {};
  const std::string& path = *paths->second.begin();
  if (stat(path.c_str(), &status) != 0 || status.st_mtime > began_s_) return {};
  const auto text = ReadWholeFile(path, kLongestFile, FileIs::kFound);
  if (!text.ok()) return {};
  const std::vector<absl::string_view> lines = absl::StrSplit(*text, '\n');
  std::vector<std::string> sources;
  for (const absl::string_view number : absl::StrSplit(parts[1], " to ")) {
    size_t line = 0;
    if (!absl::SimpleAtoi(number, &line) || line == 0 || line > lines.size()) return {};
    sources.push_back(absl::StrCat(line, ": ", absl::StripAsciiWhitespace(lines[line - 1])));
  }
  return sources;
}

}  // namespace dlhook::analyzer::findings
