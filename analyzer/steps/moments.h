// The activities of a process over time, as far as its scopes and calls show them: the basis of steps and phases.
#ifndef DLHOOK_ANALYZER_STEPS_MOMENTS_H_
#define DLHOOK_ANALYZER_STEPS_MOMENTS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline steps {

enum class MomentKind : uint8_t {
  kOther,    // no evidence for steps: loss.item(), a metric, preparing an input
  kInput,    // the program asks its input pipeline for a batch
  kForward,  // an op of a network
  kBackward,
  kUpdate,
  kZeroGrad  // or what an optimizer does between the gradients that it computes itself
};

// An outermost scope with a meaning, or a call outside such scopes.
struct Moment {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  MomentKind kind = MomentKind::kOther;
  bool is_graph_node = false;  // TensorFlow: its threads work on one step together
  bool is_scope = false;
  ThreadIndex thread = 0;
  uint32_t index = 0;        // ScopeIndex or CallIndex
  LayerIndex layer = kNone;  // for kForward
  uint32_t rank = 0;  // for kForward: ascending in the order of the first forward pass, equal for the same layer (or
                      // op)
  uint32_t name = 0;  // for scopes; 0 for calls
  int64_t link = -1;  // for kForward: the sequence number of its backward node, if any
};

struct ProcessMoments {
  std::vector<Moment> moments;                 // ascending by start
  absl::flat_hash_set<int64_t> trained_links;  // sequence numbers of backward nodes that ran
  std::vector<std::pair<int64_t, int64_t>>
      windows;                 // in which a light tap recorded scopes, ascending; empty if it is not light
  bool has_op_scopes = false;  // of framework ops
  bool has_updates = false;
  bool has_backward_scopes = false;
  bool has_forward_scopes = false;
};

// Names that the taps give to scopes that are not ops.
bool IsInputName(const std::string& name);
bool IsOptimizerStep(const std::string& name);
bool IsZeroGrad(const std::string& name);

ProcessMoments CollectMoments(const TraceModel& model, const Attribution& attribution, ProcessIndex process);

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_MOMENTS_H_
