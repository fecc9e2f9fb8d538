// See staged_scopes.h.
#include "analyzer/model/staged_scopes.h"

#include <algorithm>

namespace dlhook::analyzer::inline model {
namespace {

constexpr uint16_t kNoStack = UINT16_MAX;

}  // namespace

void StagedScopes::Add(const RecordedScope& scope) {
  Packed* const packed = packed_.Reserve(1);
  if (!Pack(scope, packed)) {
    packed->end_delta = kIsWide;
    wide_.push_back({scope, last_end_, last_sequence_});
  }
  packed_.Commit(1);
  last_end_ = scope.end_ticks;
  last_sequence_ = scope.first_sequence;
}

// False: it does not fit.
bool StagedScopes::Pack(const RecordedScope& scope, Packed* packed) const {
  const uint64_t end_delta = scope.end_ticks - last_end_;
  const auto sequence_delta = static_cast<int64_t>(scope.first_sequence - last_sequence_);
  packed->end_delta = static_cast<uint32_t>(end_delta);
  packed->duration = static_cast<uint32_t>(scope.duration_ticks);
  packed->link = static_cast<int32_t>(scope.link);
  packed->sequence_delta = static_cast<int16_t>(sequence_delta);
  packed->kind_and_calls = static_cast<uint16_t>(scope.call_count << kKindBits | scope.kind);
  packed->name = static_cast<uint16_t>(scope.name);
  packed->python_stack = scope.python_stack == kNone ? kNoStack : static_cast<uint16_t>(scope.python_stack);
  return end_delta < kIsWide && scope.duration_ticks == packed->duration && scope.link == packed->link &&
         sequence_delta == packed->sequence_delta && scope.call_count == packed->kind_and_calls >> kKindBits &&
         scope.name == packed->name && (scope.python_stack == kNone || scope.python_stack < kNoStack);
}

RecordedScope StagedScopes::TakeLast() {
  const Packed packed = packed_.TakeLast();
  RecordedScope scope;
  if (packed.end_delta == kIsWide) {
    scope = wide_.back().scope;
    last_end_ = wide_.back().end_before;
    last_sequence_ = wide_.back().sequence_before;
    wide_.pop_back();
    return scope;
  }
  scope.end_ticks = last_end_;
  scope.duration_ticks = packed.duration;
  scope.first_sequence = last_sequence_;
  scope.link = packed.link;
  scope.call_count = packed.kind_and_calls >> kKindBits;
  scope.name = packed.name;
  scope.python_stack = packed.python_stack == kNoStack ? kNone : packed.python_stack;
  scope.kind = packed.kind_and_calls & kMaxKind;
  last_end_ -= packed.end_delta;
  last_sequence_ -= static_cast<uint64_t>(int64_t{packed.sequence_delta});
  return scope;
}

void StagedScopes::Sort() {
  std::vector<RecordedScope> scopes(size());
  for (size_t i = scopes.size(); i-- > 0;) scopes[i] = TakeLast();
  std::stable_sort(scopes.begin(), scopes.end(),
                   [](const RecordedScope& a, const RecordedScope& b) { return a.end_ticks < b.end_ticks; });
  for (const RecordedScope& scope : scopes) Add(scope);
}

}  // namespace dlhook::analyzer::model
