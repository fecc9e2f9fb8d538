// Constants of programs that XLA compiled: arrays of the user's may be among them, of any size. Their values are never
// written. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlhook::inline tap {

// How many elements all constants of a program have together, by its text, in which large ones are left out:
//   %constant.1 = f32[2048,2048]{1,0} constant({...})
uint64_t ConstantElements(const char* text);

// Overwrites the values in a serialized xla.HloModuleProto with zeros. Bytes that are not one stay as they are.
void ClearConstants(void* module, size_t bytes);

}  // namespace dlhook::inline tap
