// Libraries that work for whoever calls them: the C library, C++'s, OpenMP's, allocators.
#pragma once

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline stacks {

// `object`: a path.
inline bool IsSharedCode(absl::string_view object) {
  const absl::string_view file = object.substr(object.rfind('/') + 1);
  for (absl::string_view library :
       {"libc.so", "libc-", "libm.so", "libm-", "libpthread", "libmvec", "ld-linux", "libstdc++", "libgcc_s",
        "linux-vdso", "libgomp", "libiomp5", "libjemalloc", "libtcmalloc"}) {
    if (absl::StartsWith(file, library)) return true;
  }
  return false;
}

}  // namespace dlhook::analyzer::stacks
