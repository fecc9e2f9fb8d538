// First half of the step finder: how long a step is. See step_finder.h.
#include "analyzer/steps/step_period.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"

namespace dlhook::analyzer::inline steps {
namespace {

// the part of the sequence that a period must cover; the rest may be warm-up, evaluation, other work
constexpr double kEnoughCoverage = 0.6;
// the same if there are only two equal pieces
constexpr double kTwoPiecesCoverage = 0.9;
// A longer period must cover nearly as much as the shorter one inside it.
constexpr double kNotMuchLess = 0.8;
// A training step repeated more often than this within a longer period is a step of an epoch, not of gradient
// accumulation.
constexpr int64_t kMaxAccumulation = 16;

uint64_t Mix(uint64_t x) {  // splitmix64's finalizer
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Cuts before every call for which the hash of the last `context` calls (including itself) is the same.
std::vector<Cuts> CutsByContext(const StepSequence& sequence, const BagSums& bags, size_t context) {
  absl::flat_hash_map<uint64_t, std::vector<size_t>> positions;
  for (size_t i = context - 1; i < sequence.size(); ++i) {
    uint64_t key = 0;
    for (size_t j = 0; j < context; ++j) key = Mix(key ^ sequence.symbol[i - j]);
    positions[key].push_back(i);
  }
  std::vector<Cuts> all;
  for (auto& [key, list] : positions) {
    if (list.size() < 2) continue;
    Cuts cuts = EvaluateCuts(std::move(list), bags, sequence.size());
    const double enough = cuts.count >= 3 ? kEnoughCoverage : kTwoPiecesCoverage;
    if (cuts.count >= 2 && cuts.coverage >= enough) all.push_back(std::move(cuts));
  }
  return all;
}

// How often each symbol occurs in the first piece that has the bag of `cuts`.
std::map<uint32_t, int64_t> Content(const Cuts& cuts, const StepSequence& sequence, const BagSums& bags) {
  std::map<uint32_t, int64_t> content;
  for (size_t begin : cuts.positions) {
    const size_t end = begin + cuts.length;
    if (end > sequence.size() || bags.Of(begin, end) != cuts.bag) continue;
    for (size_t i = begin; i < end; ++i) ++content[sequence.symbol[i]];
    break;
  }
  return content;
}

// The part of one piece of the longer period besides whole repetitions of the shorter one.
struct Remainder {
  int64_t repetitions = 0;
  std::map<uint32_t, int64_t> rest;
};

Remainder Divide(const std::map<uint32_t, int64_t>& longer, const std::map<uint32_t, int64_t>& shorter) {
  Remainder remainder = {INT64_MAX, longer};
  for (const auto& [symbol, count] : shorter) {
    const auto it = longer.find(symbol);
    remainder.repetitions = std::min(remainder.repetitions, it == longer.end() ? 0 : it->second / count);
  }
  for (const auto& [symbol, count] : shorter) {
    const auto it = remainder.rest.find(symbol);
    if (it == remainder.rest.end()) continue;
    it->second -= remainder.repetitions * count;
    if (it->second == 0) remainder.rest.erase(it);
  }
  return remainder;
}

// Whether `rest` contains a good part of the step's ops, all at one ratio of batch sizes.
bool IsMoreOfTheSame(const StepSequence& sequence, const std::map<uint32_t, int64_t>& rest,
                     const std::map<uint32_t, int64_t>& step) {
  std::map<Ratio, std::set<uint32_t>> alike;
  for (const auto& [symbol, count] : rest) {
    for (const auto& [own, own_count] : step) {
      for (const Ratio& ratio : BatchRatios(sequence, own, symbol)) alike[ratio].insert(symbol);
    }
  }
  const size_t enough = std::max<size_t>(2, (step.size() + 3) / 4);
  return absl::c_any_of(alike, [&](const auto& entry) { return entry.second.size() >= enough; });
}

int64_t CallsOf(const std::map<uint32_t, int64_t>& content) {
  int64_t calls = 0;
  for (const auto& [symbol, count] : content) calls += count;
  return calls;
}

bool IsTrainingStep(const StepSequence& sequence, const std::map<uint32_t, int64_t>& content) {
  bool forward = false;
  bool backward = false;
  for (const auto& [symbol, count] : content) {
    forward |= sequence.symbols[symbol].pass == StepSymbol::Pass::kForward;
    backward |= sequence.symbols[symbol].pass == StepSymbol::Pass::kBackward;
  }
  return forward && backward;
}

// Whether the longer period is still one step (of layers, of accumulated gradients) rather than an epoch.
bool IsStillOneStep(const StepSequence& sequence, const BagSums& bags, const Cuts& shorter, const Cuts& longer) {
  const std::map<uint32_t, int64_t> step = Content(shorter, sequence, bags);
  const Remainder remainder = Divide(Content(longer, sequence, bags), step);
  if (remainder.repetitions == 0) return true;  // does not consist of the shorter one
  if (remainder.rest.empty()) return false;     // just a multiple
  if (remainder.repetitions <= 4) return true;  // no loop over data is that short
  if (IsTrainingStep(sequence, step)) {
    // Accumulated gradients end in an update of some size; a single extra call is logging.
    const bool few = remainder.repetitions <= kMaxAccumulation;
    if (!few || 4 * CallsOf(remainder.rest) < CallsOf(step)) return false;
  }
  return !IsMoreOfTheSame(sequence, remainder.rest, step);
}

}  // namespace

BagSums::BagSums(const std::vector<uint32_t>& symbols) {
  sums_.reserve(symbols.size() + 1);
  sums_.push_back(0);
  for (uint32_t symbol : symbols) sums_.push_back(sums_.back() + Mix(symbol));
}

Cuts EvaluateCuts(std::vector<size_t> positions, const BagSums& bags, size_t size) {
  Cuts cuts;
  absl::flat_hash_map<uint64_t, std::pair<size_t, size_t>> pieces;  // bag -> count, length
  for (size_t i = 0; i < positions.size(); ++i) {
    const size_t end = i + 1 < positions.size() ? positions[i + 1] : size;
    auto& [count, length] = pieces[bags.Of(positions[i], end)];
    ++count;
    length = end - positions[i];
  }
  for (const auto& [bag, piece] : pieces) {
    const auto& [count, length] = piece;
    if (count * length < cuts.count * cuts.length) continue;
    if (count * length == cuts.count * cuts.length && length >= cuts.length && cuts.length > 0) continue;
    cuts.bag = bag;
    cuts.count = count;
    cuts.length = length;
  }
  cuts.positions = std::move(positions);
  cuts.coverage = size == 0 ? 0 : static_cast<double>(cuts.count * cuts.length) / static_cast<double>(size);
  return cuts;
}

std::vector<Ratio> BatchRatios(const StepSequence& sequence, uint32_t a, uint32_t b) {
  if (a == b) return {Ratio{}};
  const uint64_t any_batch = sequence.symbols[a].any_batch;
  if (any_batch != 0 && any_batch == sequence.symbols[b].any_batch) return {Ratio{}};
  std::vector<Ratio> ratios;
  const auto& of_a = sequence.symbols[a].variants;
  const auto& of_b = sequence.symbols[b].variants;
  for (size_t i = 0; i < std::min(of_a.size(), of_b.size()); ++i) {
    if (of_a[i].rest != of_b[i].rest || of_a[i].batch <= 0 || of_b[i].batch <= 0) continue;
    const int64_t divisor = std::gcd(of_a[i].batch, of_b[i].batch);
    ratios.push_back({of_b[i].batch / divisor, of_a[i].batch / divisor});
  }
  return ratios;
}

std::optional<Cuts> FindPeriod(const StepSequence& sequence, const BagSums& bags) {
  std::vector<Cuts> candidates;
  for (size_t context : {1, 2, 4}) {
    if (sequence.size() < 2 * context) break;
    for (Cuts& cuts : CutsByContext(sequence, bags, context)) candidates.push_back(std::move(cuts));
  }
  // Short periods first; among equal ones the cut that covers most, then the earliest.
  absl::c_sort(candidates, [](const Cuts& a, const Cuts& b) {
    if (a.length != b.length) return a.length < b.length;
    if (a.coverage != b.coverage) return a.coverage > b.coverage;
    return a.positions.front() < b.positions.front();
  });
  const Cuts* best = nullptr;
  size_t refused_length = 0;  // other cuts of a refused period give the same result
  for (const Cuts& cuts : candidates) {
    if (best == nullptr) {
      best = &cuts;
    } else if (cuts.length > best->length && cuts.length != refused_length && cuts.count >= 3 &&
               cuts.coverage >= kNotMuchLess * best->coverage) {
      if (IsStillOneStep(sequence, bags, *best, cuts)) {
        best = &cuts;
      } else {
        refused_length = cuts.length;
      }
    }
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

}  // namespace dlhook::analyzer::steps
