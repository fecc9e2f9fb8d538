#include "analyzer/reader/staging.h"

namespace dlhook::analyzer::inline reader {

void StagedScopes::Add(const RecordedScope& scope) {
  Packed* const packed = packed_.Reserve(1);
  if (!Pack(scope, packed)) {
    packed->end_duration_link = kIsWide;
    wide_.push_back({scope, last_});
  }
  packed_.Commit(1);
  last_.end = scope.end_ticks;
  last_.sequence = scope.first_sequence;
  if (scope.link != -1) last_.link = scope.link;
}

// False: it does not fit.
bool StagedScopes::Pack(const RecordedScope& scope, Packed* packed) {
  const uint64_t end_delta = scope.end_ticks - last_.end;
  const auto sequence_delta = static_cast<int64_t>(scope.first_sequence - last_.sequence);
  const int64_t link =
      scope.link == -1 ? kNoLink
                       : static_cast<int64_t>(static_cast<uint64_t>(scope.link) - static_cast<uint64_t>(last_.link));
  const uint32_t look = looks_.IndexOf({scope.name, static_cast<ScopeKind>(scope.kind), scope.python_stack});
  packed->end_duration_link = end_delta | scope.duration_ticks << 24 | static_cast<uint64_t>(link) << 48;
  packed->look_and_calls = look | scope.call_count << 24;
  packed->sequence_delta = static_cast<int8_t>(sequence_delta);
  return end_delta < kIsWide && scope.duration_ticks <= kIsWide && link == static_cast<int16_t>(link) &&
         (link != kNoLink || scope.link == -1) && look <= kIsWide && scope.call_count <= UINT8_MAX &&
         sequence_delta == packed->sequence_delta;
}

RecordedScope StagedScopes::TakeLast() {
  const Packed packed = packed_.TakeLast();
  RecordedScope scope;
  const uint64_t end_delta = packed.end_duration_link & kIsWide;
  if (end_delta == kIsWide) {
    scope = wide_.back().scope;
    scope.look = looks_.IndexOf({scope.name, static_cast<ScopeKind>(scope.kind), scope.python_stack});
    last_ = wide_.back().before;
    wide_.pop_back();
    return scope;
  }
  const ScopeLook& look = looks_[packed.look_and_calls & kIsWide];
  const int64_t link = static_cast<int64_t>(packed.end_duration_link) >> 48;
  scope.end_ticks = last_.end;
  scope.duration_ticks = packed.end_duration_link >> 24 & kIsWide;
  scope.first_sequence = last_.sequence;
  scope.link = link == kNoLink ? -1 : last_.link;
  scope.call_count = packed.look_and_calls >> 24;
  scope.name = look.name;
  scope.python_stack = look.stack;
  scope.kind = static_cast<uint32_t>(look.kind);
  scope.look = packed.look_and_calls & kIsWide;
  last_.end -= end_delta;
  last_.sequence -= static_cast<uint64_t>(int64_t{packed.sequence_delta});
  if (link != kNoLink)
    last_.link = static_cast<int64_t>(static_cast<uint64_t>(last_.link) - static_cast<uint64_t>(link));
  return scope;
}

void StagedScopes::Sort() {
  std::vector<RecordedScope> scopes(size());
  for (size_t i = scopes.size(); i-- > 0;) scopes[i] = TakeLast();
  absl::c_stable_sort(scopes, [](const RecordedScope& a, const RecordedScope& b) { return a.end_ticks < b.end_ticks; });
  for (const RecordedScope& scope : scopes) Add(scope);
}

}  // namespace dlhook::analyzer::reader
