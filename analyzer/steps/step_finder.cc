// Where in the period (step_period.cc) a step begins, and the list of all steps.
#include "analyzer/steps/step_finder.h"

#include <algorithm>
#include <map>

#include "absl/algorithm/container.h"
#include "analyzer/steps/step_period.h"

namespace dlhook::analyzer::inline steps {
namespace {

constexpr double kMostSteps = 0.8, kHalf = 0.5;
// steps examined to learn a typical one
constexpr size_t kSamples = 64;
// calls compared to distinguish positions in the step
constexpr size_t kMaxContext = 64;

// A typical step, beginning at the period's cut, and the median idle time before each of its calls.
struct Template {
  double in_order = 1;  // part of the steps that have their calls in this order
  std::vector<uint32_t> symbols;
  std::vector<int64_t> gap_ns;

  size_t size() const { return symbols.size(); }
  uint32_t at(size_t i) const { return symbols[i % size()]; }
};

std::vector<size_t> RegularPieces(const Cuts& cuts, const BagSums& bags, size_t size) {
  std::vector<size_t> pieces;
  for (size_t i = 0; i < cuts.positions.size() && pieces.size() < kSamples; ++i) {
    const size_t end = i + 1 < cuts.positions.size() ? cuts.positions[i + 1] : size;
    if (bags.Of(cuts.positions[i], end) == cuts.bag) pieces.push_back(cuts.positions[i]);
  }
  return pieces;
}

int64_t Median(std::vector<int64_t> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

Template LearnTemplate(const StepSequence& sequence, const Cuts& cuts, const BagSums& bags) {
  std::map<std::vector<uint32_t>, std::vector<size_t>> orders;
  const std::vector<size_t> pieces = RegularPieces(cuts, bags, sequence.size());
  for (size_t begin : pieces) {
    const auto first = sequence.symbol.begin() + begin;
    orders[std::vector<uint32_t>(first, first + cuts.length)].push_back(begin);
  }
  const auto most =
      absl::c_max_element(orders, [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  Template result;
  result.in_order = static_cast<double>(most->second.size()) / static_cast<double>(pieces.size());
  result.symbols = most->first;
  for (size_t i = 0; i < result.size(); ++i) {
    std::vector<int64_t> gaps;
    for (size_t begin : most->second) {
      const size_t call = begin + i;
      if (call > 0) gaps.push_back(std::max<int64_t>(0, sequence.start_ns[call] - sequence.end_ns[call - 1]));
    }
    result.gap_ns.push_back(Median(std::move(gaps)));
  }
  return result;
}

// Whether a position has backward calls on both sides: no step begins there.
bool IsInsideBackward(const StepSequence& sequence, const Template& step, size_t place) {
  const auto pass_from = [&](size_t first, bool ahead) {
    for (size_t i = 0; i < step.size(); ++i) {
      const size_t at = ahead ? first + i : first + 2 * step.size() - 1 - i;
      const StepSymbol::Pass pass = sequence.symbols[step.at(at)].pass;
      if (pass != StepSymbol::Pass::kUnknown) return pass;
    }
    return StepSymbol::Pass::kUnknown;
  };
  return pass_from(place, true) == StepSymbol::Pass::kBackward &&
         pass_from(place, false) == StepSymbol::Pass::kBackward;
}

bool HasBackward(const StepSequence& sequence, const Template& step) {
  return absl::c_any_of(step.symbols,
                        [&](uint32_t symbol) { return sequence.symbols[symbol].pass == StepSymbol::Pass::kBackward; });
}

// The program's first calls are a step's first calls, if they match the step from one of its positions on.
std::optional<size_t> BeginByFirstCalls(const StepSequence& sequence, const Template& step) {
  const size_t enough = std::min(step.size(), std::max<size_t>(2, std::min<size_t>(step.size() / 2, 8)));
  const bool has_backward = HasBackward(sequence, step);
  std::optional<size_t> best;
  size_t best_length = 0;
  for (size_t i = 0; i < step.size(); ++i) {
    size_t length = 0;
    while (length < std::min(kMaxContext, sequence.size()) && sequence.symbol[length] == step.at(i + length)) ++length;
    if (length < enough || length < best_length) continue;
    if (has_backward && IsInsideBackward(sequence, step, i)) continue;
    if (length == best_length && best && step.gap_ns[i] <= step.gap_ns[*best]) continue;
    best = i;
    best_length = length;
  }
  return best;
}

size_t LargestGap(const Template& step, size_t begin, size_t end) {
  size_t best = begin;
  for (size_t i = begin; i < end; ++i) {
    if (step.gap_ns[i % step.size()] > step.gap_ns[best % step.size()]) best = i;
  }
  return best % step.size();
}

// Between the last backward and the next forward call, at the longest pause.
std::optional<size_t> BeginByPass(const StepSequence& sequence, const Template& step) {
  std::optional<size_t> best;
  size_t after_backward = SIZE_MAX;
  for (size_t i = 0; i < 2 * step.size(); ++i) {  // twice around, because the cycle wraps
    const StepSymbol::Pass pass = sequence.symbols[step.at(i)].pass;
    if (pass == StepSymbol::Pass::kBackward) after_backward = i + 1;
    if (pass != StepSymbol::Pass::kForward || after_backward == SIZE_MAX) continue;
    const size_t begin = LargestGap(step, after_backward, i + 1);
    if (!best || step.gap_ns[begin] > step.gap_ns[*best]) best = begin;
    after_backward = SIZE_MAX;
  }
  return best;
}

size_t FindBegin(const StepSequence& sequence, const Template& step) {
  if (const auto begin = BeginByFirstCalls(sequence, step)) return *begin;
  if (const auto begin = BeginByPass(sequence, step)) return *begin;
  return LargestGap(step, 0, step.size());
}

// Identifies a step's first call: the calls that follow it, and the calls before positions that look alike but are
// inside a step (the second of two equal layers).
struct Signature {
  std::vector<uint32_t> calls;
  std::vector<uint32_t> not_after;
  // At another batch size one call is not enough: two products may have two of their three sizes in common.
  std::vector<uint32_t> calls_at_other_batch;
};

bool LooksAlike(const Template& step, size_t a, size_t b, size_t length) {
  for (size_t i = 0; i < length; ++i) {
    if (step.at(a + i) != step.at(b + i)) return false;
  }
  return true;
}

std::optional<Signature> SignatureOf(const Template& step, size_t begin) {
  const size_t size = step.size();
  const uint32_t before = step.at(begin + size - 1);
  for (size_t length = 1; length <= std::min(size, kMaxContext); ++length) {
    Signature signature;
    for (size_t i = 1; i < size; ++i) {
      if (LooksAlike(step, begin, begin + i, length)) signature.not_after.push_back(step.at(begin + i - 1));
    }
    if (absl::c_count(signature.not_after, before) > 0) continue;
    for (size_t i = 0; i < length; ++i) signature.calls.push_back(step.at(begin + i));
    for (size_t i = 0; i < std::max<size_t>(length, 2); ++i) {
      signature.calls_at_other_batch.push_back(step.at(begin + i));
    }
    return signature;
  }
  return std::nullopt;
}

// Whether the call before `begin` is one that never precedes a step's first call, at one of these ratios.
bool FollowsInside(const StepSequence& sequence, const Signature& signature, size_t begin,
                   const std::vector<Ratio>& ratios) {
  if (begin == 0) return false;
  for (uint32_t symbol : signature.not_after) {
    for (const Ratio& ratio : BatchRatios(sequence, symbol, sequence.symbol[begin - 1])) {
      if (absl::c_linear_search(ratios, ratio)) return true;
    }
  }
  return false;
}

// Whether the calls from `begin` on are the signature's at another batch size: the same ratio for all that differ
// (moving weights does not depend on the batch).
bool MatchesAtOtherBatch(const StepSequence& sequence, const Signature& signature, size_t begin) {
  const std::vector<uint32_t>& calls = signature.calls_at_other_batch;
  if (begin + calls.size() > sequence.size()) return false;
  std::vector<Ratio> common;
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::vector<Ratio> ratios = BatchRatios(sequence, calls[i], sequence.symbol[begin + i]);
    if (ratios.empty()) return false;
    if (ratios[0] == Ratio{}) continue;
    if (common.empty()) {
      common = ratios;
      continue;
    }
    std::erase_if(common, [&](const Ratio& ratio) { return !absl::c_linear_search(ratios, ratio); });
    if (common.empty()) return false;
  }
  return !common.empty() && !FollowsInside(sequence, signature, begin, common);
}

bool Matches(const StepSequence& sequence, const Signature& signature, size_t begin) {
  if (begin + signature.calls.size() > sequence.size()) return false;
  if (begin > 0 && absl::c_linear_search(signature.not_after, sequence.symbol[begin - 1])) return false;
  return std::equal(signature.calls.begin(), signature.calls.end(), sequence.symbol.begin() + begin);
}

std::vector<size_t> ExactStarts(const StepSequence& sequence, const Signature& signature) {
  std::vector<size_t> starts;
  for (size_t i = 0; i < sequence.size(); ++i) {
    if (Matches(sequence, signature, i)) starts.push_back(i);
  }
  return starts;
}

// An irregular piece may contain steps at another batch size (evaluation, a smaller last batch): cut these, too.
void AddStartsAtOtherBatch(const StepSequence& sequence, const BagSums& bags, const Signature& signature, Cuts& cuts) {
  std::vector<size_t> starts;
  const auto scan = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (MatchesAtOtherBatch(sequence, signature, i)) starts.push_back(i);
    }
  };
  if (!cuts.positions.empty()) scan(0, cuts.positions.front());
  for (size_t i = 0; i < cuts.positions.size(); ++i) {
    const size_t end = i + 1 < cuts.positions.size() ? cuts.positions[i + 1] : sequence.size();
    starts.push_back(cuts.positions[i]);
    if (bags.Of(cuts.positions[i], end) != cuts.bag) scan(cuts.positions[i] + 1, end);
  }
  cuts.positions = std::move(starts);
}

// The program's first calls begin a step, in whatever order (an engine that runs what is ready): as many come before
// the cut of each step.
std::optional<Cuts> BeginByFirstBag(const BagSums& bags, const Cuts& period, size_t size) {
  const size_t head = period.positions.front();
  if (head >= period.length) return std::nullopt;
  std::vector<size_t> starts;
  size_t alike = 0;
  for (size_t position : period.positions) {
    const bool is_alike = bags.Of(position - head, position) == bags.Of(0, head);
    const size_t start = is_alike ? position - head : position;
    if (!starts.empty() && start <= starts.back()) return std::nullopt;
    starts.push_back(start);
    alike += is_alike ? 1 : 0;
  }
  if (static_cast<double>(alike) < kMostSteps * static_cast<double>(starts.size())) return std::nullopt;
  return EvaluateCuts(std::move(starts), bags, size);
}

// The same period, cut where steps begin. `period` itself if the calls do not show that.
Cuts MoveToBegin(const StepSequence& sequence, const BagSums& bags, Cuts period) {
  const Template step = LearnTemplate(sequence, period, bags);
  if (step.in_order < kHalf || (step.in_order < 1 && !BeginByFirstCalls(sequence, step))) {
    if (std::optional<Cuts> begun = BeginByFirstBag(bags, period, sequence.size())) return *std::move(begun);
  }
  const std::optional<Signature> signature = SignatureOf(step, FindBegin(sequence, step));
  if (!signature) return period;
  Cuts moved = EvaluateCuts(ExactStarts(sequence, *signature), bags, sequence.size());
  if (moved.bag != period.bag) return period;
  AddStartsAtOtherBatch(sequence, bags, *signature, moved);
  moved = EvaluateCuts(std::move(moved.positions), bags, sequence.size());
  // Threads whose order varies within a step hide its first call; then the period's own cut is better.
  if (moved.bag != period.bag || moved.coverage + 0.05 < period.coverage) return period;
  return moved;
}

}  // namespace

StepPattern FindSteps(const StepSequence& sequence) {
  StepPattern pattern;
  const BagSums bags(sequence.symbol);
  std::optional<Cuts> period = FindPeriod(sequence, bags);
  if (!period) return pattern;
  const Cuts steps = MoveToBegin(sequence, bags, *std::move(period));
  pattern.period = steps.length;
  pattern.coverage = steps.coverage;
  for (size_t i = 0; i < steps.positions.size(); ++i) {
    const size_t end = i + 1 < steps.positions.size() ? steps.positions[i + 1] : sequence.size();
    pattern.regular.push_back(bags.Of(steps.positions[i], end) == steps.bag);
  }
  pattern.starts = steps.positions;
  return pattern;
}

}  // namespace dlhook::analyzer::steps
