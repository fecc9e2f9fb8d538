#include "preload/link/library_api.h"

#include <link.h>

#include "preload/link/dlsym.h"

namespace dlhook::inline link {

void* LibraryFunction(const void* real, const char* name) {
  ErrnoKeeper keeper;
  const link_map* object = ObjectOf(real);
  if (object == nullptr || object->l_name[0] == '\0') return nullptr;
  void* handle = dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* found = RealDlsym(handle, name);
  RealDlclose(handle);
  return found;
}

}  // namespace dlhook::inline link
