// Which pass the operations of XLA's programs are in.
#pragma once

#include "absl/container/flat_hash_set.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/steps/moments.h"

namespace dlhook::analyzer::inline steps {

// XLA runs the operations of a program in any order that the data allow, gradients' constants first. The backward pass
// begins where the least time of products contradicts that, of all operations if the forward pass has no product.
class XlaTurns {
 public:
  XlaTurns(const TraceModel& model, const Attribution& attribution, ProcessIndex process, const GraphReplays& replays);

  bool has_any() const { return !runs_.empty(); }

  // Of an operation, or a part of a graph, that by itself is of the moment's kind. The last update of a run ends the step;
  // those before it are a part of the backward pass, in which they are. Programs without products (metrics, random
  // numbers) are no passes, nor are products outside of jit: each would be one.
  MomentKind KindOf(const Moment& moment) const;

  // What the CUDA graph does that this operation launches; null: it launches none.
  const std::vector<ReplayedPart>* GraphOf(ScopeIndex scope) const;

 private:
  // An execution of a program.
  struct Run {
    // Start and duration of its products, or of all its operations if it has none forward; backward: less than 0.
    std::vector<std::pair<int64_t, int64_t>> passes;
    bool has_forward = false, has_gradients = false;
    int64_t first_ns = INT64_MAX;
    int64_t turn_ns = INT64_MIN;         // the backward pass begins
    int64_t last_update_ns = INT64_MIN;  // the last update begins
  };

  // Both passes in one program, the forward one without a product.
  static bool IsPlain(const Run& run) { return run.has_forward && run.has_gradients && run.turn_ns == INT64_MIN; }
  bool IsOurs(ScopeIndex scope, ProcessIndex process) const;
  void Note(ScopeIndex scope, MomentKind kind);
  void NotePlain(ScopeIndex scope, MomentKind kind);
  void NoteGraph(CallIndex call, ProcessIndex process, const std::vector<ReplayedPart>& parts);
  static void NotePass(const Moment& moment, Run* run);
  bool IsProduct(uint32_t op) const;
  bool IsNetwork(const std::string& program) const;
  static void FindTurn(Run& run);

  const TraceModel& model_;
  absl::flat_hash_map<int64_t, Run> runs_;
  absl::flat_hash_set<std::string> networks_;  // programs with products
  absl::flat_hash_map<ScopeIndex, const std::vector<ReplayedPart>*> graphs_;
};

}  // namespace dlhook::analyzer::steps
