// Two open-addressing tables of fixed size: in a program with more kernels, later names are read and defined again each
// time.
#include <fcntl.h>

#include "preload/base/own_memory.h"
#include "preload/base/own_pages.h"
#include "preload/gpu/gpu_state.h"
#include "preload/runtime/definitions.h"

namespace dlhook::inline gpu {
namespace {

constexpr uint32_t kEntries = 32768;  // power of two
constexpr uint32_t kMostUsed = kEntries / 4 * 3;
constexpr size_t kMostNameBytes = 4096;

KernelNameEntry* TableOf(KernelNameEntry** table) {
  if (*table != nullptr) return *table;
  *table = static_cast<KernelNameEntry*>(MapOwnPages(kEntries * sizeof(KernelNameEntry)));
  return *table;
}

// The key's entry, or the free one for it; null if the table is full.
KernelNameEntry* Find(KernelNameEntry** table, uint32_t used, uint64_t key) {
  KernelNameEntry* entries = TableOf(table);
  if (entries == nullptr) return nullptr;
  for (uint64_t i = (key * 0x9e3779b97f4a7c15u) >> 32;; ++i) {
    KernelNameEntry* entry = &entries[i & (kEntries - 1)];
    if (entry->key == key) return entry;
    if (entry->key == 0) return used < kMostUsed ? entry : nullptr;
  }
}

// FNV-1a; never 0.
uint64_t HashOf(const char* bytes, size_t size) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<uint8_t>(bytes[i])) * 0x100000001b3u;
  return hash | 1;
}

uint32_t DefineContent(KernelNames* names, const char* bytes, size_t size) {
  uint64_t hash = HashOf(bytes, size);
  KernelNameEntry* entry = Find(&names->by_content, names->contents, hash);
  if (entry != nullptr && entry->key == hash) return entry->definition;
  uint32_t definition = Define(DefinitionKind::kKernel, bytes, size);
  if (entry == nullptr || definition == 0) return definition;
  *entry = {hash, definition, 0};
  ++names->contents;
  return definition;
}

// Containers may forbid the system call; then a file of /proc works.
size_t CopyByFile(uint64_t address, char* to, size_t size) {
  ErrnoKeeper keeper;
  int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  ssize_t copied = memory < 0 ? -1 : pread(memory, to, size, static_cast<off_t>(address));
  if (memory >= 0) close(memory);
  return copied < 0 ? 0 : static_cast<size_t>(copied);
}

size_t CopyName(uint64_t address, char* to, size_t size) {
  size_t copied = CopyOwnMemory(address, to, size);
  return copied != 0 ? copied : CopyByFile(address, to, size);
}

}  // namespace

uint32_t DefineKernelName(KernelNames* names, const char* name, uint32_t generation) {
  uint64_t key = reinterpret_cast<uint64_t>(name);
  if (key == 0) return 0;
  KernelNameEntry* entry = Find(&names->by_pointer, names->pointers, key);
  if (entry != nullptr && entry->key == key && entry->generation == generation) return entry->definition;
  // Its module may be gone: never read directly.
  char copy[kMostNameBytes];
  size_t size = strnlen(copy, CopyName(key, copy, sizeof copy));
  if (size == 0) ++names->unread;
  uint32_t definition = size == 0 ? 0 : DefineContent(names, copy, size);
  if (entry == nullptr) return definition;
  if (entry->key == 0) ++names->pointers;
  *entry = {key, definition, generation};
  return definition;
}

const char* WhyNamesAreUnread() {
  char probe = 1, copy = 0;
  bool can_read = CopyName(reinterpret_cast<uint64_t>(&probe), &copy, 1) == 1;
  return can_read ? "their modules were unloaded before" : "process_vm_readv and /proc/self/mem are denied here";
}

}  // namespace dlhook::inline gpu
