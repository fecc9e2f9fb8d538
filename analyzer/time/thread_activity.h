// The activity of one thread over time, from its calls and scopes: the rules are in time_division.h.
#pragma once

#include <atomic>

#include "analyzer/time/time_division.h"

namespace dlhook::analyzer::inline time {

struct Activity {
  ActivityKind kind = ActivityKind::kUnattributed;
  uint32_t index = kNone;  // as TimePiece.index; identifies the activity together with kind and gap
  bool is_work = false;
  UnseenGap gap = {};
  friend bool operator==(const Activity& a, const Activity& b) {
    return a.kind == b.kind && a.index == b.index && a.is_work == b.is_work && a.gap == b.gap;
  }
};

// Properties of calls and scopes, looked up once per model.
class ActivityRules {
 public:
  explicit ActivityRules(const TraceModel& model);

  bool Waits(CallIndex call) const { return waits_[model_.calls.op[call]]; }
  bool IsInput(ScopeIndex scope) const { return LookOf(scope).is_input; }
  bool NamesInput(NameIndex name) const {
    return model_.roles[name] == ScopeRole::kInput || model_.roles[name] == ScopeRole::kInputPipeline;
  }
  bool IsBracket(ScopeIndex scope) const { return LookOf(scope).is_bracket; }
  bool IsAutograd(ScopeIndex scope) const { return LookOf(scope).is_autograd; }
  bool IsWork(ScopeIndex scope) const { return LookOf(scope).is_work; }
  // The Python stack at the scope's ends; kNone: not known.
  StackIndex StackAt(ScopeIndex scope) const { return LookOf(scope).stack; }
  // Inside an op, without a Python stack and without gaps: it changes nothing about gaps and stacks.
  bool IsInner(ScopeIndex scope) const {
    const ScopeIndex parent = model_.scopes.parent[scope];
    return LookOf(scope).may_be_inner && parent != kNone && !LookOf(parent).is_bracket;
  }
  // Whether scopes of ops were recorded throughout this time, so that a gap is not something a light tap omitted.
  bool AreScopesWhole(ProcessIndex process, int64_t start_ns, int64_t end_ns) const;

 private:
  struct Look {
    StackIndex stack = kNone;
    bool is_input = false, is_bracket = false, is_autograd = false, is_work = false, may_be_inner = false;
  };

  const Look& LookOf(ScopeIndex scope) const { return looks_[model_.scopes.look.IndexAt(scope)]; }

  const TraceModel& model_;
  std::vector<bool> waits_;                      // by op
  std::vector<Look> looks_;                      // by index of the scopes' looks
  mutable std::atomic<size_t> last_window_ = 0;  // that AreScopesWhole found: mostly the next one's, too
};

// Steps through the times at which a thread's calls and scopes begin and end.
class ThreadActivity {
 public:
  // `for_gaps`: steps over scopes that only change in what op a thread is.
  ThreadActivity(const TraceModel& model, const ActivityRules& rules, ThreadIndex thread, bool for_gaps = false);

  ThreadIndex thread() const { return thread_; }
  const Activity& now() const { return activities_[turn_]; }  // stays until the next but one Step
  int64_t next_time_ns() const { return next().time_ns; }     // INT64_MAX: no more
  void Step();
  // As if it had stepped until the next edge is after this time, which is within the run. Not for gaps.
  void SkipTo(int64_t time_ns);

  // At the same time, the earlier kind comes first.
  enum class EdgeKind : uint8_t { kCallEnd, kScopeEnd, kScopeStart, kCallStart, kNone };
  // The start or end of a call or scope.
  struct Edge {
    EdgeKind kind = EdgeKind::kNone;
    uint32_t index = kNone;
    int64_t time_ns = INT64_MAX;
    bool IsOfCall() const { return kind == EdgeKind::kCallStart || kind == EdgeKind::kCallEnd; }
  };
  // Between these it is what it is now. Valid as long as now().
  const Edge& last() const { return edges_[turn_ ^ 1]; }
  const Edge& next() const { return edges_[turn_]; }
  StackIndex StackOf(const Edge& edge) const;  // kNone: not known

 private:
  struct Range {
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  struct Open {
    uint32_t index = 0;
    int64_t end_ns = 0;
    ScopeIndex input = kNone;  // for scopes: the innermost input scope around it or itself
  };

  void Turn();
  template <typename Columns>
  Edge Reopen(const Columns& columns, Range& left, EdgeKind start, EdgeKind end, int64_t time_ns);
  void FindNext(Edge& next) const;
  void Take(const Edge& edge);
  void SetCandidate(EdgeKind kind, uint32_t index, int64_t time_ns);
  void FindNextStart(EdgeKind kind);
  void FindNextEnd(EdgeKind kind);
  void FindCurrent(Activity& now) const;
  void FindGap(Activity& now) const;
  bool IsAutograd(const Edge& edge) const;
  int64_t Clamped(int64_t time_ns) const;

  const TraceModel& model_;
  const ActivityRules& rules_;
  const ThreadIndex thread_;
  const bool for_gaps_;
  Range calls_;  // not yet started
  Range scopes_;
  std::vector<Open> open_calls_;
  std::vector<Open> open_scopes_;
  std::array<Edge, 4> candidates_;  // the next edge of each kind; a step changes two at most
  // Of this step and the one before, in turn. They are filled field by field where they stay: a copy right after that
  // would wait for all its fields.
  std::array<Edge, 2> edges_;
  std::array<Activity, 2> activities_;
  uint8_t turn_ = 0;
};

// What threads do, in words.

// "ConvolutionBackward0" for autograd's scope, "_MklNativeFusedConv2D" for a graph node, "relu" for aten::relu.
std::string ScopeLabel(const TraceModel& model, ScopeIndex scope);

// The row that makes wall shares add up to the whole.
inline constexpr char kUnattributed[] = "[unattributed]";

// Whether what passes in the scope, and in none inside it, is time of the program's own code: a user's range computes nothing.
bool IsOwnCode(const TraceModel& model, ScopeIndex scope);

// "library", "framework", "not seen" …
const char* ActivityName(ActivityKind kind);

// What scopes look like: a run has tens of millions of them, but a step some hundred that recur in each.
using PathIndex = uint32_t;
constexpr PathIndex kNoScopes = kNone;

// A scope's look, and that of the scopes around it.
struct ScopePath {
  PathIndex parent = kNoScopes;
  ScopeLook look = {};
  friend bool operator==(const ScopePath&, const ScopePath&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const ScopePath& path) {
    return H::combine(std::move(hash), path.parent, path.look);
  }
};

}  // namespace dlhook::analyzer::time
