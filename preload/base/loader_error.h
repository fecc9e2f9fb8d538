// The answer to the program's next dlerror(). The C library keeps it for each thread; every call of the dl family replaces it and frees
// the text that an earlier dlerror() returned. The shim's own calls go through link/loader.cc, which leaves it as it is.
// Thread: any.
#ifndef DLHOOK_PRELOAD_BASE_LOADER_ERROR_H_
#define DLHOOK_PRELOAD_BASE_LOADER_ERROR_H_

#include <errno.h>

namespace dlhook::inline base {

// While it lives no error is pending; afterwards what was pending before, and errno as before.
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

// As a successful call leaves it.
void ClearLoaderError();

// In the pending error, if it names the object `from`, that is named `to` from now on. Both outlive the error.
void RenameInLoaderError(const char* from, const char* to);

}  // namespace dlhook::inline base

#endif  // DLHOOK_PRELOAD_BASE_LOADER_ERROR_H_
