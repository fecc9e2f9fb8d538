// The JSON of speedscope (its file-format-schema.json): a sampled profile for each kind of steps of a process, and one for the GPUs.
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analyzer/export/exporter.h"
#include "analyzer/profile/profile_nodes.h"
#include "analyzer/render/escape.h"

namespace dlhook::analyzer::inline exports {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) { return EscapedJson(json.dump(-1, ' ', false, Json::error_handler_t::replace)); }

Json FramesJson(const Profile& profile, bool with_lines) {
  Json frames = Json::array();
  for (const ProfileFrame& frame : profile.frames()) {
    const ProfileFunction& function = profile.functions()[frame.function];
    Json json = {{"name", VisibleText(FrameTitle(profile, frame, with_lines))}};
    if (!function.file.empty()) json["file"] = VisibleText(function.file);
    if (frame.line > 0) json["line"] = frame.line;
    frames.push_back(std::move(json));
  }
  return frames;
}

struct Stacks {
  std::string samples, weights;  // elements of JSON arrays
  int64_t sum = 0;

  void Add(const std::string& stack, int64_t weight) {
    absl::StrAppend(&samples, samples.empty() ? "" : ",\n", stack);
    absl::StrAppend(&weights, weights.empty() ? "" : ", ", weight);
    sum += weight;
  }
};

std::string StackJson(const Profile& profile, NodeIndex node) {
  std::string json;
  for (NodeIndex outer : profile.PathTo(node)) {
    absl::StrAppend(&json, json.empty() ? "[" : ", ", profile.nodes()[outer].frame);
  }
  return json + "]";
}

const char* UnitOf(Weight weight) {
  if (weight == Weight::kTime) return "nanoseconds";
  return weight == Weight::kBytes ? "bytes" : "none";
}

}  // namespace

std::string ExportSpeedscope(const Profile& profile, const ExportOptions& options) {
  std::map<std::pair<bool, std::string>, Stacks> profiles;  // whether of GPUs, and name
  Limit bytes("bytes of stacks", kMaxExportBytes);
  for (const ProfileSample& sample : profile.samples()) {
    const int64_t weight = sample.weights[static_cast<size_t>(options.weight)];
    if (weight == 0) continue;
    const ProfileLabels& labels = profile.labels()[sample.labels];
    const bool is_gpu = labels.kind == kGpuKind;
    const std::string stack = StackJson(profile, sample.stack);
    bytes.Take(stack.size());
    profiles[{is_gpu,
              absl::StrCat(labels.step, labels.step.empty() ? "" : ", ", labels.process, is_gpu ? ", GPUs" : "")}]
        .Add(stack, weight);
  }
  std::string json = absl::StrCat("{\"$schema\": \"https://www.speedscope.app/file-format-schema.json\",\n\"name\": ",
                                  Dump(VisibleText(profile.model().name)),
                                  ",\n\"exporter\": \"dlhook " DLHOOK_VERSION "\",\n\"shared\": {\"frames\": ",
                                  Dump(FramesJson(profile, options.with_lines)), "},\n\"profiles\": [");
  const char* separator = "";
  for (const auto& [key, stacks] : profiles) {
    absl::StrAppend(&json, separator, "\n{\"type\": \"sampled\", \"name\": ", Dump(VisibleText(key.second)),
                    ", \"unit\": \"", UnitOf(options.weight), "\", \"startValue\": 0, \"endValue\": ", stacks.sum,
                    ",\n\"samples\": [", stacks.samples, "],\n\"weights\": [", stacks.weights, "]}");
    separator = ",";
  }
  return json + "]}\n";
}

}  // namespace dlhook::analyzer::exports
