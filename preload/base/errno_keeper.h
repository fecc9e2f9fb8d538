// errno as it was, at the end of the block: hooks and handlers run between a call of the host's and its look at errno.
#pragma once

#include <errno.h>

namespace dlhook::inline base {

struct ErrnoKeeper {
  int saved = errno;
  ~ErrnoKeeper() { errno = saved; }
};

}  // namespace dlhook::inline base
