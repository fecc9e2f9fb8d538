// See source_lines.h.
#include "analyzer/findings/source_lines.h"

#include <sys/stat.h>

#include <algorithm>
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
constexpr size_t kMostLinesBetween = 2;  // lines

// Of a line without code: any.
size_t IndentOf(absl::string_view line) {
  const size_t indent = line.find_first_not_of(" \t\r");
  return indent == absl::string_view::npos ? SIZE_MAX : indent;
}

bool Defines(absl::string_view line) {
  const absl::string_view code = absl::StripAsciiWhitespace(line);
  return absl::StartsWith(code, "def ") || absl::StartsWith(code, "async def ") || absl::StartsWith(code, "class ");
}

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
  if (stat(path.c_str(), &status) != 0 || std::max(status.st_mtime, status.st_ctime) > began_s_) return {};
  const auto text = ReadWholeFile(path, kLongestFile, FileIs::kFound);
  if (!text.ok()) return {};
  const std::vector<absl::string_view> lines = absl::StrSplit(*text, '\n');
  std::vector<size_t> ends;
  for (const absl::string_view number : absl::StrSplit(parts[1], " to ")) {
    size_t& line = ends.emplace_back();
    if (!absl::SimpleAtoi(number, &line) || line == 0 || line > lines.size()) return {};
  }
  std::vector<std::string> sources;
  const auto add = [&](size_t line) {
    const absl::string_view code = absl::StripAsciiWhitespace(lines[line - 1]);
    if (!code.empty() && code.front() != '#') sources.push_back(absl::StrCat(line, ": ", code));
  };
  const size_t first = ends.front(), last = ends.back();
  add(first);
  // What lies between: to a line further down all; back to the beginning of a loop the rest of its body.
  // Nothing where another function begins.
  for (size_t line = first + 1; line <= lines.size() && sources.size() <= kMostLinesBetween; ++line) {
    if (line == last || last == first || Defines(lines[line - 1]) || Defines(lines[last - 1])) break;
    if (IndentOf(lines[line - 1]) < IndentOf(lines[first - 1])) break;
    add(line);
  }
  if (last != first) add(last);
  return sources;
}

}  // namespace dlhook::analyzer::findings
