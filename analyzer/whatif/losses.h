// The loss as a program prints it, to see what a variation changes in what is computed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline whatif {

// The first number behind the word "loss" of each line that has both, whatever its case: "step 3: train_loss=0.693".
std::vector<double> LossesIn(absl::string_view output);

struct LossChange {
  size_t lines = 0;            // that both printed
  double most = 0;             // difference, relative to the larger
  size_t first = 0;            // the first line that differs, from 1; 0: none does
  double base = 0, other = 0;  // there
};
LossChange CompareLosses(const std::vector<double>& base, const std::vector<double>& other);

// `own`: of two runs of the program as it is. Empty: nothing can be said.
std::string LossSentence(const LossChange& change, const LossChange& own);

}  // namespace dlhook::analyzer::whatif
