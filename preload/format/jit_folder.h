// Where a process has the code described that its libraries compile while it runs.
#pragma once

namespace dlhook::inline format {

// In place of the ".dlh" of the process's trace. Jitdumps are below it, as their writers wish: .debug/jit/*/jit-PID.dump.
constexpr char kJitFolderSuffix[] = ".jit";

}  // namespace dlhook::inline format
