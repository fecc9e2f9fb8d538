// Whether bytes from the host are a message that a parser accepts: an invalid one would spoil the whole packet, and
// everything after it.
// Thread: the drain's. Pure; no allocation; the input is untrusted.
#ifndef DLHOOK_PRELOAD_DRAIN_MESSAGE_CHECK_H_
#define DLHOOK_PRELOAD_DRAIN_MESSAGE_CHECK_H_

#include <cstddef>

namespace dlhook::inline drain {

// A serialized trace::Cudnn.
bool IsCudnnMessage(const void* bytes, size_t size);

}  // namespace dlhook::inline drain

#endif  // DLHOOK_PRELOAD_DRAIN_MESSAGE_CHECK_H_
