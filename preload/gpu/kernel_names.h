// Names of kernels as CUPTI tells them (a pointer into memory that is not ours) -> definitions.
// Thread: "dlhook-gpu". Some system calls and a lock for a pointer that is new; a look into a table for the others.
#ifndef DLHOOK_PRELOAD_GPU_KERNEL_NAMES_H_
#define DLHOOK_PRELOAD_GPU_KERNEL_NAMES_H_

#include <cstdint>

namespace dlhook::inline gpu {

struct KernelNameEntry {
  uint64_t key;  // a pointer, or what a name's bytes hash to; 0: free
  uint32_t definition;
  uint32_t generation;
};

// All zero: empty. Tables are pages of their own.
struct KernelNames {
  KernelNameEntry* by_pointer;
  KernelNameEntry* by_content;
  uint32_t pointers;
  uint32_t contents;
  uint64_t unread;  // names that could not be read
};

// The definition of the name at `name`, 0: not known. A pointer is trusted only as long as `generation` stays: when a
// module is unloaded, another name may come to lie where one was.
uint32_t DefineKernelName(KernelNames* names, const char* name, uint32_t generation);

// Of names that could not be read: for people.
const char* WhyNamesAreUnread();

}  // namespace dlhook::inline gpu

#endif  // DLHOOK_PRELOAD_GPU_KERNEL_NAMES_H_
