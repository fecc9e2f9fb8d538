// cuDNN's graph API without an implementation. Descriptors are addresses that repeat after 4096, like those of an
// allocator. Soname and version node are those of the real library.
#include "cuda_api.h"

int cudnnBackendCreateDescriptor(int type, void** descriptor) {
  static char descriptors[4096][64];
  static unsigned packs, others;
  // Plans and their parts live as long as the program, variant packs for one call.
  *descriptor = type == kVariantPack ? descriptors[packs++ % 16] : descriptors[16 + others++ % 4080];
  return 0;
}

int cudnnBackendDestroyDescriptor(void* descriptor) {
  // Keeps the compiler from optimizing the call away.
  __asm__ volatile("" ::"r"(descriptor) : "memory");
  return 0;
}

int cudnnBackendFinalize(void* descriptor) {
  __asm__ volatile("" ::"r"(descriptor) : "memory");
  return 0;
}

int cudnnBackendSetAttribute(void* descriptor, int name, int type, int64_t count, const void* elements) {
  __asm__ volatile("" ::"r"(descriptor), "r"(name), "r"(type), "r"(count), "r"(elements) : "memory");
  return 0;
}

int cudnnBackendGetAttribute(const void* descriptor, int name, int type, int64_t requested, int64_t* returned,
                             void* elements) {
  __asm__ volatile("" ::"r"(descriptor), "r"(name), "r"(type), "r"(requested), "r"(elements) : "memory");
  if (returned != NULL) *returned = 0;
  return 0;
}

int cudnnBackendExecute(void* handle, void* plan, void* variant_pack) {
  __asm__ volatile("" ::"r"(handle), "r"(plan), "r"(variant_pack) : "memory");
  return 0;
}
