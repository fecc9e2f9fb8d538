// The trace of a training loop of any length, as PyTorch's would be: two linear layers, forward and backward, and an optimizer; an
// evaluation once in a hundred steps, and a range of the user's around every 500.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace dlhook::analyzer {

// Calls and scopes of a step.
inline constexpr int kTrainingStepCalls = 4;
inline constexpr int kTrainingStepScopes = 10;

// Hands the bytes of one packet after another to `write`.
void WriteTrainingTrace(int64_t steps, const std::function<void(const std::string& packet)>& write);

}  // namespace dlhook::analyzer
