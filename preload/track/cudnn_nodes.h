// What is known of the graph API's descriptors: nodes that reference each other, in the shim's own memory.
// Thread: any application thread, under NodeLock.
#pragma once

#include "preload/base/buffer.h"
#include "preload/base/spin_lock.h"

namespace dlhook::inline track {

// cuDNN's numbers of attributes in the backend API: cudnnBackendAttributeType_t and cudnnBackendAttributeName_t of
// cuDNN 8 and 9 (cudnn_graph.h).

enum {
  kTypeBoolean = 2,
  kTypeInt64 = 3,
  kTypeKnob = 9,
  kTypeNumericalNote = 11,
  kTypeDescriptor = 15,
  kTypeBehaviorNote = 19
};
enum {
  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kConfigurationEngine = 300,
  kConfigurationKnobs = 302,
  kPlanConfiguration = 401,
  kPlanWorkspace = 402,
  kPlanJson = 405,
  kKnobType = 600,
  kKnobValue = 601,
  kEngineGraph = 1300,
  kEngineIndex = 1301,
  kEngineNumericalNote = 1303,
  kEngineBehaviorNote = 1305
};

// cudnnBackendDescriptorType_t, as far as it is distinguished; those of operations are CudnnOperation.
enum BackendType : int32_t {
  kBackendConvolution = 1,
  kBackendEngine = 2,
  kBackendEngineConfig = 3,
  kBackendPlan = 5,
  kBackendKnobChoice = 7,
  kBackendVariantPack = 16,
  kBackendTensor = 17
};

constexpr int kBackendDims = 8;

struct BackendNode;

struct BackendChild {
  int32_t attribute;
  BackendNode* node;
};

// One descriptor as it was last set. Which members are valid depends on its type.
struct BackendNode {
  int32_t type;
  uint32_t references;  // its descriptor, if it still exists, and nodes that have it as a child
  // Tensors; pad, post_pad, stride and dilation of convolutions (and pad, stride, window of resampling).
  int64_t numbers[4][kBackendDims];
  uint8_t counts[4];
  int64_t uid;
  int32_t data_type;  // or compute type; -1 not set
  int32_t mode;       // of convolution, pointwise, reduction, norm …; -1 not set
  uint32_t vector_count;
  uint32_t vectorized_dim;
  bool is_virtual;
  bool by_value;
  // Engine heuristics and the configurations they returned.
  int32_t heuristic_mode;  // -1: no heuristics
  int32_t heuristic_rank;
  uint32_t heuristic_requested;
  uint32_t heuristic_results;
  // Plans: when their configuration was set, and once finalized their description: a serialized trace::Cudnn.
  uint64_t configured_ticks;
  uint32_t definition;
  bool finalized;  // false: `serialized` is the JSON that the plan is to be built from
  char* serialized;
  uint32_t serialized_bytes;
  uint32_t serialized_capacity;  // as allocated
  int64_t main_uids[3];
  uint32_t main_uid_count;
  BackendChild* children;
  uint32_t child_count;
  uint32_t child_capacity;
};

class NodeTable {
 public:
  // False if out of memory.
  bool Insert(const void* descriptor, int32_t type);
  BackendNode* Find(const void* descriptor);
  void Remove(const void* descriptor);

  // Sets (replaces) the children under `attribute`.
  void SetChildren(BackendNode* parent, int32_t attribute, const void* const* descriptors, int64_t count);
  void Adopt(BackendNode* parent, int32_t attribute, BackendNode* child);
  void DropChildren(BackendNode* parent, int32_t attribute);  // kAllAttributes: all
  static constexpr int32_t kAllAttributes = -1;

  // Null if out of memory. Free needs the allocated size.
  char* Allocate(size_t bytes);
  void Free(char* memory, size_t bytes);

  uint32_t NextPlanNumber() { return ++plans_; }
  // Plans that could not be finalized, by their operation graph's contents: after a failure frontends build the same
  // graph again.
  void CountFailure(const BackendNode& graph);
  uint32_t FailuresOf(const BackendNode& graph) const;
  Buffer* scratch() { return &scratch_; }

 private:
  struct Entry {
    const void* descriptor;
    BackendNode* node;
  };
  void Unreference(BackendNode* node);
  void FreeChildren(BackendNode* parent);
  bool Grow();

  Entry* entries_ = nullptr;
  uint64_t capacity_ = 0;
  uint64_t count_ = 0;                     // including tombstones
  static constexpr int kSizeClasses = 18;  // 512 bytes to 64 MiB
  void* free_[kSizeClasses] = {};
  char* pages_ = nullptr;
  size_t pages_left_ = 0;
  static constexpr uint32_t kFailures = 64;  // the last ones
  struct Failures {
    uint64_t graph;  // hash of its contents
    uint32_t count;
  };
  Failures failures_[kFailures] = {};
  uint32_t next_failure_ = 0;
  uint32_t plans_ = 0;
  Buffer scratch_;
};

template <typename Function>
void ForEachChild(const BackendNode& node, Function function) {
  for (uint32_t i = 0; i < node.child_count; ++i) function(node.children[i].attribute, *node.children[i].node);
}

inline BackendNode* ChildOf(const BackendNode& node, int32_t attribute) {
  BackendNode* found = nullptr;
  ForEachChild(node, [&](int32_t of, BackendNode& child) {
    if (of == attribute && found == nullptr) found = &child;
  });
  return found;
}

// Appends a serialized trace::Cudnn: what the plan's operation graph says. Also records the uids of its main node's
// tensors.
struct PlanFacts {
  int64_t engine = -1;
  int64_t knob_types[64];
  int64_t knob_values[64];
  uint32_t knobs = 0;
  int32_t numerical_notes[32];
  uint32_t numerical_note_count = 0;
  int32_t behavior_notes[32];
  uint32_t behavior_note_count = 0;
  int64_t workspace_bytes = 0;
  uint64_t build_ticks = 0;
  uint32_t number = 0;
  uint32_t failed_before = 0;
  const char* json = nullptr;  // of a plan built from it
  size_t json_bytes = 0;
};
// The operation graph of a configuration: from the heuristics that returned it, or from its engine. Null if not known.
BackendNode* GraphOfConfiguration(const BackendNode* configuration);
void SerializePlan(BackendNode* plan, const PlanFacts& facts, Buffer* out);

// cuDNN's own description of a finalized plan: engine, knobs, notes, workspace.
// Thread: any application thread, while a plan is built; creates and destroys descriptors of the library. Holds no
// lock.

// `real`: a function of the plan's library. Facts that it does not report stay as they were.
void AskPlan(const void* real, const void* plan, PlanFacts* facts);

}  // namespace dlhook::inline track
