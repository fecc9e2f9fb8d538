// Folded stacks, "main;fit;LeNet.forward;aten::conv2d 1234": what flamegraph.pl, inferno and speedscope read.
//
// The format has no escapes. A ";" in a name becomes ":", control characters become blanks. A number behind the last
// blank of the innermost name would be taken for a weight (flamegraph.pl and inferno then expect a second one, of a
// difference), so that blank becomes "_".
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "analyzer/export/exporter.h"

namespace dlhook::analyzer {
namespace {

std::string Escaped(std::string name) {
  for (char& letter : name) {
    if (letter == ';') letter = ':';
    if (absl::ascii_iscntrl(static_cast<unsigned char>(letter))) letter = ' ';
  }
  absl::StripAsciiWhitespace(&name);
  if (name.empty()) return "?";
  const size_t blank = name.rfind(' ');
  const bool ends_in_number =
      blank != std::string::npos && name.find_first_not_of("0123456789.", blank + 1) == std::string::npos;
  if (ends_in_number) name[blank] = '_';
  return name;
}

}  // namespace

std::string ExportFolded(const Profile& profile, const ExportOptions& options) {
  std::vector<std::string> titles;
  titles.reserve(profile.frames().size());
  for (const ProfileFrame& frame : profile.frames())
    titles.push_back(Escaped(FrameTitle(profile, frame, options.with_lines)));
  // Stacks that differ only in lines that are not shown are one.
  std::map<std::string, int64_t> lines;
  const std::vector<Weights> self = profile.SelfWeights();
  for (NodeIndex node = kRoot + 1; node < profile.nodes().size(); ++node) {
    const int64_t weight = self[node][static_cast<size_t>(options.weight)];
    if (weight == 0) continue;
    std::string line;
    for (NodeIndex outer : profile.PathTo(node)) {
      absl::StrAppend(&line, line.empty() ? "" : ";", titles[profile.nodes()[outer].frame]);
    }
    lines[line] += weight;
  }
  std::string text;
  for (const auto& [line, weight] : lines) absl::StrAppend(&text, line, " ", weight, "\n");
  return text;
}

}  // namespace dlhook::analyzer
