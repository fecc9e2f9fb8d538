// Names, lines and inlined functions of addresses in one object: from its file, its debug files, and the cache.
#pragma once

#include <string>

#include "analyzer/symbols/frame_codec.h"

namespace dlhook::analyzer::inline symbols {

struct ResolveOptions {
  std::string cache_folder;  // empty: no cache
  bool use_debug_info = true;
};

// Reads untrusted files with libraries that may crash on them: call it in a child process (isolated.h).
ObjectAnswer ResolveObject(const ObjectRequest& request, const ResolveOptions& options);

}  // namespace dlhook::analyzer::symbols
