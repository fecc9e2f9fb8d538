#include "preload/python/python_process.h"

#include <string.h>

#include "preload/python/python_layout.h"

namespace dlhook::inline python {
namespace {

std::atomic<PythonProcess*> g_process{nullptr};

uint32_t IndexOf(const void* object) {
  return static_cast<uint32_t>((reinterpret_cast<uint64_t>(object) * 0x9e3779b97f4a7c15u) >> 47) % kObjectIndexEntries;
}

}  // namespace

PythonProcess* GetPythonProcess() { return OneForEachProcess(&g_process); }

uint32_t FindObject(const PythonProcess& process, const void* object) {
  const void* type = ReadAt<const void*>(object, kPyTypeOffset);
  uint32_t start = IndexOf(object);
  for (uint32_t i = 0; i < kObjectIndexEntries; ++i) {
    uint32_t number = process.object_index[(start + i) % kObjectIndexEntries];
    if (number == 0) return 0;
    const PythonObject& known = process.objects[number];
    bool retired = (known.flags.load(std::memory_order_acquire) & kObjectRetired) != 0;
    if (known.object == object && known.type == type && !retired) return number;
  }
  return 0;
}

uint32_t AddObject(PythonProcess* process, const void* object) {
  if (process->object_count == kMaxPythonObjects) return 0;
  uint32_t number = process->object_count + 1;
  PythonObject* added = &process->objects[number];
  added->object = object;
  added->type = ReadAt<const void*>(object, kPyTypeOffset);
  uint32_t place = IndexOf(object);
  while (process->object_index[place] != 0) place = (place + 1) % kObjectIndexEntries;
  process->object_index[place] = number;
  process->object_count = number;
  return number;
}

void SetObjectText(PythonProcess* process, uint32_t number, const char* text, size_t bytes) {
  PythonObject* object = &process->objects[number];
  bool same = object->text_bytes == bytes && memcmp(process->arena + object->text, text, bytes) == 0;
  if (same || bytes > kObjectArenaBytes - process->arena_used) return;
  memcpy(process->arena + process->arena_used, text, bytes);
  object->text = process->arena_used;
  object->text_bytes = static_cast<uint32_t>(bytes);
  process->arena_used += static_cast<uint32_t>(bytes);
  object->flags.fetch_and(~uint32_t{kObjectWritten}, std::memory_order_acq_rel);
  if (number < process->first_unwritten) process->first_unwritten = number;
}

void MarkSeen(PythonProcess* process, uint32_t number, uint32_t root, uint32_t parent) {
  PythonObject* object = &process->objects[number];
  uint32_t flags = object->flags.fetch_or(kObjectSeen, std::memory_order_acq_rel);
  // Keras calls each layer by itself while a functional model is built.
  bool is_adopted = (flags & kObjectKeras) != 0 && object->root != root && root != number;
  if ((flags & kObjectSeen) != 0 && !is_adopted) return;
  object->flags.fetch_and(~uint32_t{kObjectWritten}, std::memory_order_acq_rel);
  bool has_owner = (flags & kObjectSeen) == 0 && object->root != 0;
  if (!has_owner) object->root = root;
  object->parent = parent;
  if (number < process->first_unwritten) process->first_unwritten = number;
}

void RetireObject(PythonProcess* process, uint32_t number) {
  if (number == 0 || number > kMaxPythonObjects) return;
  process->objects[number].flags.fetch_or(kObjectRetired, std::memory_order_acq_rel);
  process->object_generation.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace dlhook::inline python
