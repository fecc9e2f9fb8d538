#include "analyzer/answer/step_history.h"

#include <algorithm>
#include <vector>

#include "analyzer/steps/measured_steps.h"

namespace dlhook::analyzer::inline answer {
namespace {

constexpr size_t kMostSteps = 100'000;
constexpr int64_t kMinuteNs = 60'000'000'000;
constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr char kLetters[] = ".:-=+*#@";
constexpr size_t kLevels = 8;

int64_t MedianOf(std::vector<int64_t> values) { return QuartilesOf(std::move(values)).median; }

}  // namespace

void StepHistory::Add(const StepTrack& track, StepKind kind) {
  const bool goes_back = !steps_.empty() && !track.steps.empty() && track.steps.back().end_ns < steps_.back().end_ns;
  if (kind != kind_ || goes_back) steps_.clear();
  kind_ = kind;
  for (size_t i = 0; i + 1 < track.steps.size(); ++i) {
    const Step& step = track.steps[i];
    const int64_t duration_ns = step.end_ns - step.start_ns;
    const bool is_known = !steps_.empty() && step.start_ns + duration_ns / 2 < steps_.back().end_ns;
    if (step.kind == kind && !is_known) steps_.push_back({step.end_ns, duration_ns});
  }
  while (steps_.size() > kMostSteps) steps_.pop_front();
}

std::optional<StepTrend> StepHistory::Trend() const {
  if (steps_.empty()) return std::nullopt;
  const int64_t first_ns = steps_.front().end_ns - steps_.front().duration_ns, last_ns = steps_.back().end_ns;
  const int64_t from_ns = last_ns - std::min(kMinuteNs, (last_ns - first_ns) / 3);
  std::vector<int64_t> now, before;
  for (const Known& step : steps_) (step.end_ns > from_ns ? now : before).push_back(step.duration_ns);
  StepTrend trend = {.now_ns = static_cast<double>(MedianOf(now)),
                     .now_steps = now.size(),
                     .now_span_ns = last_ns - from_ns,
                     .before_steps = before.size(),
                     .before_span_ns = from_ns - first_ns};
  if (!before.empty()) trend.before_ns = static_cast<double>(MedianOf(before));
  return trend;
}

std::string StepHistory::Sparkline(size_t columns, bool unicode) const {
  if (steps_.empty() || columns == 0) return "";
  const int64_t first_ns = steps_.front().end_ns - steps_.front().duration_ns;
  const int64_t span_ns = std::max<int64_t>(steps_.back().end_ns - first_ns, 1);
  std::vector<std::vector<int64_t>> parts(columns);
  for (const Known& step : steps_) {
    const int64_t middle_ns = step.end_ns - step.duration_ns / 2;
    const auto part = static_cast<double>(middle_ns - first_ns) / static_cast<double>(span_ns);
    parts[std::min(columns - 1, static_cast<size_t>(part * static_cast<double>(columns)))].push_back(step.duration_ns);
  }
  std::vector<int64_t> medians;
  int64_t least_ns = INT64_MAX, most_ns = 0;
  for (std::vector<int64_t>& part : parts) {
    medians.push_back(part.empty() ? -1 : MedianOf(std::move(part)));
    if (medians.back() < 0) continue;
    least_ns = std::min(least_ns, medians.back());
    most_ns = std::max(most_ns, medians.back());
  }
  const auto range = static_cast<double>(std::max<int64_t>(std::max(most_ns - least_ns, least_ns), 1));
  std::string line;
  for (const int64_t median_ns : medians) {
    if (median_ns < 0) {
      line += ' ';
      continue;
    }
    const auto level = static_cast<size_t>(static_cast<double>(median_ns - least_ns) / range * (kLevels - 1) + 0.5);
    line += unicode ? std::string(kBlocks[level]) : std::string(1, kLetters[level]);
  }
  return line;
}

}  // namespace dlhook::analyzer::answer
