// Calls and scopes that have not ended: what a process is in that hangs.
// Thread: that of a reader, on a copy of the mapping. Trusts nothing in it.

#include "preload/drain/drain.h"
#include "preload/format/hook_table.h"
#include "preload/format/open_scopes.h"

namespace dlhook::inline drain {
namespace {

// A call that has not returned has not told its number: a later one than all that have, in the scopes around it.
constexpr uint32_t kMostCallsInside = uint32_t{1} << 31;

}  // namespace

void Drain::TakeOpen() {
  Step(true, true);
  TakeWaiting(UINT64_MAX);
  uint64_t now = NowTicks(*session_);
  uint32_t slots = session_->slots_in_use.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < slots && i < kMaxSlots; ++i) {
    const Slot& slot = session_->slots[i];
    if (slot.owned.load(std::memory_order_relaxed) == 0 || slot.thread_id.load() != state_.thread_ids[i]) continue;
    TakeOpenCall(i, TakeOpenScopes(i, now), now);
    for (const AsynchronousRange& range : session_->asynchronous_ranges) {
      if (range.owner.load(std::memory_order_relaxed) == nullptr || range.thread_id != state_.thread_ids[i]) continue;
      OpenScopeEntry scope = {};
      scope.start_ticks = range.start_ticks;
      scope.link = range.bytes;
      scope.python_stack = range.python_stack;
      scope.name_bytes = static_cast<uint16_t>(strnlen(range.name, sizeof range.name));
      scope.kind = ScopeKind::kUserRange;
      TakeOpenScope(i, scope, range.name, now);
    }
  }
  FlushBatch();
  Publish(false);
}

void Drain::TakeOpenCall(uint32_t index, uint64_t first_sequence, uint64_t now) {
  uint64_t word = session_->slots[index].open_call.load(std::memory_order_relaxed);
  if (word == 0 || HookOfOpenCall(word) >= kHookCount) return;
  CallRecord record = {};
  record.header = {sizeof record / 8, RecordType::kCall, 0, HookOfOpenCall(word), 0, 0};
  record.start_ticks = StartOfOpenCall(word, now);
  record.end_ticks = now;
  record.sequence = first_sequence + kMostCallsInside / 2;
  Take(index, &record);
}

uint64_t Drain::TakeOpenScopes(uint32_t index, uint64_t now) {
  uint64_t first_sequence = 1;
  if (mapping_bytes_ < OpenScopesOffset(index) + sizeof(OpenScopes)) return first_sequence;
  auto open = reinterpret_cast<const OpenScopes*>(reinterpret_cast<const char*>(session_) + OpenScopesOffset(index));
  uint32_t count = session_->slots[index].open_scopes.load(std::memory_order_relaxed);
  for (uint32_t i = count < kMaxOpenScopes ? count : kMaxOpenScopes; i-- > 0;) {  // as they would end
    const OpenScopeEntry& scope = open->entries[i];
    if (uint32_t{scope.name_offset} + scope.name_bytes > kScopeNamesBytes) continue;
    if (first_sequence == 1) first_sequence = scope.first_sequence;
    TakeOpenScope(index, scope, open->names + scope.name_offset, now);
  }
  return first_sequence;
}

void Drain::TakeOpenScope(uint32_t index, const OpenScopeEntry& scope, const char* name, uint64_t now) {
  struct {
    ScopeRecord record;
    char name[kMaxScopeNameBytes];
  } copy = {};
  size_t bytes = scope.name_bytes < kMaxScopeNameBytes ? scope.name_bytes : kMaxScopeNameBytes;
  if (scope.start_ticks > now) return;
  copy.record.header.words = sizeof copy / 8;
  copy.record.start_ticks = scope.start_ticks;
  copy.record.end_ticks = now;
  copy.record.first_sequence = scope.first_sequence;
  copy.record.link = scope.link;
  copy.record.call_count = scope.first_sequence == 0 ? 0 : kMostCallsInside;  // all that have begun since
  copy.record.python_stack = scope.python_stack;
  copy.record.name_bytes = static_cast<uint16_t>(bytes);
  copy.record.kind = scope.kind;
  memcpy(copy.name, name, bytes);
  Take(index, &copy.record);
}

}  // namespace dlhook::inline drain
