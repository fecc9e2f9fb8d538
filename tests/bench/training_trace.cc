// Writes the trace of a training loop (tests/analyzer/training_trace.h) whose calls and scopes are COUNT together:
//   training_trace COUNT FILE
#include "tests/analyzer/training_trace.h"

#include <cstdio>
#include <cstdlib>
#include <string>

using dlhook::analyzer::kTrainingStepCalls;
using dlhook::analyzer::kTrainingStepScopes;

int main(int argc, char** argv) {
  const long long steps = argc == 3 ? std::atoll(argv[1]) / (kTrainingStepCalls + kTrainingStepScopes) : 0;
  std::FILE* const file = steps > 0 ? std::fopen(argv[2], "wb") : nullptr;
  if (file == nullptr) {
    std::fprintf(stderr, "training_trace COUNT FILE: expected a number from %d on and a file\n",
                 kTrainingStepCalls + kTrainingStepScopes);
    return 2;
  }
  dlhook::analyzer::WriteTrainingTrace(
      steps, [&](const std::string& packet) { std::fwrite(packet.data(), 1, packet.size(), file); });
  return std::fclose(file) == 0 ? 0 : 1;
}
