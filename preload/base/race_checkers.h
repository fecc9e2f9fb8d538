// Valgrind's race checkers know the C library's locks but not atomics: they are instructed to ignore the shim's own
// memory. Thread: any.
#ifndef DLHOOK_PRELOAD_BASE_RACE_CHECKERS_H_
#define DLHOOK_PRELOAD_BASE_RACE_CHECKERS_H_

namespace dlhook::inline base {

// Covers the shim's variables. Mapped pages are covered by its mmap and mremap (race_checkers.cc).
void HideVariablesFromRaceCheckers();

}  // namespace dlhook::inline base

#endif  // DLHOOK_PRELOAD_BASE_RACE_CHECKERS_H_
