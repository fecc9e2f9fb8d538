#include "preload/base/own_memory.h"
#include "preload/base/spin_lock.h"
#include "preload/runtime/process_state.h"
#include "preload/runtime/registry.h"
#include "preload/unwind/stack_node_table.h"
#include "preload/unwind/unwind_tables.h"

namespace dlhook::inline unwind {
namespace {

// A forked child has the same objects, and the registry repeats them in its trace.
SpinLock g_lock;
struct NotedObject {
  CodeObject object;
  uint64_t fingerprint;
};
NotedObject g_objects[kMaxRegistryObjects];
uint32_t g_object_count;
uint32_t g_checked_generation;

// Of the file's beginning, with headers and build-id: an object loaded in place of another often has the same link_map.
// A copy, because another thread may be unloading it.
uint64_t FingerprintOf(const CodeObject& object) {
  uint64_t words[128];
  uint64_t hash = 0;
  if (CopyOwnMemory(object.start, words, sizeof words) != sizeof words) return hash;
  for (uint64_t word : words) hash = (hash ^ word) * 0x9e3779b97f4a7c15u + (hash >> 29);
  return hash;
}

bool IsSameObject(const CodeObject& one, const CodeObject& other) {
  return one.map == other.map && one.start == other.start;
}

bool IsGone(const NotedObject& noted) {
  CodeObject now;
  return !FindCodeObject(noted.object.start, &now) || !IsSameObject(now, noted.object) ||
         FingerprintOf(now) != noted.fingerprint;
}

// False: known already, or there are too many.
bool Add(const CodeObject& object) {
  SpinLockHolder holder(&g_lock);
  for (uint32_t i = 0; i < g_object_count; ++i) {
    if (IsSameObject(g_objects[i].object, object)) return false;
  }
  if (g_object_count == kMaxRegistryObjects) return false;  // so is the registry, which reports it
  g_objects[g_object_count++] = {object, FingerprintOf(object)};
  return true;
}

}  // namespace

void NoteCodeObject(const CodeObject& object) {
  if (Add(object)) ReportCode(object.map, object.start, object.end);
}

void RetireGoneObjects(uint32_t generation) {
  SpinLockHolder holder(&g_lock);
  if (g_checked_generation == generation) return;
  g_checked_generation = generation;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < g_object_count; ++i) {
    if (!IsGone(g_objects[i])) g_objects[kept++] = g_objects[i];
  }
  if (kept == g_object_count) return;
  g_object_count = kept;
  RetireStackNodes();
}

}  // namespace dlhook::inline unwind
