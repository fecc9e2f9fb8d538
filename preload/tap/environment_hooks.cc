// The interposed getenv, shared by all taps. It answers from the environment except for the few names that a tap
// registered: it checks the first character, and compares names that begin like one of those.
// Thread: any application thread, also before any constructor has run; never allocates.
#include <stdio.h>

#include "preload/link/resolver.h"
#include "preload/tap/tap.h"

// The section's bounds, from the linker.
extern "C" {
extern const dlhook::GetenvTap __start_dlhook_getenv_taps[] __attribute__((visibility("hidden")));
extern const dlhook::GetenvTap __stop_dlhook_getenv_taps[] __attribute__((visibility("hidden")));
}

namespace dlhook::inline tap {
namespace {

bool TapAnswers(const char* name, void* caller, char** answer) {
  for (const GetenvTap* tap = __start_dlhook_getenv_taps; tap != __stop_dlhook_getenv_taps; ++tap) {
    if (name[0] != tap->beginning[0] || strncmp(name, tap->beginning, strlen(tap->beginning)) != 0) continue;
    if (tap->on_getenv(name, caller, answer)) return true;
  }
  return false;
}

}  // namespace

char* RealGetenv(const char* name) {
  static std::atomic<char* (*)(const char*)> known{nullptr};
  return RealOf("getenv", &known)(name);
}

bool IsLeftOut(const Tap& tap, const char* object) {
  const Config& config = GetConfig();
  char reason[96] = "DLHOOK_SCOPES=off";
  bool records_scopes = tap.source == fields::TimeSource::kUnknown;
  if (!records_scopes || config.scopes != ScopesMode::kOff) {
    if ((config.families & FamilyBitOf(tap.family)) != 0) return false;
    snprintf(reason, sizeof reason, "DLHOOK_CAPTURE leaves out %s", tap.family);
  }
  Report(tap, object, CapabilityState::kOff, reason);
  return true;
}

}  // namespace dlhook::inline tap

extern "C" __attribute__((visibility("default"))) char* getenv(const char* name) noexcept {
  char* answer = nullptr;
  if (dlhook::TapAnswers(name, __builtin_return_address(0), &answer)) return answer;
  return dlhook::RealGetenv(name);
}
