#include "preload/unwind/rule_cache.h"

#include <string.h>

#include "preload/unwind/unwind_tables.h"

namespace dlhook::inline unwind {
namespace {

bool IsOwn(const CodeObject& object) {
  static uint64_t own_start = 0;
  if (own_start == 0) {
    CodeObject own;
    own_start = FindCodeObject(reinterpret_cast<uint64_t>(&IsOwn), &own) ? own.start : 1;
  }
  return object.map != nullptr && object.start == own_start;
}

}  // namespace

void RuleCache::Clear() { memset(static_cast<void*>(entries_), 0, sizeof entries_); }

CachedRule* RuleCache::Fill(CachedRule* set, uint64_t address, bool is_interrupted, bool may_lock) {
  CodeObject object;
  FoundRule found = FindRule(address, is_interrupted, may_lock, &object);
  bool is_own = IsOwn(object);
  if (object.map != nullptr && found.is_code && (!is_own || is_interrupted)) NoteCodeObject(object);
  const CachedRule rule =
      CachedRule::Of(found.rule, (found.is_guess ? CachedRule::kGuessBit : 0) |
                                     (found.is_code ? 0 : CachedRule::kNoCodeBit) | (is_own ? CachedRule::kOwnBit : 0));
  uint64_t pc = is_interrupted ? address : address - 1;
  if (!may_lock && object.map == nullptr) {  // libgcc may have a rule, once it may be asked
    unkept_ = rule;
    return &unkept_;
  }
  // A signal handler that leaves by longjmp must not leave half an entry behind.
  CachedRule* entry = &set[0];
  set[1].key = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  set[1] = set[0];
  entry->key = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  entry->cfa_offset = rule.cfa_offset;
  entry->bp_offset = rule.bp_offset;
  entry->return_offset = rule.return_offset;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  entry->key = pc << 16 | rule.key;
  return entry;
}

}  // namespace dlhook::inline unwind
