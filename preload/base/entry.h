// The two ways into an exported wrapper. Callers that the loader bound come in by its name, those with a pointer from
// dlsym through a thunk (link/dlsym.S), which has the function that was looked up in r10 and enters kSecondEntry bytes
// later. So the function travels with the call: nothing that a signal handler does before the wrapper reads it can
// change it. r10 contains no argument of a C function; files with bodies are compiled so that it is used for nothing
// else (preload/CMakeLists.txt).
//
//   DLHOOK_ENTRY(cublasGetVersion_v2)
//   int DLHOOK_BODY(cublasGetVersion_v2)(void* handle, int* version) {
//     void* looked_up = LookedUpFunction();
#pragma once

namespace dlhook::inline base {

// endbr64 and xorl below; a second endbr64 follows.
constexpr unsigned kSecondEntry = 7;

// First of all in a body, once. Null: the call did not come through a thunk.
__attribute__((always_inline)) inline void* LookedUpFunction() {
  void* function;
  asm volatile("movq %%r10, %0" : "=r"(function));
  return function;
}

}  // namespace dlhook::inline base

// What the shim shows to the process; all else is hidden. Without a version: with one, the loader would silently skip every hook
// of a versioned symbol.
#define DLHOOK_EXPORT __attribute__((visibility("default")))

// What a body tells of its call: the function's name, the function, and the address that called it.
#define DLHOOK_CALLED(name) (#name), reinterpret_cast<void*>(&name), __builtin_return_address(0)

#define DLHOOK_BODY(name) dlhook_body_##name

// At file scope, in a file that defines the body as an extern "C" function.
#define DLHOOK_ENTRY(name)        \
  asm(".pushsection .text\n"      \
      ".globl " #name             \
      "\n"                        \
      ".type " #name              \
      ", @function\n"             \
      ".p2align 4\n" #name        \
      ":\n"                       \
      ".cfi_startproc\n"          \
      "endbr64\n"                 \
      "xorl %r10d, %r10d\n"       \
      "endbr64\n"                 \
      "jmp dlhook_body_" #name    \
      "\n"                        \
      ".cfi_endproc\n"            \
      ".size " #name ", .-" #name \
      "\n"                        \
      ".popsection")
