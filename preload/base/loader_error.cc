// Finds where the C library stores a thread's pending error.
#include "preload/base/loader_error.h"

#include <string.h>

#include "preload/base/libc_functions.h"
#include "preload/base/loaded_objects.h"

namespace dlhook::inline base {
namespace {

// What __libc_dlerror_result points to (glibc 2.34 and newer).
struct PendingError {
  int code;
  char source;
  bool told;
  const char* object;
  char* text;  // until it has been returned, the object's name follows it in the same block
};

char* ThreadPointer() {
  char* pointer;
  asm("movq %%fs:0, %0" : "=r"(pointer));
  return pointer;
}

// Offset from the thread pointer to __libc_dlerror_result, or 0.
intptr_t FindErrorOffset() {
  const ElfW(Sym)* symbol = FindLibcSymbol("__libc_dlerror_result");
  if (symbol == nullptr || ELF64_ST_TYPE(symbol->st_info) != STT_TLS) return 0;
  const void* block = nullptr;
  AnyLoadedObject([&block, libc = FindLibc()](const dl_phdr_info& info) {
    if (info.dlpi_addr != libc->l_addr) return false;
    block = info.dlpi_tls_data;
    return true;
  });
  if (block == nullptr) return 0;
  return static_cast<const char*>(block) + symbol->st_value - ThreadPointer();
}

// This thread's pending error, or null if its location is unknown: then an error of the program is lost, but none of
// the shim's remains.
void** ErrorSlot() {
  static const intptr_t offset = FindErrorOffset();
  return offset == 0 ? nullptr : reinterpret_cast<void**>(ThreadPointer() + offset);
}

}  // namespace

KeptLoaderError::KeptLoaderError() : errno_(errno), kept_(nullptr) {
  void** slot = ErrorSlot();
  if (slot == nullptr) return;
  kept_ = *slot;
  *slot = nullptr;
}

KeptLoaderError::~KeptLoaderError() {
  ClearLoaderError();
  if (void** slot = ErrorSlot()) *slot = kept_;
  errno = errno_;
}

void ClearLoaderError() {
  void** slot = ErrorSlot();
  // The first call returns the error, the second one frees it.
  for (int i = 0; i < 2 && (slot == nullptr || *slot != nullptr); ++i) dlerror();
}

void RenameInLoaderError(const char* from, const char* to) {
  void** slot = ErrorSlot();
  auto pending = slot == nullptr ? nullptr : static_cast<PendingError*>(*slot);
  // Checks that its layout is as expected, as far as possible.
  constexpr uintptr_t kLongest = 1 << 16;
  if (reinterpret_cast<uintptr_t>(pending) < kLongest || pending->told || pending->text == nullptr) return;
  uintptr_t distance = reinterpret_cast<uintptr_t>(pending->object) - reinterpret_cast<uintptr_t>(pending->text);
  if (distance == 0 || distance > kLongest || pending->text + strlen(pending->text) + 1 != pending->object) return;
  if (strcmp(pending->object, from) == 0) pending->object = to;
}

}  // namespace dlhook::inline base
