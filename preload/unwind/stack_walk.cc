#include "preload/unwind/stack_walk.h"

#include "preload/link/resolver.h"

namespace dlhook::inline unwind {
namespace {

constexpr uint64_t kMaxStackBytes = 64 << 20;
constexpr uint64_t kPagesAtOnce = 64;

// The beginning of the first page that can't be read, or `end`.
uint64_t EndOfReadable(uint64_t start, uint64_t end) {
  char bytes[kPagesAtOnce];
  iovec remote[kPagesAtOnce];
  ErrnoKeeper keeper;
  while (start < end) {
    uint64_t count = 0;
    for (uint64_t page = start; page < end && count < kPagesAtOnce; page += kPageBytes) {
      remote[count++] = {reinterpret_cast<void*>(page), 1};
    }
    iovec local = {bytes, count};
    ssize_t read = process_vm_readv(static_cast<pid_t>(ProcessId()), &local, 1, remote, count, 0);
    if (read > 0) start += static_cast<uint64_t>(read) * kPageBytes;
    if (read != static_cast<ssize_t>(count)) break;
  }
  return start < end ? start : end;
}

uint64_t ControlBlock() {
  uint64_t control_block;
  asm("movq %%fs:0, %0" : "=r"(control_block));
  return control_block;
}

// Of the thread that runs on the stack created by the kernel. It is identified by its control block, which is the same
// in a forked child: a child's only thread has the process's id, whatever stack it runs on.
uint64_t g_first_control_block;

__attribute__((constructor)) void NoteFirstThread() {
  if (gettid() == getpid()) g_first_control_block = ControlBlock();
}

uint64_t EndOfFirstStack() {
  static const auto end = static_cast<uint64_t*>(RealDlsym(RTLD_DEFAULT, "__libc_stack_end"));
  return end == nullptr ? 0 : *end;
}

uint64_t EndOfStack() {
  uint64_t control_block = ControlBlock();
  if (g_first_control_block == 0) NoteFirstThread();  // called by a constructor that ran before the shim's
  return control_block == g_first_control_block ? EndOfFirstStack() : control_block;
}

bool IsOwn(const CodeObject& object) {
  static uint64_t own_start = 0;
  if (own_start == 0) {
    CodeObject own;
    own_start = FindCodeObject(reinterpret_cast<uint64_t>(&IsOwn), &own) ? own.start : 1;
  }
  return object.map != nullptr && object.start == own_start;
}

}  // namespace

bool ExtendBounds(uint64_t stack_pointer, StackBounds* bounds) {
  if (stack_pointer >= bounds->foreign_low && stack_pointer < bounds->foreign_high) return false;
  uint64_t page = stack_pointer & ~(kPageBytes - 1);
  uint64_t end = bounds->high;
  if (end == 0) end = EndOfStack() & ~uint64_t{7};
  bool is_below = page < end && end - page <= kMaxStackBytes;
  uint64_t known = bounds->high != 0 && is_below ? bounds->low : end;
  uint64_t readable = is_below ? EndOfReadable(page, known) : page + kPageBytes;
  if (is_below && readable == known) {
    bounds->low = page;
    bounds->high = end;
    return true;
  }
  bounds->foreign_low = page;
  bounds->foreign_high = readable > page ? readable : page + kPageBytes;
  return false;
}

CachedRule* RuleCache::Fill(CachedRule* set, uint64_t address, bool is_interrupted, bool may_lock) {
  CodeObject object;
  CachedRule rule = {FindRule(address, is_interrupted, may_lock, &object)};
  rule.is_own = IsOwn(object);
  rule.pc = is_interrupted ? address : address - 1;
  if (object.map != nullptr && rule.is_code && (!rule.is_own || is_interrupted)) NoteCodeObject(object);
  if (!may_lock && object.map == nullptr) {  // libgcc may have a rule, once it may be asked
    unkept_ = rule;
    return &unkept_;
  }
  KeepEntry(set[0], &CachedRule::pc, &set[1]);
  KeepEntry(rule, &CachedRule::pc, &set[0]);
  return &set[0];
}

}  // namespace dlhook::inline unwind
