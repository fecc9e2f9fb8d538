// Operand addresses of one process trace -> TraceModel::operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/model/oddities.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/reader/by_sequence.h"
#include "proto/trace.pb.h"

namespace dlhook::analyzer::inline reader {

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

  // For the first `count` calls of a batch.
  void Add(const trace::CallBatch& batch, size_t count, ThreadOperands* operands) const {
    if (keeps_any_) AddKept(batch, count, operands);
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
  void AddKept(const trace::CallBatch& batch, size_t count, ThreadOperands* operands) const;
  bool TakesIn(Keep keep, ThreadOperands* operands) const;

  Oddities* oddities_;
  std::vector<Rule> rules_;          // by op iid
  bool keeps_any_ = false;           // for any op since the last Reset
  std::vector<uint64_t> addresses_;  // by iid; 0: none
};

}  // namespace dlhook::analyzer::reader
