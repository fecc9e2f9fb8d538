// A recorded process without a preloaded shim: the real runtime/thread_state.cc on a session created by these tests,
// and the functions of link/ without hooks.
#pragma once

#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "preload/format/definitions.h"
#include "preload/runtime/process_state.h"
#include "preload/runtime/thread_state.h"

namespace dlhook {

// The state of the calling thread, which is attached to this process's session from now on.
ThreadState* Attach();

// The bytes of a definition of this process's session; "(none)" if there is none with that number and kind.
std::string DefinitionText(uint32_t number, DefinitionKind kind);

// The memory of sessions begun from now on (in this process's children): a file of this name, or anonymous if empty.
extern std::string g_session_file;

// The result of ObjectOf for this address from now on.
void PretendObject(const void* address, link_map* object);

// Of CountPlainPointer.
extern uint64_t g_plain_pointers;

// What was reported last: "NAME: REASON".
extern std::string g_capability;

// What HookFor returns instead of a real function, so that tests can check it.
inline void* HookMarker(HookId hook) { return reinterpret_cast<void*>(uintptr_t{0x70000} + hook); }

int WaitForChild(int pid);

// Runs `body` in a forked child; its failures are printed there and fail here.
template <typename Body>
void InChild(Body body) {
  fflush(nullptr);
  const int pid = fork();
  if (pid == 0) {
    body();
    fflush(nullptr);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  EXPECT_EQ(WaitForChild(pid), 0);
}

}  // namespace dlhook
