// What a process has defined already. Plain data, valid when all zero.
// Thread: any, one at a time.
#pragma once

#include "preload/runtime/definitions.h"

namespace dlhook::inline runtime {

inline uint64_t HashBytes(const char* bytes, size_t size) {  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<uint8_t>(bytes[i])) * 0x100000001b3u;
  return hash ^ (hash >> 29);
}

// Open addressing, linear probing, never more than 7/8 full.
template <uint32_t kEntries>
struct DefinitionTable {
  struct Entry {
    uint64_t key;  // a hash
    uint32_t definition;
    uint32_t used;  // 0: free
  };
  Entry entries[kEntries];
  uint32_t count;

  // The entry of this key, or a free one; null if the table is full.
  Entry* Find(uint64_t key) {
    for (uint32_t i = 0; i < kEntries; ++i) {
      Entry* entry = &entries[(key + i) % kEntries];
      if (entry->used != 0 && entry->key == key) return entry;
      if (entry->used == 0) return count < kEntries / 8 * 7 ? entry : nullptr;
    }
    return nullptr;
  }
  void Fill(Entry* entry, uint64_t key, uint32_t definition, uint32_t used = 1) {
    if (entry->used == 0) ++count;
    *entry = {key, definition, used};
  }
  // The number of the definition with these bytes; 0: there is no room.
  uint32_t Define(DefinitionKind kind, const char* bytes, size_t size) {
    const uint64_t key = HashBytes(bytes, size);
    Entry* entry = Find(key);
    if (entry != nullptr && entry->used != 0) return entry->definition;
    uint32_t definition = runtime::Define(kind, bytes, size);
    if (entry != nullptr && definition != 0) Fill(entry, key, definition);
    return definition;
  }
};

}  // namespace dlhook::inline runtime
