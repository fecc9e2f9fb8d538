#include "analyzer/profile/profile.h"

#include "analyzer/calls/op_labels.h"
#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer::inline profiles {
namespace {

// The index of `key` in `list`, adding it if necessary.
template <typename Key, typename Element>
uint32_t Intern(const Key& key, const Element& element, absl::flat_hash_map<Key, uint32_t>& known,
                std::vector<Element>& list) {
  const auto [place, is_new] = known.try_emplace(key, static_cast<uint32_t>(list.size()));
  if (is_new) list.push_back(element);
  return place->second;
}

}  // namespace

FunctionIndex Profile::Function(const ProfileFunction& function) {
  return Intern(function, function, function_index_, functions_);
}

ProfileFrameIndex Profile::Frame(const ProfileFrame& frame) { return Intern(frame, frame, frame_index_, frames_); }

NodeIndex Profile::Child(NodeIndex parent, ProfileFrameIndex frame) {
  const uint32_t depth = nodes_[parent].depth + 1;
  const size_t known = nodes_.size();
  const NodeIndex node = Intern(std::make_pair(parent, frame), ProfileNode{parent, frame, depth}, node_index_, nodes_);
  if (nodes_.size() > known) steps_.Take(depth);
  return node;
}

LabelsIndex Profile::AddLabels(ProfileLabels labels) {
  labels_.push_back(std::move(labels));
  return static_cast<LabelsIndex>(labels_.size() - 1);
}

void Profile::Add(NodeIndex stack, LabelsIndex labels, const Weights& weights) {
  const size_t known = samples_.size();
  const uint32_t sample =
      Intern(std::make_pair(stack, labels), ProfileSample{stack, labels, {}}, sample_index_, samples_);
  if (samples_.size() > known) steps_.Take(nodes_[stack].depth);
  AddTo(weights, samples_[sample].weights);
}

std::vector<NodeIndex> Profile::PathTo(NodeIndex node) const {
  std::vector<NodeIndex> path;
  for (; node != kRoot; node = nodes_[node].parent) path.push_back(node);
  absl::c_reverse(path);
  return path;
}

std::vector<Weights> Profile::SelfWeights() const {
  std::vector<Weights> self(nodes_.size());
  for (const ProfileSample& sample : samples_) AddTo(sample.weights, self[sample.stack]);
  return self;
}

std::vector<Weights> Profile::TotalWeights() const {
  std::vector<Weights> total = SelfWeights();
  for (size_t node = total.size() - 1; node > kRoot; --node) AddTo(total[node], total[nodes_[node].parent]);
  return total;
}

Weights Profile::Sum() const {
  Weights sum = {};
  for (const ProfileSample& sample : samples_) AddTo(sample.weights, sum);
  return sum;
}

std::string FrameTitle(const Profile& profile, const ProfileFrame& frame, bool with_line) {
  const ProfileFunction& function = profile.functions()[frame.function];
  const std::string line = with_line && frame.line > 0 ? absl::StrCat(":", frame.line) : "";
  const bool names_file = function.kind == FrameKind::kPython || !line.empty();
  if (!names_file || function.file.empty()) return function.name;
  return absl::StrCat(function.name, " (", BaseName(function.file), line, ")");
}

std::string CallLabel(const Op& op) {
  // A tap has no function that the user knows: "onednn:exec".
  const bool is_tap = absl::StrContains(op.function, ':');
  std::string label = is_tap ? absl::StrCat(op.family, " ", KindLabel(op)) : op.function;
  if (is_tap && op.direction != Direction::kUnknown) absl::StrAppend(&label, " ", DirectionName(op.direction));
  if (!is_tap && (op.is_trial || op.captured)) absl::StrAppend(&label, " ", KindLabel(op));
  for (const std::string& word : {op.kernel_short, op.implementation, ProblemLabel(op)}) {
    const bool is_new = word != op.function;  // equal if nothing was decoded
    if (!word.empty() && is_new) absl::StrAppend(&label, " ", word);
  }
  return label;
}

}  // namespace dlhook::analyzer::profiles
