// Protects the result of the program's next dlerror(). The C library stores it per thread; every call of the dl family
// replaces it and frees the text that an earlier dlerror() returned. The shim's own calls go through link/dlsym.cc,
// which leaves it unchanged.
// Thread: any.
#pragma once

#include <errno.h>

namespace dlhook::inline base {

// While it exists no error is pending; afterwards the previous error is pending, with the previous errno.
class KeptLoaderError {
 public:
  KeptLoaderError();
  ~KeptLoaderError();
  KeptLoaderError(const KeptLoaderError&) = delete;
  KeptLoaderError& operator=(const KeptLoaderError&) = delete;

 private:
  int errno_;
  void* kept_;
};

// As after a successful call.
void ClearLoaderError();

// If the pending error names the object `from`, replaces that by `to`. Both must outlive the error.
void RenameInLoaderError(const char* from, const char* to);

}  // namespace dlhook::inline base
