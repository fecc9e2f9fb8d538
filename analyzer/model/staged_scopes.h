// Holds the scopes of a thread until all of them, and the clock's samples, have been read: 20 bytes each.
#ifndef DLHOOK_ANALYZER_MODEL_STAGED_SCOPES_H_
#define DLHOOK_ANALYZER_MODEL_STAGED_SCOPES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/model/staging.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline model {

// A scope as it was recorded.
struct RecordedScope {
  uint64_t end_ticks = 0;
  uint64_t duration_ticks = 0;
  uint64_t first_sequence = 0;
  int64_t link = -1;
  uint32_t call_count = 0;
  NameIndex name = 0;
  StackIndex python_stack = kNone;
  uint32_t kind = 0;  // at most kMaxKind
};

// Written from first to last, read from last to first. Its memory is given back while it is read.
class StagedScopes {
 public:
  static constexpr uint32_t kMaxKind = 15;

  void Add(const RecordedScope& scope);
  size_t size() const { return packed_.size(); }
  RecordedScope TakeLast();

  // By their ends.
  void Sort();

 private:
  // Differences from the scope before, where neighbours are alike. What does not fit is in `wide_`.
  struct Packed {
    uint32_t end_delta = 0;  // kIsWide: it is the last one in wide_
    uint32_t duration = 0;
    int32_t link = 0;
    int16_t sequence_delta = 0;
    uint16_t kind_and_calls = 0;
    uint16_t name = 0;
    uint16_t python_stack = 0;
  };
  static_assert(sizeof(Packed) == 20);
  static constexpr uint32_t kIsWide = UINT32_MAX;
  static constexpr int kKindBits = 4;

  struct Wide {
    RecordedScope scope;
    uint64_t end_before = 0;
    uint64_t sequence_before = 0;
  };

  bool Pack(const RecordedScope& scope, Packed* packed) const;

  StagingArray<Packed> packed_;
  std::vector<Wide> wide_;
  uint64_t last_end_ = 0;
  uint64_t last_sequence_ = 0;
};

}  // namespace dlhook::analyzer::model

#endif  // DLHOOK_ANALYZER_MODEL_STAGED_SCOPES_H_
