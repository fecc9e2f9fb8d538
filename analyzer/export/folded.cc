// Folded stacks, "main;fit;LeNet.forward;aten::conv2d 1234": the format of flamegraph.pl, inferno and speedscope.
#include "analyzer/export/exporter.h"
#include "analyzer/render/escape.h"

namespace dlhook::analyzer::inline exports {
std::string ExportFolded(const Profile& profile, const ExportOptions& options) {
  std::vector<std::string> titles;
  titles.reserve(profile.frames().size());
  for (const ProfileFrame& frame : profile.frames())
    titles.push_back(FoldedFrame(FrameTitle(profile, frame, options.with_lines)));
  // Stacks that differ only in hidden lines are merged.
  std::map<std::string, int64_t> lines;
  Limit bytes("bytes of distinct stacks", kMaxExportBytes);
  const std::vector<Weights> self = profile.SelfWeights();
  for (NodeIndex node = kRoot + 1; node < profile.nodes().size(); ++node) {
    const int64_t weight = self[node][static_cast<size_t>(options.weight)];
    if (weight == 0) continue;
    std::string line;
    for (NodeIndex outer : profile.PathTo(node)) {
      absl::StrAppend(&line, line.empty() ? "" : ";", titles[profile.nodes()[outer].frame]);
      if (line.size() > kMaxExportBytes) break;
    }
    const auto [at, is_new] = lines.try_emplace(std::move(line), 0);
    if (is_new) bytes.Take(at->first.size());
    at->second += weight;
  }
  std::string text;
  for (; !lines.empty(); lines.erase(lines.begin())) {
    absl::StrAppend(&text, lines.begin()->first, " ", lines.begin()->second, "\n");
  }
  return text;
}

}  // namespace dlhook::analyzer::exports
