// What a run may make its reader do: docs/limits.md. Beyond that the command is refused by a sentence, instead of taking all memory of the
// machine, or hours. No honest run comes near.
#ifndef DLHOOK_ANALYZER_MODEL_LIMITS_H_
#define DLHOOK_ANALYZER_MODEL_LIMITS_H_

#include <cstdint>
#include <stdexcept>
#include <string>

#include "absl/strings/str_cat.h"

namespace dlhook::analyzer::inline model {

constexpr size_t kMaxNameBytes = 16 << 10;         // of a name; the shim keeps names of half that
constexpr uint64_t kMaxStackFrames = 1 << 22;      // of all distinct stacks of calls together
constexpr uint64_t kMaxStackTextBytes = 64 << 20;  // of all distinct stacks written out
constexpr uint64_t kMaxProfileSteps = 1 << 27;     // from every node of an exported call tree to its root
constexpr uint64_t kMaxExportBytes = 100 << 20;    // of an export that writes every stack out
constexpr uint64_t kMaxIntervals = 1 << 20;        // rows over time, of all processes and devices
constexpr size_t kMaxOpenScopes = 1024;            // of a thread, one in another; a writer keeps fewer
constexpr size_t kMaxPassLayers = 2048;            // of one pass through a network; what goes on is another pass

// The only exception of dlhook's own: what finds it out may stand deep in a table that is made. Caught in Main (cli/commands.cc).
class LimitError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An amount of something that only grows.
class Limit {
 public:
  // `what`: "frames in distinct stacks".
  constexpr Limit(const char* what, uint64_t most) : what_(what), most_(most), left_(most) {}
  void Take(uint64_t amount) {
    if (amount > left_) throw LimitError(absl::StrCat("more than ", most_, " ", what_, ", the most that dlhook takes"));
    left_ -= amount;
  }

 private:
  const char* what_;
  uint64_t most_;
  uint64_t left_;
};

}  // namespace dlhook::analyzer::model

#endif  // DLHOOK_ANALYZER_MODEL_LIMITS_H_
