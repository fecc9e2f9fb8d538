#include "analyzer/whatif/contest.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/algorithm/container.h"

namespace dlhook::analyzer::inline whatif {
namespace {

constexpr double kEffect = 100;   // gains worth telling are many times what equal runs differ by
constexpr size_t kAtOnce = 3;     // in a round: the program may take long to start
constexpr double kFar = 1.5;      // what was so much faster has rounds without others,
constexpr size_t kMostAlone = 8;  // so many

}  // namespace

const char* OutcomeName(Outcome outcome, bool was_tried) {
  if (outcome == Outcome::kNotDecided && !was_tried) return "not reached";
  constexpr const char* kNames[] = {"not decided", "faster", "slower", "no gain", "failed"};
  return kNames[static_cast<size_t>(outcome)];
}

std::optional<double> BoundOfMean(const std::vector<double>& samples, double alpha, double least_spread) {
  const auto n = static_cast<double>(samples.size());
  const double a = 1 + n * kEffect;
  const double q = std::pow(a / (alpha * alpha), 1 / n);
  if (n < 2 || q >= a) return std::nullopt;
  const double mean = absl::c_accumulate(samples, 0.0) / n;
  double squares = 0;
  for (double sample : samples) squares += (sample - mean) * (sample - mean);
  const double spread = std::max(std::sqrt(squares / (n - 1)), least_spread);
  return spread / std::sqrt(n) * std::sqrt((n - 1) * (q - 1) / (1 - q / a));
}

Speed SpeedOf(const std::vector<double>& log_ratios, double alpha) {
  if (log_ratios.empty()) return {};
  const double mean = absl::c_accumulate(log_ratios, 0.0) / static_cast<double>(log_ratios.size());
  Speed speed = {std::exp(mean), std::nullopt, std::nullopt};
  if (const std::optional<double> bound = BoundOfMean(log_ratios, alpha)) {
    speed.low = std::exp(mean - *bound);
    speed.high = std::exp(mean + *bound);
  }
  return speed;
}

Speed Contest::speed(size_t variation) const {
  const auto all = static_cast<double>(log_ratios_.size()), place = static_cast<double>(variation + 1);
  return SpeedOf(log_ratios_[variation], kContestAlpha * (all + 1) / (all * place * (place + 1)));
}

void Contest::Add(size_t variation, double base_ns, double ns) {
  log_ratios_[variation].push_back(std::log(base_ns / ns));
}

Outcome Contest::outcome(size_t variation) const {
  if (failed_[variation]) return Outcome::kFailed;
  const Speed found = speed(variation);
  if (!found.low) return Outcome::kNotDecided;
  if (*found.low > 1) return Outcome::kFaster;
  if (*found.high < 1) return Outcome::kSlower;
  return *found.high < kWorth ? Outcome::kNoGain : Outcome::kNotDecided;
}

std::vector<size_t> Contest::NextRound() const {
  std::vector<size_t> open;
  for (size_t i = 0; i < log_ratios_.size(); ++i) {
    if (outcome(i) == Outcome::kNotDecided) open.push_back(i);
  }
  std::vector<size_t> far;
  absl::c_copy_if(open, std::back_inserter(far),
                  [&](size_t i) { return rounds(i) > 0 && rounds(i) < kMostAlone && speed(i).value > kFar; });
  if (!far.empty()) open = far;
  const auto promise = [&](size_t i) { return rounds(i) == 0 ? kWorth : speed(i).value; };
  absl::c_stable_sort(open, [&](size_t a, size_t b) { return promise(a) > promise(b); });
  if (open.size() > kAtOnce) {
    const auto last = open.begin() + kAtOnce - 1;
    std::iter_swap(last, std::min_element(last, open.end(), [&](size_t a, size_t b) { return rounds(a) < rounds(b); }));
    open.resize(kAtOnce);
  }
  absl::c_sort(open);
  return open;
}

}  // namespace dlhook::analyzer::whatif
