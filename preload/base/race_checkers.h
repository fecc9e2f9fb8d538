// Valgrind's race checkers know the C library's locks but not atomics: they are instructed to ignore the shim's own
// memory. Thread: any.
#pragma once

namespace dlhook::inline base {

// Covers the shim's variables. Mapped pages are covered by its mmap and mremap (race_checkers.cc).
void HideVariablesFromRaceCheckers();

}  // namespace dlhook::inline base
