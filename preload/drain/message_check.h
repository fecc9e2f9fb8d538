// Whether bytes from the host are a message that a parser accepts: an invalid one would spoil the whole packet, and
// everything after it.
// Thread: the drain's. Pure; no allocation; the input is untrusted.
#pragma once

#include <cstddef>

namespace dlhook::inline drain {

// A serialized trace::Cudnn.
bool IsCudnnMessage(const void* bytes, size_t size);

}  // namespace dlhook::inline drain
