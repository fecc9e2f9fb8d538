// Open scopes of a thread, and the records of those that ended.
#include "preload/runtime/scope.h"

#include "preload/format/open_scopes.h"
#include "preload/runtime/definitions.h"
#include "preload/runtime/parts.h"
#include "preload/runtime/undisturbed.h"

namespace dlhook::inline runtime {
namespace {

bool Records(const ThreadState* thread, uint32_t family_bit) {
  return (thread->session->enabled_families.load(std::memory_order_relaxed) & family_bit) != 0;
}

void WriteRecord(ThreadState* thread, const OpenScopeEntry& scope, uint32_t depth, const char* name,
                 uint64_t end_ticks) {
  uint32_t words = static_cast<uint32_t>((sizeof(ScopeRecord) + scope.name_bytes + 7) / 8);
  FrameMark mark;
  RecordHeader* header = ReserveScope(thread, words, &mark);
  if (header == nullptr) return;
  auto record = reinterpret_cast<ScopeRecord*>(header);
  record->header = {static_cast<uint16_t>(words), RecordType::kScope, static_cast<uint8_t>(depth), 0, 0, 0};
  record->start_ticks = scope.start_ticks;
  record->end_ticks = end_ticks;
  record->first_sequence = scope.first_sequence;
  record->link = scope.link;
  record->call_count =
      scope.first_sequence == 0 ? 0 : static_cast<uint32_t>(thread->next_sequence + 1 - scope.first_sequence);
  record->python_stack = scope.python_stack;
  record->name_bytes = scope.name_bytes;
  record->kind = scope.kind;
  record->cut = scope.cut;
  record->reserved = 0;
  memcpy(record + 1, name, scope.name_bytes);
  CommitRecord(thread, header);
}

// At the beginning or end of a scope outside of a framework's operators: readings inside those belong to them.
void CountAtBoundary(ThreadState* thread, ScopeKind kind) {
  if (__builtin_expect(thread->counters == nullptr, 1) || !MayHavePythonFrames(thread)) return;
  ReadCountersAtScope(thread, kind);
}

// Operators ("aten::conv2d") run no Python; user-defined functions of autograd ("CheckpointFunction") do.
bool MayRunPython(ScopeKind kind, const char* name, size_t name_bytes) {
  if (kind != ScopeKind::kFrameworkOp) return true;
  auto colon = static_cast<const char*>(memchr(name, ':', name_bytes));
  return colon == nullptr || colon + 1 == name + name_bytes || colon[1] != ':';
}

// The place of the thread's open scopes, null if there is no memory for it. Loaded once by its users: a child that a signal
// handler forks finds the thread's state wiped.
OpenScopes* ScopesOf(ThreadState* thread) {
  if (__builtin_expect(thread->scopes != nullptr, 1)) return thread->scopes;
  Undisturbed undisturbed;
  ProcessState* process = GetProcess();
  uint64_t offset = OpenScopesOffset(static_cast<uint32_t>(thread->ring.slot - thread->session->slots));
  if (process == nullptr || !AllocatePages(process, offset, kOpenScopesBytes)) return nullptr;
  return thread->scopes = reinterpret_cast<OpenScopes*>(reinterpret_cast<char*>(thread->session) + offset);
}

}  // namespace

bool MayHavePythonFrames(const ThreadState* thread) {
  return thread->scope_depth == 0 || thread->scopes->entries[thread->scope_depth - 1].may_run_python != 0;
}

ThreadState* ScopeThread(uint32_t family_bit) {
  ThreadState* thread = dlhook_thread;
  if (thread == nullptr || thread->active == 0) thread = AttachThread(family_bit);
  return thread != nullptr && thread->is_asking == 0 && Records(thread, family_bit) ? thread : nullptr;
}

void OpenScope(ThreadState* thread, ScopeKind kind, const char* name, size_t name_bytes, int64_t link,
               const void* owner) {
  CountAtBoundary(thread, kind);
  uint32_t cut = name_bytes > kMaxScopeNameBytes;
  if (cut != 0) name_bytes = kMaxScopeNameBytes;
  OpenScopes* scopes = ScopesOf(thread);
  if (scopes == nullptr || thread->scope_depth == kMaxOpenScopes ||
      thread->scope_names_used + name_bytes > kScopeNamesBytes) {
    thread->session->deep_scopes.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  uint32_t python_stack = MayHavePythonFrames(thread) ? CapturePythonStack(thread) : 0;
  OpenScopeEntry& scope = scopes->entries[thread->scope_depth++];
  scope.owner = owner;
  scope.first_sequence = thread->next_sequence + 1;
  scope.link = link;
  scope.python_stack = python_stack;
  scope.name_offset = static_cast<uint16_t>(thread->scope_names_used);
  scope.name_bytes = static_cast<uint16_t>(name_bytes);
  scope.kind = kind;
  scope.cut = static_cast<uint8_t>(cut);
  scope.may_run_python = MayRunPython(kind, name, name_bytes);
  memcpy(scopes->names + thread->scope_names_used, name, name_bytes);
  thread->scope_names_used += static_cast<uint32_t>(name_bytes);
  scope.start_ticks = ReadTicks(thread->clock);
  thread->ring.slot->open_scopes.store(thread->scope_depth, std::memory_order_relaxed);
}

bool CloseScope(ThreadState* thread, const void* owner) {
  uint64_t end_ticks = ReadTicks(thread->clock);
  OpenScopes* scopes = thread->scopes;
  uint32_t place = thread->scope_depth;
  while (place > 0 && scopes->entries[place - 1].owner != owner) --place;
  if (place == 0) return false;
  // User ranges may end in any order, on any thread; a framework's scopes can't outlast the one around them.
  ScopeKind kind = scopes->entries[place - 1].kind;
  uint32_t kept = 0;
  for (uint32_t i = thread->scope_depth; i-- > place - 1;) {
    const OpenScopeEntry& scope = scopes->entries[i];
    bool stays = i >= place && scope.kind == ScopeKind::kUserRange;
    if (!stays) WriteRecord(thread, scope, i, scopes->names + scope.name_offset, end_ticks);
    if (stays) ++kept;
  }
  uint32_t to = place - 1;
  for (uint32_t i = place; kept > 0 && i < thread->scope_depth; ++i) {
    if (scopes->entries[i].kind == ScopeKind::kUserRange) scopes->entries[to++] = scopes->entries[i];
  }
  thread->scope_depth = to;
  thread->ring.slot->open_scopes.store(to, std::memory_order_relaxed);
  const OpenScopeEntry* top = to == 0 ? nullptr : &scopes->entries[to - 1];
  thread->scope_names_used = top == nullptr ? 0 : uint32_t{top->name_offset} + top->name_bytes;
  CountAtBoundary(thread, kind);
  return true;
}

void RecordEndedScope(ThreadState* thread, ScopeKind kind, const char* name, size_t name_bytes, uint64_t duration_ticks,
                      uint64_t end_ticks, int64_t link) {
  if (end_ticks == 0) end_ticks = ReadTicks(thread->clock);
  OpenScopeEntry scope = {};
  scope.start_ticks = end_ticks - duration_ticks;
  // TensorFlow's eager ops: Python, which called them, still waits for them.
  if (kind == ScopeKind::kTraceMe && MayHavePythonFrames(thread)) scope.python_stack = CapturePythonStack(thread);
  scope.link = link;
  scope.kind = kind;
  scope.cut = name_bytes > kMaxScopeNameBytes;
  scope.name_bytes = static_cast<uint16_t>(scope.cut != 0 ? kMaxScopeNameBytes : name_bytes);
  WriteRecord(thread, scope, thread->scope_depth, name, end_ticks);
}

uint32_t OpenPythonStack(const ThreadState* thread) {
  uint32_t depth = thread->scope_depth;
  while (depth > 0 && thread->scopes->entries[depth - 1].python_stack == 0) --depth;
  return depth == 0 ? 0 : thread->scopes->entries[depth - 1].python_stack;
}

}  // namespace dlhook::inline runtime
