// Finds steps in a sequence of ops: first how long one is, the period, then where in it a step begins. See step_finder.h.
#include "analyzer/steps/step_finder.h"

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

// Sums of hashed symbols: equal sums of two pieces mean equal bags of calls (with an error probability of 2^-64).
class BagSums {
 public:
  explicit BagSums(const std::vector<uint32_t>& symbols) {
    sums_.reserve(symbols.size() + 1);
    sums_.push_back(0);
    for (uint32_t symbol : symbols) sums_.push_back(sums_.back() + Mix(symbol));
  }
  uint64_t Of(size_t begin, size_t end) const { return sums_[end] - sums_[begin]; }
  size_t size() const { return sums_.size() - 1; }  // of the sequence

 private:
  std::vector<uint64_t> sums_;
};

// The pieces between cuts that have the bag which covers most calls.
struct Cuts {
  std::vector<size_t> positions;  // where pieces begin; the last one extends to the end of the sequence
  uint64_t bag = 0;               // the most frequent bag, by calls
  size_t length = 0;              // calls in it
  size_t count = 0;               // pieces with this bag
  double coverage = 0;            // count * length, as a part of the sequence

  size_t EndOf(size_t piece, const BagSums& bags) const {
    return piece + 1 < positions.size() ? positions[piece + 1] : bags.size();
  }
  uint64_t BagOf(size_t piece, const BagSums& bags) const { return bags.Of(positions[piece], EndOf(piece, bags)); }
};

Cuts EvaluateCuts(std::vector<size_t> positions, const BagSums& bags) {
  Cuts cuts = {.positions = std::move(positions)};
  absl::flat_hash_map<uint64_t, std::pair<size_t, size_t>> pieces;  // bag -> count, length
  for (size_t i = 0; i < cuts.positions.size(); ++i) {
    auto& [count, length] = pieces[cuts.BagOf(i, bags)];
    ++count;
    length = cuts.EndOf(i, bags) - cuts.positions[i];
  }
  for (const auto& [bag, piece] : pieces) {
    const auto& [count, length] = piece;
    if (count * length < cuts.count * cuts.length) continue;
    if (count * length == cuts.count * cuts.length && length >= cuts.length && cuts.length > 0) continue;
    cuts.bag = bag;
    cuts.count = count;
    cuts.length = length;
  }
  const size_t all = std::max<size_t>(bags.size(), 1);
  cuts.coverage = static_cast<double>(cuts.count * cuts.length) / static_cast<double>(all);
  return cuts;
}

// The ratios of batch sizes at which `a` and `b` are the same work, as reduced fractions: 1/1 for the same op, none for
// different work, several if it is not known which number is the batch size.
struct Ratio {
  int64_t numerator = 1;
  int64_t denominator = 1;
  auto operator<=>(const Ratio&) const = default;
};

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
    Cuts cuts = EvaluateCuts(std::move(list), bags);
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
  for (const auto& [symbol, count] : shorter) remainder.rest[symbol] -= remainder.repetitions * count;
  std::erase_if(remainder.rest, [](const auto& entry) { return entry.second == 0; });
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
  const auto has = [&](StepSymbol::Pass pass) {
    return absl::c_any_of(content, [&](const auto& entry) { return sequence.symbols[entry.first].pass == pass; });
  };
  return has(StepSymbol::Pass::kForward) && has(StepSymbol::Pass::kBackward);
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

// Cuts where the period begins again behind other calls: a step of equal layers, and of what follows the last one.
Cuts CutsBehindOthers(const Cuts& cuts, const BagSums& bags) {
  std::vector<size_t> positions;
  for (size_t i = 0; i < cuts.positions.size(); ++i) {
    const bool follows_other = i == 0 || cuts.BagOf(i - 1, bags) != cuts.bag;
    if (follows_other && cuts.BagOf(i, bags) == cuts.bag) positions.push_back(cuts.positions[i]);
  }
  return EvaluateCuts(std::move(positions), bags);
}

// The cuts of the step's period at some call of the step; nullopt if nothing repeats.
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
  Cuts joined = CutsBehindOthers(*best, bags);
  const bool is_longer = joined.length > best->length && joined.count >= 3;
  if (is_longer && joined.coverage >= kNotMuchLess * best->coverage && IsStillOneStep(sequence, bags, *best, joined))
    return joined;
  return *best;
}

constexpr double kMostSteps = 0.8, kHalf = 0.5;
constexpr size_t kSamples = 64;     // steps examined to learn a typical one
constexpr size_t kMaxContext = 64;  // calls compared to distinguish positions in the step

// A typical step, beginning at the period's cut, and the median idle time before each of its calls.
struct Template {
  double in_order = 1;  // part of the steps that have their calls in this order
  std::vector<uint32_t> symbols;
  std::vector<int64_t> gap_ns;

  size_t size() const { return symbols.size(); }
  uint32_t at(size_t i) const { return symbols[i % size()]; }
};

int64_t Median(std::vector<int64_t> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

Template LearnTemplate(const StepSequence& sequence, const Cuts& cuts, const BagSums& bags) {
  std::map<std::vector<uint32_t>, std::vector<size_t>> orders;
  size_t pieces = 0;
  for (size_t i = 0; i < cuts.positions.size() && pieces < kSamples; ++i) {
    if (cuts.BagOf(i, bags) != cuts.bag) continue;
    const auto first = sequence.symbol.begin() + cuts.positions[i];
    orders[std::vector<uint32_t>(first, first + cuts.length)].push_back(cuts.positions[i]);
    ++pieces;
  }
  const auto most =
      absl::c_max_element(orders, [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  Template result;
  result.in_order = static_cast<double>(most->second.size()) / static_cast<double>(pieces);
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

// By position: whether there are backward calls on both sides of it. No step begins there.
std::vector<bool> InsideBackward(const StepSequence& sequence, const Template& step) {
  const size_t size = step.size();
  std::vector<bool> inside(size, true);
  bool before = false, after = false;
  const auto note = [&](size_t i, bool* side) {
    const StepSymbol::Pass pass = sequence.symbols[step.at(i)].pass;
    if (pass != StepSymbol::Pass::kUnknown) *side = pass == StepSymbol::Pass::kBackward;
  };
  for (size_t i = 0, back = 2 * size - 1; i < 2 * size; ++i, --back) {  // twice around, because the cycle wraps
    if (i >= size && !before) inside[i - size] = false;
    note(i, &before);
    note(back, &after);
    if (back < size && !after) inside[back] = false;
  }
  return inside;
}

// The program's first calls are a step's first calls, if they match the step from one of its positions on.
std::optional<size_t> BeginByFirstCalls(const StepSequence& sequence, const Template& step) {
  const size_t enough = std::min(step.size(), std::max<size_t>(2, std::min<size_t>(step.size() / 2, 8)));
  const std::vector<bool> inside_backward = InsideBackward(sequence, step);
  std::optional<size_t> best;
  size_t best_length = 0;
  for (size_t i = 0; i < step.size(); ++i) {
    size_t length = 0;
    while (length < std::min(kMaxContext, sequence.size()) && sequence.symbol[length] == step.at(i + length)) ++length;
    if (length < enough || length < best_length || inside_backward[i]) continue;
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

// Identifies a step's first call: the calls that follow it, and the calls before positions that look alike but are
// inside a step (the second of two equal layers).
struct Signature {
  std::vector<uint32_t> calls;
  std::vector<uint32_t> not_after;
  // At another batch size one call is not enough: two products may have two of their three sizes in common.
  std::vector<uint32_t> calls_at_other_batch;
};

std::optional<Signature> SignatureOf(const Template& step, size_t begin) {
  const size_t size = step.size();
  const uint32_t before = step.at(begin + size - 1);
  std::vector<size_t> alike(size - 1);  // further on in the step, so far
  absl::c_iota(alike, 1);
  for (size_t length = 1; length <= std::min(size, kMaxContext); ++length) {
    std::erase_if(alike, [&](size_t i) { return step.at(begin + length - 1) != step.at(begin + i + length - 1); });
    Signature signature;
    for (const size_t i : alike) signature.not_after.push_back(step.at(begin + i - 1));
    if (absl::c_linear_search(signature.not_after, before)) continue;
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
    starts.push_back(cuts.positions[i]);
    if (cuts.BagOf(i, bags) != cuts.bag) scan(cuts.positions[i] + 1, cuts.EndOf(i, bags));
  }
  cuts.positions = std::move(starts);
}

// The program's first calls begin a step, in whatever order (an engine that runs what is ready): as many come before
// the cut of each step.
std::optional<Cuts> BeginByFirstBag(const BagSums& bags, const Cuts& period) {
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
  return EvaluateCuts(std::move(starts), bags);
}

// The same period, cut where steps begin. `period` itself if the calls do not show that.
Cuts MoveToBegin(const StepSequence& sequence, const BagSums& bags, Cuts period) {
  const Template step = LearnTemplate(sequence, period, bags);
  std::optional<size_t> begin = BeginByFirstCalls(sequence, step);
  if (step.in_order < kHalf || (step.in_order < 1 && !begin)) {
    if (std::optional<Cuts> begun = BeginByFirstBag(bags, period)) return *std::move(begun);
  }
  if (!begin) begin = BeginByPass(sequence, step);
  const std::optional<Signature> signature = SignatureOf(step, begin.value_or(LargestGap(step, 0, step.size())));
  if (!signature) return period;
  Cuts moved = EvaluateCuts(ExactStarts(sequence, *signature), bags);
  if (moved.bag != period.bag) return period;
  AddStartsAtOtherBatch(sequence, bags, *signature, moved);
  moved = EvaluateCuts(std::move(moved.positions), bags);
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
    pattern.regular.push_back(steps.BagOf(i, bags) == steps.bag);
  }
  pattern.starts = steps.positions;
  return pattern;
}

}  // namespace dlhook::analyzer::steps
