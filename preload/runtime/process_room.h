// Whether this user may have more threads.
// Thread: the one that starts the writer.
#pragma once

namespace dlhook::inline runtime {

// False if the limit (RLIMIT_NPROC) leaves this process's user so few threads that the host may need them all itself.
bool IsRoomForThread();

}  // namespace dlhook::inline runtime
