// Shared by all taps: how the interposed getenv calls them, and how they report their state.
// Thread: any application thread, also before any constructor has run.
#pragma once

#include "preload/format/taps.h"
#include "preload/runtime/config.h"
#include "preload/runtime/registry.h"

namespace dlhook::inline tap {

// glibc's, bypassing the shim's.
char* RealGetenv(const char* name);

// A tap that is switched on by a variable, or detects its library by the variables that it looks up.
struct GetenvTap {
  const char* beginning;  // of the names
  // Called for these: stores an answer in *answer, or returns false, and the program gets the same as without dlhook.
  bool (*on_getenv)(const char* name, void* caller, char** answer);
};
// In a tap's file, outside of functions; getenv asks all of them (environment_hooks.cc).
#define DLHOOK_GETENV_TAP(name, beginning, on_getenv) \
  __attribute__((section("dlhook_getenv_taps"), used)) const GetenvTap name = {beginning, on_getenv}

template <const Tap& kTap>
uint32_t FamilyBit() {
  static uint32_t bit = 0;
  if (bit == 0) bit = FamilyBitOf(kTap.family);
  return bit;
}

inline void Report(const Tap& tap, const char* object, CapabilityState state, const char* reason) {
  ReportCapability(tap.capability, object, state, reason);
}

// True: the user left it out, which is reported for `object`.
bool IsLeftOut(const Tap& tap, const char* object);

}  // namespace dlhook::inline tap
