// Whether this user may have more threads.
// Thread: the one that starts the writer.
#ifndef DLHOOK_PRELOAD_RUNTIME_PROCESS_ROOM_H_
#define DLHOOK_PRELOAD_RUNTIME_PROCESS_ROOM_H_

namespace dlhook::inline runtime {

// False if the limit (RLIMIT_NPROC) leaves this process's user so few threads that the host may need them all itself.
bool IsRoomForThread();

}  // namespace dlhook::inline runtime

#endif  // DLHOOK_PRELOAD_RUNTIME_PROCESS_ROOM_H_
