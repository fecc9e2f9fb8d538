// Which variation of a program is faster: a sequential test of times measured in rounds.
//
// In a round the program runs once as it is and once with each variation that is still in question. The samples of a
// variation are the logarithms of its rounds' ratios: what slows a whole round down falls out of them. They are judged
// after every round by the t-test that stays valid however often one looks, and whatever one stops or goes on for (Lindon,
// Ham, Tingley, Bojinov: "Anytime-valid linear models and regression adjusted causal inference in randomized experiments",
// arXiv 2210.08589; the mixture of likelihood ratios of Robbins, 1970, in the form for an unknown variance): with n samples of
// mean m and standard deviation s, and an effect of sqrt(kEffect) standard deviations expected,
//
//     a = 1 + n kEffect        q = (a / alpha^2)^(1/n)        bound = s / sqrt(n) * sqrt((n - 1) (q - 1) / (1 - q / a))
//
// bounds |m - truth| in all rounds together with the probability 1 - alpha; while q >= a nothing is known. Alpha is divided among
// the variations: the i-th of n, which are in the order of what they promise, has (n + 1) / (n i (i + 1)) of it. So of all contests
// of equal programs at most kContestAlpha tell any difference, and a large gain that a finding suggests needs four rounds.
// It assumes that the logarithms scatter normally; contest_test measures what happens where they do not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace dlhook::analyzer::inline whatif {

inline constexpr double kTryAlpha = 0.05;
inline constexpr double kContestAlpha =
    0.01;                               // of contests: with 0.05 one of 20 of a program against itself told a gain
inline constexpr double kWorth = 1.03;  // less is no gain worth a switch

// kNoGain: not kWorth times as fast, if it is faster at all. kFailed: it does not run with this.
enum class Outcome : uint8_t { kNotDecided, kFaster, kSlower, kNoGain, kFailed };
// "faster", "not decided" …; "not reached": there was no time for a first round.
const char* OutcomeName(Outcome outcome, bool was_tried);

// How many times as fast as the program as it is.
struct Speed {
  double value = 1;
  std::optional<double> low, high;  // unknown: too few rounds
};

// The bound of the formula above. Unset: too few samples. `least_spread`: of a few samples that agree by chance.
inline constexpr double kLeastSpread = 1e-3;
std::optional<double> BoundOfMean(const std::vector<double>& samples, double alpha, double least_spread = kLeastSpread);

// `log_ratios`: of the program's time to that of its variation, one a round.
Speed SpeedOf(const std::vector<double>& log_ratios, double alpha);

class Contest {
 public:
  explicit Contest(size_t variations) : log_ratios_(variations), failed_(variations) {}

  // The variations of the next round: those that were much faster so far; without such those that were fastest, where new ones stand
  // behind gains worth telling, and the one with the fewest rounds. Empty: all are decided.
  std::vector<size_t> NextRound() const;
  void Add(size_t variation, double base_ns, double ns);
  void Fail(size_t variation) { failed_[variation] = true; }

  size_t rounds(size_t variation) const { return log_ratios_[variation].size(); }
  Speed speed(size_t variation) const;
  Outcome outcome(size_t variation) const;

 private:
  std::vector<std::vector<double>> log_ratios_;
  std::vector<bool> failed_;
};

}  // namespace dlhook::analyzer::whatif
