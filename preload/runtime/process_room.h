// May this user have more threads?
// Thread: the one that starts the writer.
#ifndef DLHOOK_PRELOAD_RUNTIME_PROCESS_ROOM_H_
#define DLHOOK_PRELOAD_RUNTIME_PROCESS_ROOM_H_

namespace dlhook::inline runtime {

// False where the limit (RLIMIT_NPROC) leaves so few to this process's user that the host may want them all itself.
bool IsRoomForThread();

}  // namespace dlhook::inline runtime

#endif  // DLHOOK_PRELOAD_RUNTIME_PROCESS_ROOM_H_
