// Definitions for names of kernels, which CUPTI provides as pointers into foreign memory.
// Thread: "dlhook-gpu". Some system calls and a lock for a new pointer; a table look-up for known ones.
#pragma once

#include <cstdint>

namespace dlhook::inline gpu {

struct KernelNameEntry {
  uint64_t key;  // a pointer, or the hash of a name's bytes; 0: free
  uint32_t definition;
  uint32_t generation;
};

// All zero: empty. The tables have their own pages.
struct KernelNames {
  KernelNameEntry* by_pointer;
  KernelNameEntry* by_content;
  uint32_t pointers;
  uint32_t contents;
  uint64_t unread;  // names that could not be read
};

// The definition of the name at `name`, 0: not known. A pointer is valid only for one `generation`: after a module is
// unloaded, another name may be at its address.
uint32_t DefineKernelName(KernelNames* names, const char* name, uint32_t generation);

// For names that could not be read: for the user.
const char* WhyNamesAreUnread();

}  // namespace dlhook::inline gpu
