// Valgrind's race checkers know locks of the C library but no atomics: they are told to leave the shim's own memory alone.
// Thread: any.
#ifndef DLHOOK_PRELOAD_BASE_RACE_CHECKERS_H_
#define DLHOOK_PRELOAD_BASE_RACE_CHECKERS_H_

namespace dlhook::inline base {

// The shim's variables. Pages that it maps are told of by its mmap and mremap (race_checkers.cc).
void HideVariablesFromRaceCheckers();

}  // namespace dlhook::inline base

#endif  // DLHOOK_PRELOAD_BASE_RACE_CHECKERS_H_
