// The code of a generated wrapper around the real function. All of dlhook's steady-state cost is in this file.
// Thread: any application thread. Never allocates, locks or makes a system call, except in the outlined slow paths
// (first call of a thread, first call of a hook from a call site: see preload/README.md).
//
//   CallFrame frame;
//   auto real = reinterpret_cast<Fn*>(
//       BeginCall(kHook, kFamilyBit, __builtin_return_address(0), LookedUpFunction(), &frame));
//   real(arguments...);
//   if (CallRecord* record = EndCall(&frame, RecordType::kGemmCall, kWords<GemmShape>, 3)) {
//     DecodeGemm(…, record);
//     CommitCall(&frame, record);
//   }
#pragma once

#include "preload/format/clock.h"
#include "preload/format/hook_table.h"
#include "preload/format/open_scopes.h"
#include "preload/format/record.h"
#include "preload/runtime/parts.h"
#include "preload/runtime/thread_state.h"

namespace dlhook::inline runtime {

struct CallFrame {
  ThreadState* thread;  // null: this call is not recorded
  uint64_t start_ticks;
  uint64_t sequence;
  uint32_t parent_distance;
  uint32_t detail;  // the family's bit if the call has details, else 0
  HookId hook;
  FrameMark mark;  // while the call's record is written
};

// The real function behind `hook` for the object that contains `caller`; `looked_up` if not null. Never null.
inline void* RealFunction(ThreadState* thread, HookId hook, void* caller, void* looked_up) {
  if (looked_up != nullptr) return looked_up;
  if (__builtin_expect(thread == nullptr, 0)) return ResolveReal(nullptr, hook, caller);
  uint64_t key = BindingCacheKey(hook, caller);
  uint32_t generation = CurrentBindingGeneration();
  BindingCacheEntry entry = LoadBinding(thread->cache[BindingCacheIndex(key)]);
  bool miss =
      entry.key != key || entry.real >> 48 != (generation & UINT16_MAX) || thread->cache_generation != generation;
  if (__builtin_expect(miss, 0)) return ResolveReal(thread, hook, caller);
  return reinterpret_cast<void*>(entry.real & kAddressBits);
}

// For hooks whose calls come by the thousand: about 3 ns faster than BeginCall, and 300 bytes in each of them.
__attribute__((always_inline)) inline void* BeginFrequentCall(HookId hook, uint32_t family_bit, void* caller,
                                                              void* looked_up, CallFrame* frame) {
  ThreadState* thread = dlhook_thread;
  if (__builtin_expect(thread == nullptr || thread->active == 0, 0)) thread = AttachThread(family_bit);
  void* real = RealFunction(thread, hook, caller, looked_up);
  frame->thread = nullptr;
  if (__builtin_expect(thread == nullptr, 0)) return real;
  uint32_t enabled = thread->session->enabled_families.load(std::memory_order_relaxed);
  if (__builtin_expect((enabled & family_bit) == 0, 0)) return real;
  if (thread->depth == 0 && __builtin_expect(!NotePythonOfCall(thread), 0)) {
    thread->ring.CountDropped();
    return real;
  }
  frame->thread = thread;
  frame->hook = hook;
  frame->sequence = TakeSequence(thread);
  frame->parent_distance = 0;
  if (__builtin_expect(thread->depth == 0, 1)) {
    thread->open[0] = {reinterpret_cast<uintptr_t>(&frame->sequence), frame->sequence};
    thread->depth = 1;
  } else {
    frame->parent_distance = OpenNestedCall(thread, reinterpret_cast<uintptr_t>(&frame->sequence), frame->sequence);
  }
  frame->detail = thread->detail_families & family_bit;
  if (__builtin_expect(frame->detail != 0, 0)) BeginCallDetail(thread, family_bit, frame->sequence);
  frame->start_ticks = ReadTicks(thread->clock);
  if (__builtin_expect(thread->depth == 1, 1)) {
    thread->ring.slot->open_call.store(OpenCallWord(hook, frame->start_ticks), std::memory_order_relaxed);
  }
  return real;
}

__attribute__((noinline)) inline void* BeginCall(HookId hook, uint32_t family_bit, void* caller, void* looked_up,
                                                 CallFrame* frame) {
  return BeginFrequentCall(hook, family_bit, caller, looked_up, frame);
}

// Null if the call is not recorded (stopped, ring full: counted). The caller fills in shape and addresses, then
// commits.
inline CallRecord* EndCall(CallFrame* frame, RecordType type, uint8_t shape_words, uint8_t address_count) {
  ThreadState* thread = frame->thread;
  if (__builtin_expect(thread == nullptr, 0)) return nullptr;
  uint64_t end_ticks = ReadTicks(thread->clock);
  if (__builtin_expect(thread->depth == 1, 1)) {
    thread->depth = 0;
    thread->ring.slot->open_call.store(0, std::memory_order_relaxed);
  } else if (thread->depth > 0) {  // 0: forked since it began
    --thread->depth;
  }
  uint32_t words = sizeof(CallRecord) / 8 + shape_words + address_count;
  uint32_t native_stack = 0;
  if (__builtin_expect(frame->detail != 0, 0)) {
    native_stack = EndCallDetail(thread, frame->detail, end_ticks - frame->start_ticks);
    if (native_stack != 0) words += sizeof(CallTrailer) / 8;
  }
  RecordHeader* header = ReserveCall(thread, words, &frame->mark);
  if (__builtin_expect(header == nullptr, 0)) return nullptr;
  CallRecord* record = reinterpret_cast<CallRecord*>(header);
  record->header = {
      static_cast<uint16_t>(words), type, static_cast<uint8_t>(thread->depth), frame->hook, shape_words, address_count};
  record->start_ticks = frame->start_ticks;
  record->end_ticks = end_ticks;
  record->sequence = frame->sequence;
  record->parent_distance = frame->parent_distance;
  record->status = 0;
  if (__builtin_expect(native_stack != 0, 0)) {
    auto trailer = reinterpret_cast<CallTrailer*>(reinterpret_cast<uint64_t*>(record) + words - 1);
    *trailer = {native_stack, 0};
  }
  return record;
}

inline void CommitCall(CallFrame* frame, CallRecord* record) { CommitRecord(frame->thread, &record->header); }

}  // namespace dlhook::inline runtime
