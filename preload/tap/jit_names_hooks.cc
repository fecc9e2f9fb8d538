// Names for code that oneDNN and LLVM compile while the program runs: where samples are taken, they are asked to write a
// jitdump, by the variables that they look up themselves.
// Thread: any application thread; getenv may be called before any constructor.

#include "preload/runtime/jit_names.h"
#include "preload/tap/tap.h"

namespace dlhook::inline tap {
namespace {

constexpr char kWritesJitDump[] = "4";  // DNNL_JIT_PROFILE_LINUX_JITDUMP
const char* const kProfileVariables[] = {"ONEDNN_JIT_PROFILE", "DNNL_JIT_PROFILE"};
constexpr char kFolderVariable[] = "JITDUMPDIR";

// What the user has set stays.
bool OnGetenv(const char* name, void*, char** answer) {
  for (const char* variable : kProfileVariables) {
    if (RealGetenv(variable) != nullptr) return false;
  }
  if (RealGetenv(kFolderVariable) != nullptr) return false;
  ErrnoKeeper keeper;
  char* folder = JitFolder();
  if (folder == nullptr) return false;
  bool is_folder = strcmp(name, kFolderVariable) == 0;
  if (!is_folder && strcmp(name, kProfileVariables[0]) != 0) return false;
  *answer = is_folder ? folder : const_cast<char*>(kWritesJitDump);
  return true;
}
DLHOOK_GETENV_TAP(kOneDnnProfile, "ONEDNN_JIT_PROFILE", &OnGetenv);
DLHOOK_GETENV_TAP(kDumpFolder, kFolderVariable, &OnGetenv);

}  // namespace
}  // namespace dlhook::inline tap
