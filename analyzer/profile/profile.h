// The input of exporters by stack: what took time, as a tree of stacks with weights.
#pragma once

#include "analyzer/model/limits.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline profiles {

// kTime: of the host. Time of GPUs is never added to it: below a GPU nothing has time of the host.
enum class Weight : uint8_t { kTime, kCalls, kFlops, kBytes, kGpuTime };
constexpr size_t kWeights = 5;
using Weights = std::array<int64_t, kWeights>;  // by Weight; time in nanoseconds

inline void AddTo(const Weights& from, Weights& to) {
  for (size_t i = 0; i < kWeights; ++i) AddSaturated(from[i], &to[i]);
}

inline int64_t TimeIn(const Weights& weights) {
  return weights[static_cast<size_t>(Weight::kTime)] + weights[static_cast<size_t>(Weight::kGpuTime)];
}

enum class FrameKind : uint8_t { kProcess, kThread, kLayer, kPython, kNative, kScope, kCall, kGpu, kNote };

constexpr char kPythonObject[] = "[python]";  // ProfileFunction.object for all Python code

struct ProfileFunction {
  FrameKind kind = FrameKind::kNote;
  std::string name = {};       // as shown
  std::string object = {};     // file with the code, or a word in brackets: "[python]", "[blas]"; may be empty
  std::string file = {};       // source file; empty: not known
  std::string full_name = {};  // with templates and arguments; empty: same as `name`

  friend bool operator==(const ProfileFunction&, const ProfileFunction&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const ProfileFunction& f) {
    return H::combine(std::move(hash), f.kind, f.name, f.object, f.file, f.full_name);
  }
};
using FunctionIndex = uint32_t;

// A function at the line where it makes the next call.
struct ProfileFrame {
  FunctionIndex function = 0;
  uint32_t line = 0;          // 0: not known
  FrameIndex native = kNone;  // for kNative, if its address is known
  bool is_inlined = false;    // into the next outer frame

  friend bool operator==(const ProfileFrame&, const ProfileFrame&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const ProfileFrame& f) {
    return H::combine(std::move(hash), f.function, f.line, f.native, f.is_inlined);
  }
};
using ProfileFrameIndex = uint32_t;

// A stack, as a node of the tree of all stacks: its innermost frame, and the rest of the stack.
using NodeIndex = uint32_t;
constexpr NodeIndex kRoot = 0;  // the empty stack; has no frame
struct ProfileNode {
  NodeIndex parent = kRoot;  // less than the node's own index
  ProfileFrameIndex frame = 0;
  uint32_t depth = 0;  // number of frames
};

inline constexpr char kGpuKind[] = "gpu";
inline constexpr char kSampledKind[] = "sampled";  // time that is not seen, where samples tell whose code computed

// Labels of what took time; empty: not known. `kind`: "library", "framework", "waiting" …; kGpuKind: what a GPU did
struct ProfileLabels {
  std::string process = {}, thread = {}, layer = {}, direction = {}, phase = {}, op = {}, kind = {}, step = {};
};
using LabelsIndex = uint32_t;

struct ProfileSample {
  NodeIndex stack = kRoot;
  LabelsIndex labels = 0;
  Weights weights = {};
};

class Profile {
 public:
  explicit Profile(const TraceModel& model) : model_(model), nodes_(1) {}

  FunctionIndex Function(const ProfileFunction& function);
  ProfileFrameIndex Frame(const ProfileFrame& frame);
  NodeIndex Child(NodeIndex parent, ProfileFrameIndex frame);
  LabelsIndex AddLabels(ProfileLabels labels);
  void Add(NodeIndex stack, LabelsIndex labels, const Weights& weights);

  const TraceModel& model() const { return model_; }
  const std::vector<ProfileFunction>& functions() const { return functions_; }
  const std::vector<ProfileFrame>& frames() const { return frames_; }
  const std::vector<ProfileNode>& nodes() const { return nodes_; }  // parents before children; the first is the root
  const std::vector<ProfileLabels>& labels() const { return labels_; }
  const std::vector<ProfileSample>& samples() const { return samples_; }  // distinct by (stack, labels)

  const ProfileFrame& FrameOf(NodeIndex node) const { return frames_[nodes_[node].frame]; }
  FunctionIndex FunctionOf(NodeIndex node) const { return FrameOf(node).function; }
  std::vector<NodeIndex> PathTo(NodeIndex node) const;  // outermost first, without the root

  // By node: of calls with exactly this stack, and of all calls with this stack or a longer one.
  std::vector<Weights> SelfWeights() const;
  std::vector<Weights> TotalWeights() const;
  Weights Sum() const;

 private:
  const TraceModel& model_;
  std::vector<ProfileFunction> functions_;
  std::vector<ProfileFrame> frames_;
  std::vector<ProfileNode> nodes_;
  std::vector<ProfileLabels> labels_;
  std::vector<ProfileSample> samples_;
  Limit steps_{"frames in the stacks to be written", kMaxProfileSteps};  // exporters walk outwards from every node
  absl::flat_hash_map<ProfileFunction, FunctionIndex> function_index_;
  absl::flat_hash_map<ProfileFrame, ProfileFrameIndex> frame_index_;
  absl::flat_hash_map<std::pair<NodeIndex, ProfileFrameIndex>, NodeIndex> node_index_;
  absl::flat_hash_map<std::pair<NodeIndex, LabelsIndex>, uint32_t> sample_index_;
};

// "LeNet.forward (train_lenet.py)", with the line "LeNet.forward (train_lenet.py:31)"; for native functions and calls
// just the name.
std::string FrameTitle(const Profile& profile, const ProfileFrame& frame, bool with_line);

// "sgemm_ m64 n64 k128 NT f32", "onednn convolution forward jit:avx2 mb64_ic3oc6_…", "cudaLaunchKernel
// ampere_sgemm_128x64_nn".
std::string CallLabel(const Op& op);

inline bool HasGpuTime(const Profile& profile) { return profile.Sum()[static_cast<size_t>(Weight::kGpuTime)] > 0; }

}  // namespace dlhook::analyzer::profiles
