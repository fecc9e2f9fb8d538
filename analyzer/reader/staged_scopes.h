// Holds the scopes of a thread until all of them, and the clock's samples, have been read: 13 bytes each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/model/recurring_keys.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/reader/staging.h"

namespace dlhook::analyzer::inline reader {

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
  uint32_t look = 0;  // of one that was taken back: a number for name, stack and kind
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
  // Words instead of bit fields: reading a part of what was just stored would wait for the store.
  struct [[gnu::packed]] Packed {
    uint64_t end_duration_link = 0;  // 24 bits (kIsWide: it is the last one in wide_), 24, 16: kNoLink, or a difference
    uint32_t look_and_calls = 0;     // 24 bits, in looks_, 8
    int8_t sequence_delta = 0;
  };
  static_assert(sizeof(Packed) == 13);
  static constexpr uint64_t kIsWide = (uint64_t{1} << 24) - 1;
  static constexpr int64_t kNoLink = INT16_MIN;

  // What differences are from.
  struct Last {
    uint64_t end = 0;
    uint64_t sequence = 0;
    int64_t link = 0;
  };
  struct Wide {
    RecordedScope scope;
    Last before;
  };

  bool Pack(const RecordedScope& scope, Packed* packed);

  StagingArray<Packed> packed_;
  std::vector<Wide> wide_;
  RecurringKeys<ScopeLook> looks_;
  Last last_;
};

}  // namespace dlhook::analyzer::reader
