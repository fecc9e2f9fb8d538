// What only some calls have: addresses of operands (-> TraceModel::operands), native stacks, and a status, Python stack or native
// stack of their own.
#pragma once

#include "analyzer/model/oddities.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/reader/python_builder.h"
#include "proto/call.pb.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline reader {

// Values that only some calls of a thread have (a status, operands, a Python stack), looked up by sequence number.
// These are added and looked up almost in order, so a sorted array with a cursor is faster and smaller than a hash
// table.
template <typename Value>
class BySequence {
 public:
  // If a number has several values, the first counts.
  void Add(uint64_t sequence, Value value) {
    is_sorted_ = is_sorted_ && (entries_.empty() || entries_.back().first <= sequence);
    entries_.emplace_back(sequence, value);
  }
  bool empty() const { return entries_.empty(); }

  // After the last Add, before the first Find.
  void Sort() {
    if (is_sorted_) return;
    absl::c_stable_sort(entries_, IsBefore);
    is_sorted_ = true;
  }

  // Null: none.
  const Value* Find(uint64_t sequence) {
    const bool is_after_last = next_ == 0 || entries_[next_ - 1].first < sequence;
    const bool is_before_next = next_ == entries_.size() || sequence <= entries_[next_].first;
    if (!is_after_last || !is_before_next) {
      const std::pair<uint64_t, Value> key(sequence, Value());
      next_ = static_cast<size_t>(absl::c_lower_bound(entries_, key, IsBefore) - entries_.begin());
    }
    if (next_ == entries_.size() || entries_[next_].first != sequence) return nullptr;
    return &entries_[next_++].second;
  }

 private:
  static bool IsBefore(const std::pair<uint64_t, Value>& a, const std::pair<uint64_t, Value>& b) {
    return a.first < b.first;
  }

  std::vector<std::pair<uint64_t, Value>> entries_;
  bool is_sorted_ = true;
  size_t next_ = 0;  // the entry after the one found last
};

// For one thread. Of CPU products only the first few calls are kept: later training steps repeat which call reads what
// another one wrote.
struct ThreadOperands {
  static constexpr uint32_t kMaxHostCalls = 1 << 18;

  BySequence<uint64_t> places;   // in `values`
  std::vector<uint64_t> values;  // each list preceded by its length
  uint32_t host_calls = 0;
};

class OperandBuilder {
 public:
  explicit OperandBuilder(Oddities* oddities) : oddities_(oddities) {}

  void Define(const trace::OpDefinition& definition);
  void AddAddresses(const trace::Interned& interned);
  void Reset();

  // 0: not defined since the last Reset.
  uint64_t AddressOf(uint32_t iid) const { return iid < addresses_.size() ? addresses_[iid] : 0; }

  // `sequences`: of the batch's calls.
  void Add(const trace::CallBatch& batch, absl::Span<const uint64_t> sequences, ThreadOperands* operands) const {
    if (keeps_any_) AddKept(batch, sequences, operands);
  }

  // Appends the operands of the calls from `first_call` on, which belong to this thread.
  static void Append(ThreadOperands* operands, size_t first_call, TraceModel* model);

 private:
  enum class Keep : uint8_t { kNo, kAll, kFirst };
  struct Rule {
    uint32_t count = 0;  // addresses that each call carries
    Keep keep = Keep::kNo;
  };
  static Keep KeepOf(const trace::OpDefinition& definition);
  void AddKept(const trace::CallBatch& batch, absl::Span<const uint64_t> sequences, ThreadOperands* operands) const;
  bool TakesIn(Keep keep, ThreadOperands* operands) const;

  Oddities* oddities_;
  std::vector<Rule> rules_;          // by op iid
  bool keeps_any_ = false;           // for any op since the last Reset
  std::vector<uint64_t> addresses_;  // by iid; 0: none
};

// Native stacks of one process trace: their ids between Resets, and the frames that are distinct over the process.
class NativeStackBuilder {
 public:
  NativeStackBuilder(TraceModel* model, Oddities* oddities)
      : model_(model), oddities_(oddities), process_(static_cast<ProcessIndex>(model->processes.size())) {}

  // `addresses` already has those of `interned`.
  void AddDefinitions(const trace::Interned& interned, const OperandBuilder& addresses);
  void Reset() { frame_by_iid_.clear(); }

  // A frame at this interrupted instruction; `outer_iid`: the stack outside of it, 0: none, and `cut` says why.
  FrameIndex Interrupted(uint64_t address, uint32_t outer_iid, StackCut cut) {
    const FrameIndex outer = FindStack(outer_iid);
    return Intern(address, outer, outer == kNone ? cut : StackCut::kWhole);
  }

  // The innermost frame of the stack with this id since the last Reset. An id that the trace does not define is an
  // oddity.
  FrameIndex FindStack(uint32_t iid) {
    return iid == 0                                                    ? kNone
           : iid < frame_by_iid_.size() && frame_by_iid_[iid] != kNone ? frame_by_iid_[iid]
                                                                       : Unknown();
  }

 private:
  void Add(const trace::InternedStack& stack, uint64_t address);
  FrameIndex Intern(uint64_t address, FrameIndex parent, StackCut cut);
  FrameIndex Unknown();

  TraceModel* model_;
  Oddities* oddities_;
  ProcessIndex process_;
  std::vector<FrameIndex> frame_by_iid_;
  absl::flat_hash_map<std::tuple<uint64_t, FrameIndex, int>, FrameIndex> frames_;  // by address, parent and cut
};

// Attributes that only some calls of a thread have: a status other than success, their own Python stack, a native
// stack.
class CallAttributes {
 public:
  // `sequences`: of the batch's calls. Stacks are looked up immediately, because the next Reset invalidates their ids.
  void Add(const trace::CallBatch& batch, absl::Span<const uint64_t> sequences, PythonBuilder* python,
           NativeStackBuilder* native, Oddities* oddities);

  // Appends those of the calls from `first_call` on, which belong to this thread and have their scopes.
  void Append(size_t first_call, TraceModel* model);

 private:
  void AddStatuses(const trace::CallBatch& batch, absl::Span<const uint64_t> sequences, Oddities* oddities);
  void AppendNativeStacks(size_t first_call, CallColumns* calls);

  BySequence<int32_t> statuses_;
  BySequence<StackIndex> python_stacks_;
  BySequence<FrameIndex> native_stacks_;
};

}  // namespace dlhook::analyzer::reader
