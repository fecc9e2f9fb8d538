// Which operand of forward products holds the weights. See reader.h.
//
// The one that stays in place while the other moves, in a loop over images or from step to step. If everything stays in
// place, layers must fit to each other: the rows of one are those of the next, its columns are what the next one sums
// over.

#include "analyzer/layers/structure/reader.h"

namespace dlhook::analyzer::inline structure::product_reader {
namespace {

// The largest number of positions that pooling combines.
constexpr int64_t kMaxPool = 16;
// Operands known to be weights help to decide about adjacent ones.
constexpr int kRounds = 3;

// kNone: no or contradicting votes.
Side MostSay(const std::vector<Side>& sides) {
  const auto a = absl::c_count(sides, Side::kA), b = absl::c_count(sides, Side::kB);
  return a > b ? Side::kA : b > a ? Side::kB : Side::kNone;
}

bool HasFewer(const std::vector<size_t>& one, const std::vector<size_t>& other) { return one.size() < other.size(); }

bool IsSquareNumber(int64_t number) {
  const auto root = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(number))));
  return root * root == number;
}

}  // namespace

std::array<int64_t, 3> SortedSizes(const ProductShape& shape) {
  std::array<int64_t, 3> sizes = {shape.m, shape.n, shape.k};
  absl::c_sort(sizes);
  return sizes;
}

bool IsKernel(int64_t area) { return area > 1 && area % 2 == 1 && IsSquareNumber(area); }

LayerSizes SizesOf(const ProductShape& shape, Side weights) {
  return weights == Side::kA ? LayerSizes{shape.n, shape.k, shape.m} : LayerSizes{shape.m, shape.k, shape.n};
}

Fits Fit(const LayerSizes& first, const LayerSizes& second, bool is_image) {
  Fits fits;
  const int64_t samples = is_image ? 1 : second.rows;
  const bool is_pooled = first.rows % samples == 0 && first.rows / samples <= kMaxPool;
  if (!is_image) fits.rows = first.rows == second.rows ? 2 : is_pooled ? 1 : 0;
  if (second.in % first.out != 0) return fits;
  const int64_t area = second.in / first.out;  // a kernel's, or the number of positions flattened into one row
  const bool is_row = first.rows % (samples * area) == 0 && IsSquareNumber(first.rows / samples / area);
  if (area == 1) {
    fits.chain = first.rows == second.rows ? 2 : 1;
  } else if (IsSquareNumber(area) && is_row) {
    fits.chain = 2;
  } else if (IsKernel(area) && (is_image || is_pooled || first.rows % second.rows != 0)) {
    fits.chain = 1;
  }
  return fits;
}

// The side that stays in place while the other operand moves.
Side Reader::FixedInLoops(const Kind& kind) const {
  size_t a = 0, b = 0;
  for (WorkIndex work : kind.works) {
    if (!works_[work].is_loop || works_[work].moves_a == works_[work].moves_b) continue;
    ++(works_[work].moves_a ? b : a);
  }
  if (AreNearlyAll(a, kind.works.size())) return Side::kA;
  return AreNearlyAll(b, kind.works.size()) ? Side::kB : Side::kNone;
}

// Whether it runs image by image with a single buffer of columns, so that only the result moves. The weights are on the
// left.
bool Reader::IsByImage(const Kind& kind) const {
  return absl::c_all_of(kind.works, [&](WorkIndex work) {
    return works_[work].is_loop && !works_[work].moves_a && !works_[work].moves_b;
  });
}

Side Reader::SteadySide(const Kind& kind) const {
  return SideOfParts(SteadyPart(kind, Side::kA), SteadyPart(kind, Side::kB));
}

// First the conclusive evidence: loops, different numbers of samples, weights that were found for other kinds. Then the
// misleading: a whole data set stays in place, weights may be recreated in each step, and sizes may fit by chance.
void Reader::FindWeights() {
  const auto is_open = [](const Kind& kind) { return kind.role == Role::kForward && kind.weights == Side::kNone; };
  const std::vector<Side> by_variants = SidesByVariants(), by_first_layer = SidesOfFirstLayers();
  for (KindIndex i = 0; i < kinds_.size(); ++i) {
    if (is_open(kinds_[i])) kinds_[i].weights = FixedInLoops(kinds_[i]);
    if (is_open(kinds_[i])) kinds_[i].weights = by_variants[i];
    if (is_open(kinds_[i]) && IsByImage(kinds_[i])) {
      kinds_[i].weights = SteadySide(kinds_[i]) == Side::kB ? Side::kNone : Side::kA;
    }
  }
  absl::flat_hash_set<Matrix> known;
  for (const Kind& kind : kinds_) NoteWeights(kind, &known);
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<Side> by_fit = SidesByFit();
    for (KindIndex i = 0; i < kinds_.size(); ++i) {
      if (!is_open(kinds_[i])) continue;
      kinds_[i].weights = SideOfWeights(kinds_[i], known);
      if (is_open(kinds_[i])) kinds_[i].weights = MostSay({SteadySide(kinds_[i]), by_first_layer[i], by_fit[i]});
      NoteWeights(kinds_[i], &known);
    }
  }
  const std::vector<Side> by_fit = SidesByFit(), by_rows = SidesByRows();
  const std::vector<std::array<size_t, 2>> gradients = CountGradients();
  for (KindIndex i = 0; i < kinds_.size(); ++i) {
    const bool no_evidence =
        SteadySide(kinds_[i]) == Side::kNone && by_first_layer[i] == Side::kNone && by_fit[i] == Side::kNone;
    const auto& [of_a, of_b] = gradients[i];
    if (!is_open(kinds_[i]) || !no_evidence || of_a + of_b == 0) continue;
    // All weights have gradients, but the input of a first layer needs none.
    kinds_[i].weights = MostSay({of_a > of_b ? Side::kA : of_b > of_a ? Side::kB : Side::kNone, by_rows[i]});
  }
}

// How well forward products fit to the previous ones, with weights on either side.
std::vector<Side> Reader::SidesByFit() const {
  std::vector<std::array<Fits, 2>> sums(kinds_.size());
  const auto may_be = [&](WorkIndex work, Side side) {
    return KindOf(work).weights == Side::kNone || KindOf(work).weights == side;
  };
  const auto add = [&](WorkIndex first, WorkIndex second, bool of_first) {
    for (Side own : {Side::kA, Side::kB}) {
      Fits best;
      for (Side other : {Side::kA, Side::kB}) {
        if (!may_be(of_first ? second : first, other)) continue;
        const Fits fits = Fit(product_reader::SizesOf(ShapeOf(first), of_first ? own : other),
                              product_reader::SizesOf(ShapeOf(second), of_first ? other : own), works_[first].is_loop);
        if (fits.all() >= best.all()) best = fits;
      }
      Fits& sum = sums[works_[of_first ? first : second].kind][own == Side::kA ? 0 : 1];
      sum.chain += best.chain;
      sum.rows += best.rows;
    }
  };
  WorkIndex begin = kNone, first = kNone;
  for (WorkIndex second = 0; second < works_.size(); ++second) {
    if (IsGradient(second)) first = begin = kNone;
    if (!IsForward(second)) continue;
    if (begin == kNone) begin = second;
    const bool is_next_pass = works_[second].kind == works_[begin].kind;
    if (first != kNone && !is_next_pass) {
      add(first, second, /*of_first=*/true);
      add(first, second, /*of_first=*/false);
    }
    first = second;
  }
  std::vector<Side> sides(kinds_.size(), Side::kNone);
  // Rows alone say little: there may be as many samples as channels.
  const auto is_better = [](const Fits& one, const Fits& other) {
    return one.chain > 0 && 2 * one.all() > 3 * other.all();
  };
  for (KindIndex i = 0; i < kinds_.size(); ++i) {
    if (is_better(sums[i][0], sums[i][1])) sides[i] = Side::kA;
    if (is_better(sums[i][1], sums[i][0])) sides[i] = Side::kB;
  }
  return sides;
}

// The operand that a kind in other streaks reads, too: a layer's weights are the same for any number of samples.
std::vector<Side> Reader::SidesByVariants() const {
  std::vector<std::vector<size_t>> streaks_of(kinds_.size());
  absl::flat_hash_map<Matrix, std::vector<KindIndex>> readers;  // the first ones
  size_t streaks = 0;
  ForEachStreak([&](const std::vector<WorkIndex>& streak) {
    ++streaks;
    for (WorkIndex work : streak) {
      const KindIndex kind = works_[work].kind;
      if (streaks_of[kind].empty() || streaks_of[kind].back() != streaks) streaks_of[kind].push_back(streaks);
      for (Side side : {Side::kA, Side::kB}) {
        std::vector<KindIndex>& kinds = readers[MatrixOf(work, side)];
        if (kinds.size() < kFar && !absl::c_linear_search(kinds, kind)) kinds.push_back(kind);
      }
    }
  });
  const auto is_variant = [&](KindIndex one, KindIndex other) {
    const auto& [fewer, more] = std::minmax(streaks_of[one], streaks_of[other], HasFewer);
    const auto beside = absl::c_count_if(fewer, [&](size_t streak) { return absl::c_binary_search(more, streak); });
    return 2 * static_cast<size_t>(beside) <= fewer.size();
  };
  std::vector<Side> sides(kinds_.size(), Side::kNone);
  for (KindIndex i = 0; i < kinds_.size(); ++i) {
    if (kinds_[i].role != Role::kForward) continue;
    std::array<double, 2> parts = {};
    absl::flat_hash_map<KindIndex, bool> variants;  // among those that share matrices with it
    for (WorkIndex work : kinds_[i].works) {
      for (Side side : {Side::kA, Side::kB}) {
        const bool is_shared = absl::c_any_of(readers[MatrixOf(work, side)], [&](KindIndex other) {
          if (other == i || (variants.size() >= kFar && !variants.contains(other))) return false;
          const auto [at, is_new] = variants.try_emplace(other);
          if (is_new) at->second = is_variant(i, other);
          return at->second;
        });
        if (is_shared) parts[side == Side::kA ? 0 : 1] += 1.0 / static_cast<double>(kinds_[i].works.size());
      }
    }
    sides[i] = SideOfParts(parts[0], parts[1]);
  }
  return sides;
}

void Reader::NoteWeights(const Kind& kind, absl::flat_hash_set<Matrix>* known) const {
  if (kind.role != Role::kForward || kind.weights == Side::kNone) return;
  for (WorkIndex work : kind.works) known->insert(MatrixOf(work, kind.weights));
}

// The side that reads other products' known weights: the same layer with another number of samples.
Side Reader::SideOfWeights(const Kind& kind, const absl::flat_hash_set<Matrix>& known) const {
  const auto part_of = [&](Side side) {
    const auto is_known = [&](WorkIndex work) { return known.contains(MatrixOf(work, side)); };
    return static_cast<double>(absl::c_count_if(kind.works, is_known)) / static_cast<double>(kind.works.size());
  };
  return SideOfParts(part_of(Side::kA), part_of(Side::kB));
}

// The number of samples divides the rows of all consecutive layers.
std::vector<Side> Reader::SidesByRows() const {
  std::vector<std::array<int64_t, 3>> fits(kinds_.size());  // with weights A, with weights B, in total
  const auto divide = [](int64_t one, int64_t other) { return std::max(one, other) % std::min(one, other) == 0; };
  const auto compare = [&](const std::vector<WorkIndex>& streak) {
    // Streaks may be as long as the run; most have few distinct ops.
    std::map<OpIndex, std::pair<WorkIndex, int64_t>> open;  // one of its products, and their number
    std::map<int64_t, int64_t> known;                       // rows, number of products with them
    const auto note = [&](int64_t rows) {
      if (known.size() < kFar || known.count(rows) > 0) ++known[rows];
    };
    for (WorkIndex work : streak) {
      if (KindOf(work).weights == Side::kNone) ++open.try_emplace(works_[work].op, work, 0).first->second.second;
      if (KindOf(work).weights != Side::kNone && !works_[work].is_loop) note(SizesOf(work).rows);
    }
    for (const auto& [op, products] : open) {
      const auto& [work, count] = products;
      auto& fit = fits[works_[work].kind];
      for (const auto& [rows, times] : known) {
        fit[0] += divide(ShapeOf(work).n, rows) ? count * times : 0;
        fit[1] += divide(ShapeOf(work).m, rows) ? count * times : 0;
        fit[2] += count * times;
      }
    }
  };
  ForEachStreak(compare);
  std::vector<Side> sides(kinds_.size(), Side::kNone);
  for (KindIndex i = 0; i < kinds_.size(); ++i) {
    const auto& [a, b, all] = fits[i];
    if (a == all && 2 * b < all) sides[i] = Side::kA;
    if (b == all && 2 * a < all) sides[i] = Side::kB;
  }
  return sides;
}

// A first layer needs no gradient of its input: its only gradient is that of its weights.
std::vector<Side> Reader::SidesOfFirstLayers() const {
  std::vector<size_t> streaks(kinds_.size()), first(kinds_.size());
  ForEachStreak([&](const std::vector<WorkIndex>& streak) {
    if (!streak.empty()) ++first[works_[streak[0]].kind];
    std::set<KindIndex> kinds;
    for (WorkIndex work : streak) kinds.insert(works_[work].kind);
    for (KindIndex kind : kinds) ++streaks[kind];
  });
  std::vector<std::set<Side>> gradients(kinds_.size());
  for (const Kind& kind : kinds_) {
    if (kind.role == Role::kGradient) gradients[kind.forward].insert(kind.gradient_of);
  }
  std::vector<Side> sides(kinds_.size(), Side::kNone);
  for (KindIndex i = 0; i < kinds_.size(); ++i) {
    if (gradients[i].size() == 1 && 2 * first[i] >= streaks[i]) sides[i] = *gradients[i].begin();
  }
  return sides;
}

// By forward kind: of its operand A, of its operand B.
std::vector<std::array<size_t, 2>> Reader::CountGradients() const {
  std::vector<std::array<size_t, 2>> counts(kinds_.size());
  for (const Kind& kind : kinds_) {
    if (kind.role == Role::kGradient) counts[kind.forward][kind.gradient_of == Side::kA ? 0 : 1] += kind.works.size();
  }
  return counts;
}

}  // namespace dlhook::analyzer::structure::product_reader
