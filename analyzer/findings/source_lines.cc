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
constexpr size_t kMostLinesAfter = 2;   // the first one …
constexpr size_t kMostLinesBefore = 4;  // … and the last one

// Of a line without code: any.
size_t IndentOf(absl::string_view line) {
  const size_t indent = line.find_first_not_of(" \t\r");
  return indent == absl::string_view::npos ? SIZE_MAX : indent;
}

bool Defines(absl::string_view line) {
  const absl::string_view code = absl::StripAsciiWhitespace(line);
  return absl::StartsWith(code, "def ") || absl::StartsWith(code, "async def ") || absl::StartsWith(code, "class ");
}

bool Loops(absl::string_view line) {
  const absl::string_view code = absl::StripAsciiWhitespace(line);
  return absl::StartsWith(code, "for ") || absl::StartsWith(code, "async for ") || absl::StartsWith(code, "while ");
}

// Whether the line, from 1, is the body's of a loop in its function.
bool IsInLoop(const std::vector<absl::string_view>& lines, size_t of) {
  size_t indent = IndentOf(lines[of - 1]);
  for (size_t line = of - 1; line > 0 && indent > 0; --line) {
    if (IndentOf(lines[line - 1]) >= indent) continue;
    indent = IndentOf(lines[line - 1]);
    if (Loops(lines[line - 1])) return true;
    if (Defines(lines[line - 1])) return false;
  }
  return false;
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

std::vector<std::string> SourceLines::Of(absl::string_view label, bool in_loop) const {
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
  const auto has_code = [&](size_t line) {
    const absl::string_view code = absl::StripAsciiWhitespace(lines[line - 1]);
    return !code.empty() && code.front() != '#';
  };
  const size_t first = ends.front(), last = ends.back();
  const auto indent = [&](size_t line) { return IndentOf(lines[line - 1]); };
  const auto defines = [&](size_t line) { return Defines(lines[line - 1]); };
  const bool is_around = last < first || (last == first && in_loop && IsInLoop(lines, first));
  std::vector<size_t> shown = {first};
  // What lies between: to a line further down all; back to the beginning of a loop the rest of its body.
  // Nothing where another function begins.
  for (size_t line = first + 1; line <= lines.size() && shown.size() <= kMostLinesAfter; ++line) {
    if ((last <= first && !is_around) || line == last || defines(line) || defines(last)) break;
    if (indent(line) < indent(first)) break;
    if (has_code(line)) shown.push_back(line);
  }
  // From the beginning of that loop, or of a function further up, to the last line.
  std::vector<size_t> before;
  for (size_t line = last - 1; is_around && line > 0 && before.size() < kMostLinesBefore; --line) {
    const bool is_outside = indent(line) < std::min(indent(first), indent(last));
    if (defines(line) || defines(last) || (is_outside && !Loops(lines[line - 1]))) break;
    if (has_code(line)) before.push_back(line);
    if (is_outside) break;
  }
  shown.insert(last == first ? shown.begin() : shown.end(), before.rbegin(), before.rend());
  if (last != first) shown.push_back(last);
  std::vector<std::string> sources;
  for (const size_t line : shown)
    sources.push_back(absl::StrCat(line, ": ", absl::StripAsciiWhitespace(lines[line - 1])));
  return sources;
}

}  // namespace dlhook::analyzer::findings
