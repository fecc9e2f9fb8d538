// The JAX tap's windows: how long jaxlib's profiler runs, and how long it rests. Pure.
// Thread: dlhook-jax.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlhook::inline tap {

struct WindowPlan {
  uint64_t window_ns = 100'000'000;
  uint64_t pause_ns = 0;  // after it
  uint64_t windows = 0;   // so far, in which something ran
};

// The plan for the next window, after one that lasted `window_ns`, took `stop_ns` to stop and gave `bytes`: about 100 for
// each operation, which took longer for it. Windows aim at 1 MiB. From the fourth on, the pause is 100 times as long as
// all that a window cost, and grows while the program goes on; the first ones are shorter, for short programs.
void PlanNextWindow(size_t bytes, uint64_t window_ns, uint64_t stop_ns, WindowPlan* plan);

// How many elements all constants of a program that XLA compiled have together, by its text, in which large ones are left out:
//   %constant.1 = f32[2048,2048]{1,0} constant({...})
uint64_t ConstantElements(const char* text);

// Overwrites constants' values, which may be the user's, in a serialized xla.HloModuleProto with zeros. Bytes that are not one
// stay as they are.
void ClearConstants(void* module, size_t bytes);

}  // namespace dlhook::inline tap
