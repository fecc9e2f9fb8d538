// The interposed getenv. It answers from the environment but for the few names that a tap asked for: one look at
// the first character, a few compares for names that begin like one of those.
// Thread: any application thread, also before any constructor has run; never allocates.
#include "preload/tap/environment_hooks.h"

#include <dlfcn.h>

#include <atomic>

#include "preload/link/resolver.h"
#include "preload/tap/nvtx.h"
#include "preload/tap/onednn.h"
#include "preload/tap/trace_me.h"

namespace dlhook {
namespace {

using Getenv = char* (*)(const char*);

// A tap's answer to `name` in *answer. False: none of theirs.
bool TapAnswers(const char* name, void* caller, char** answer) {
  switch (name[0]) {
    case 'D':
    case 'M':
    case 'O':
      if (!IsVerboseVariable(name)) return false;
      *answer = AnswerVerboseVariable(name, caller);
      return true;
    case 'N':
      if (!IsInjectionVariable(name)) return false;
      *answer = AnswerInjectionVariable(name, caller);
      return true;
    case 'T':
      if (name[1] == 'F' && name[2] == '_') NoticeTensorFlow(caller);
      return false;
    default:
      return false;
  }
}

}  // namespace

char* RealGetenv(const char* name) {
  static std::atomic<Getenv> cached{nullptr};
  Getenv real = cached.load(std::memory_order_relaxed);
  if (real == nullptr) {
    real = reinterpret_cast<Getenv>(RealDlsym(RTLD_NEXT, "getenv"));
    cached.store(real, std::memory_order_relaxed);
  }
  return real(name);
}

}  // namespace dlhook

extern "C" __attribute__((visibility("default"))) char* getenv(const char* name) noexcept {
  char* answer = nullptr;
  if (dlhook::TapAnswers(name, __builtin_return_address(0), &answer)) return answer;
  return dlhook::RealGetenv(name);
}
