// Reads the environment without getenv, which is one of our own hooks.
#pragma once

#include <string.h>
#include <unistd.h>

namespace dlhook::inline base {

// The value of a variable, or null.
inline const char* EnvironmentVariable(const char* name) {
  size_t length = strlen(name);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return *entry + length + 1;
  }
  return nullptr;
}

}  // namespace dlhook::inline base
