// Step times of a run that goes on: what they are now, and what they were before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline answer {

// The median step of the newest time against that of the time before it.
struct StepTrend {
  double now_ns = 0;
  size_t now_steps = 0;
  int64_t now_span_ns = 0;
  double before_ns = 0;
  size_t before_steps = 0;  // 0: nothing to compare with yet
  int64_t before_span_ns = 0;
};

class StepHistory {
 public:
  // The steps of `kind` among those of a process that were read now; those that are known already, and the last one, which may go on,
  // are left out. Steps of another kind than before, or before those that are known, start the history again.
  void Add(const StepTrack& track, StepKind kind);

  size_t size() const { return steps_.size(); }
  // Of the last minute, or of the newest third while there is less than three minutes. nullopt: there is no step.
  std::optional<StepTrend> Trend() const;
  // Median step times of `columns` equal parts of the time, "▁▃█": from the bottom (the fastest part) to the top (the slowest, or
  // twice the fastest if that is more). A part without steps is blank. `unicode`: else ".:-=+*#@".
  std::string Sparkline(size_t columns, bool unicode) const;

 private:
  struct Known {
    int64_t end_ns = 0;
    int64_t duration_ns = 0;
  };
  StepKind kind_ = StepKind::kUnknown;
  std::deque<Known> steps_;  // by end
};

}  // namespace dlhook::analyzer::answer
