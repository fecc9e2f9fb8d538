// Anomalies in a trace: a sentence for the user and the number of occurrences. Never a reason to fail.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline model {

constexpr char kNewerForm[] = "a trace in a newer form than this dlhook knows; what is new in it was left out";

class Oddities {
 public:
  void Count(absl::string_view sentence, int64_t times = 1) {
    if (times != 0) counts_[std::string(sentence)] += times;
  }
  std::map<std::string, int64_t> Take() && { return std::move(counts_); }

 private:
  std::map<std::string, int64_t> counts_;
};

}  // namespace dlhook::analyzer::model
