// Callgrind's profile format (version 1), as in its manual; read by callgrind_annotate and KCachegrind.
//
// Recursion: a function that is already on the stack gets another name, as callgrind itself does with --separate-recs:
// "f'2" is f called while one f is active. So every cost on an edge is exact, and the inclusive cost of f contains that
// of its recursion once. "calls=" counts the library calls below an edge: how often Python or framework functions were
// called is not recorded.

#include "analyzer/export/exporter.h"
#include "analyzer/render/escape.h"

namespace dlhook::analyzer::inline exports {
namespace {

// "(3) name" the first time, "(3)" from then on.
class Compressor {
 public:
  std::string operator()(const std::string& name) {
    const auto [at, is_new] = ids_.try_emplace(name, ids_.size() + 1);
    return absl::StrCat("(", at->second, ")", is_new ? " " : "", is_new ? CallgrindName(name) : "");
  }

 private:
  std::map<std::string, size_t> ids_;
};

class CallgrindWriter {
 public:
  explicit CallgrindWriter(const Profile& profile)
      : profile_(profile),
        events_({Weight::kTime, Weight::kCalls, Weight::kFlops, Weight::kBytes}),
        self_(profile.SelfWeights()),
        total_(profile.TotalWeights()) {
    if (HasGpuTime(profile)) events_.push_back(Weight::kGpuTime);
    for (const ProfileFunction& function : profile.functions()) {
      name_of_.push_back(written_.try_emplace({function.file, function.name}, written_.size()).first->second);
    }
    depths_.resize(profile.nodes().size());
    for (NodeIndex node = kRoot + 1; node < profile.nodes().size(); ++node) Collect(node);
  }

  std::string Write() {
    WriteHead();
    for (const auto& [body, lines] : bodies_) WriteBody(body, lines);
    absl::StrAppend(&text_, "totals:", Costs(profile_.Sum()), "\n");
    return std::move(text_);
  }

 private:
  using Body = std::pair<FunctionIndex, uint32_t>;  // a function, and how often it was on the stack
  struct Lines {
    Weights self = {};
    std::map<std::pair<uint32_t, Body>, Weights> calls;  // calling line and callee
  };

  // Readers identify functions by file and name alone.
  uint32_t DepthOf(NodeIndex node) const {
    const size_t name = name_of_[profile_.FunctionOf(node)];
    for (NodeIndex outer = profile_.nodes()[node].parent; outer != kRoot; outer = profile_.nodes()[outer].parent) {
      if (name_of_[profile_.FunctionOf(outer)] == name) return depths_[outer] + 1;
    }
    return 1;
  }

  void Collect(NodeIndex node) {
    depths_[node] = DepthOf(node);
    const Body body = {profile_.FunctionOf(node), depths_[node]};
    AddTo(self_[node], bodies_[body].self);
    const NodeIndex caller = profile_.nodes()[node].parent;
    if (caller == kRoot) return;
    AddTo(total_[node],
          bodies_[{profile_.FunctionOf(caller), depths_[caller]}].calls[{profile_.FrameOf(caller).line, body}]);
  }

  void WriteHead() {
    absl::StrAppend(&text_, "# callgrind format\nversion: 1\ncreator: dlhook " DLHOOK_VERSION "\ncmd: ",
                    CallgrindName(profile_.model().name), "\npositions: line\n");
    std::string names;
    for (Weight event : events_) {
      const WeightWord& word = WeightWords()[static_cast<size_t>(event)];
      absl::StrAppend(&text_, "event: ", word.name, " : ", word.meaning, word.unit == "ns" ? " (ns)" : "", "\n");
      absl::StrAppend(&names, " ", word.name);
    }
    absl::StrAppend(&text_, "events:", names, "\nsummary:", Costs(profile_.Sum()), "\n");
  }

  // Writes "fn=" or "cfn=" with the location; `c` is the prefix for a callee.
  void WriteName(const char* c, Body body) {
    const ProfileFunction& function = profile_.functions()[body.first];
    const std::string name = body.second > 1 ? absl::StrCat(function.name, "'", body.second) : function.name;
    absl::StrAppend(&text_, c, "ob=", objects_(function.object.empty() ? "???" : function.object), "\n",
                    *c == 0 ? "fl=" : "cfi=", files_(function.file.empty() ? "???" : function.file), "\n", c,
                    "fn=", names_(name), "\n");
  }

  void WriteBody(Body body, const Lines& lines) {
    text_.push_back('\n');
    WriteName("", body);
    if (lines.self != Weights{}) absl::StrAppend(&text_, "0", Costs(lines.self), "\n");
    for (const auto& [call, weights] : lines.calls) {
      WriteName("c", call.second);
      // At least one: callgrind_annotate takes the costs behind calls=0 for the caller's own.
      const int64_t calls = std::max<int64_t>(1, weights[static_cast<size_t>(Weight::kCalls)]);
      absl::StrAppend(&text_, "calls=", calls, " 0\n", call.first, Costs(weights), "\n");
    }
  }

  std::string Costs(const Weights& weights) const {
    std::string text;
    for (Weight event : events_) absl::StrAppend(&text, " ", weights[static_cast<size_t>(event)]);
    return text;
  }

  const Profile& profile_;
  std::vector<Weight> events_;
  const std::vector<Weights> self_, total_;
  std::map<std::pair<std::string, std::string>, size_t> written_;  // file and name
  std::vector<size_t> name_of_;                                    // by FunctionIndex: value in written_
  std::vector<uint32_t> depths_;                                   // by NodeIndex
  std::map<Body, Lines> bodies_;
  Compressor objects_, files_, names_;
  std::string text_;
};

}  // namespace

std::string ExportCallgrind(const Profile& profile, const ExportOptions& /*options*/) {
  return CallgrindWriter(profile).Write();
}

}  // namespace dlhook::analyzer::exports
