// Layers by the matrices that products read: see structure_weights.h.
//
// A layer's forward product reads its weights and its input, the gradient of its input the weights again, and that of
// its weights the input again; both gradients read the gradient of the output. So of products of the same three sizes
// those that share matrices belong together, and the one that was met first runs forward. Weights are what stays where
// it is from step to step while other operands move, in a loop over images or where memory is used again; where
// everything stays, layers must fit on each other (one's rows are the next one's, its columns are what that sums over).
// What none of this decides stays open.
#include "analyzer/layers/structure_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "analyzer/layers/call_loops.h"
#include "analyzer/layers/structure_products.h"

namespace dlhook::analyzer {
namespace {

// Of an op's calls: nearly all, and hardly any.
constexpr double kNearlyAll = 0.8;
constexpr double kHardlyAny = 0.3;
// Steps from which on it counts what stays where it is.
constexpr size_t kMinSteps = 3;
// How far beside a product its bias is looked for.
constexpr size_t kBeside = 4;
// How many reads of a matrix are looked back at.
constexpr size_t kFar = 64;
// Operands that are known to be weights tell of those beside them.
constexpr int kRounds = 3;

using WorkIndex = uint32_t;
using LayerNumber = uint32_t;

enum class Side : uint8_t { kNone, kA, kB };
enum class Role : uint8_t { kOpen, kForward, kGradient, kBatched };

// A matrix in memory; transposed it is the same.
struct Matrix {
  uint64_t address = 0;
  int64_t shorter = 0;
  int64_t longer = 0;
  auto operator<=>(const Matrix&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Matrix& m) {
    return H::combine(std::move(h), m.address, m.shorter, m.longer);
  }
};

// Products of one shape, however BLAS was told of it.
using KindIndex = uint32_t;

// A product, with its repetitions in a loop.
struct Work {
  OpIndex op = 0;
  KindIndex kind = 0;
  Operands at;
  bool moves_a = false;  // from turn to turn of the loop
  bool moves_b = false;
  bool is_loop = false;
  size_t step = 0;
  std::vector<CallIndex> calls;
  WorkIndex owner = kNone;  // of a bias: the product that it is added to, or whose operand it sums
  LayerNumber layer = kNone;
  LayerDirection direction = LayerDirection::kUnknown;
};

struct Kind {
  const ProductShape* shape = nullptr;
  std::vector<WorkIndex> works;  // without biases
  Role role = Role::kOpen;
  Side weights = Side::kNone;  // forward: which operand they are
  // Gradient: of which forward kind, and which of its operands is read again. kNone: neither, it was computed anew.
  KindIndex forward = 0;
  Side shares = Side::kNone;
  Side gradient_of = Side::kNone;
  Side input = Side::kNone;  // of a gradient: its own operand that is (or would be) its forward product's
  bool by_shapes = false;
};

struct Read {
  WorkIndex work;
  Side side;
};

// Another kind, its operand, and the own operand that reads the same.
using Sharing = std::tuple<KindIndex, Side, Side>;

struct Layer {
  std::string type;
  std::string prefix;
  Evidence evidence = Evidence::kPointers;
  bool is_sure = true;
  bool by_sizes = false;  // not by the address of its weights
  std::vector<WorkIndex> forward;
  // Forward products that look like it.
  int convolution = 0;
  int linear = 0;
  int either = 0;
};

Side Other(Side side) { return side == Side::kA ? Side::kB : Side::kA; }

bool IsSquareNumber(int64_t number) {
  const auto root = static_cast<int64_t>(std::llround(std::sqrt(static_cast<double>(number))));
  return root * root == number;
}

// Of a forward product whose weights are known: y[rows, out] = x[rows, in] w[in, out].
struct LayerSizes {
  int64_t rows, in, out;
};
LayerSizes SizesOf(const ProductShape& shape, Side weights) {
  return weights == Side::kA ? LayerSizes{shape.n, shape.k, shape.m} : LayerSizes{shape.m, shape.k, shape.n};
}

// How well the second layer fits on the first: its sums over what that computes, and its rows.
struct Fits {
  int64_t chain = 0;
  int64_t rows = 0;
  int64_t all() const { return chain + rows; }
};
Fits Fit(const LayerSizes& first, const LayerSizes& second) {
  Fits fits;
  if (second.in == first.out) {
    fits.chain = 2;
  } else if (second.in % first.out == 0 && IsSquareNumber(second.in / first.out)) {
    fits.chain = 1;  // a kernel's area, or positions that were made one row
  }
  fits.rows = first.rows == second.rows ? 2 : first.rows % second.rows == 0 ? 1 : 0;
  return fits;
}

class Reader {
 public:
  Reader(const TraceModel& model, const std::vector<OpFacts>& facts) : model_(model), facts_(facts) {}

  ProductLayers Run(absl::Span<const CallIndex> calls, const std::vector<int64_t>& step_starts_ns) {
    MakeWorks(calls, step_starts_ns);
    IndexMatrices();
    SetAsideBiases();
    MakeKinds();
    FindRoles();
    FindWeights();
    if (!RunsForward()) return Result();
    PlaceForward();
    PlaceGradients();
    PlaceBatched();
    PlaceBiases();
    CheckLayers();
    FindTypes();
    return Result();
  }

 private:
  void MakeWorks(absl::Span<const CallIndex> calls, const std::vector<int64_t>& step_starts_ns);
  void IndexMatrices();
  void SetAsideBiases();
  void MakeKinds();
  void FindRoles();
  void FindRole(KindIndex index, const std::vector<KindIndex>& before);
  std::map<Sharing, double> PartsShared(const Kind& kind, const std::vector<KindIndex>& before) const;
  bool IsOtherGradient(const std::map<Sharing, double>& parts, Kind& kind) const;
  bool IsGradientBySizes(const std::vector<KindIndex>& before, Kind& kind) const;
  double SteadyPart(const Kind& kind, Side side) const;
  void FindWeights();
  Side FixedInLoops(const Kind& kind) const;
  bool IsByImage(const Kind& kind) const;
  Side SteadySide(const Kind& kind) const;
  std::vector<Side> SidesByFit() const;
  std::vector<Side> SidesByVariants() const;
  Side SideOfKnownWeights(const Kind& kind) const;
  std::vector<Side> SidesByRows() const;
  void ForEachStreak(const std::function<void(const std::vector<WorkIndex>&)>& take) const;
  bool HasGradient(KindIndex kind) const;
  Side SideByGradients(KindIndex kind) const;
  bool RunsForward() const;
  void PlaceForward();
  void PlaceGradients();
  void PlaceBatched();
  void PlaceBiases();
  bool ContinuesGroup(WorkIndex before, WorkIndex work, Side weights) const;
  LayerNumber LayerOfLastForward(WorkIndex work, Side side) const;
  std::set<LayerNumber> LayersOfInput(WorkIndex gradient, Side side) const;
  bool IsOneStep(LayerNumber layer, WorkIndex one, WorkIndex other) const;
  LayerNumber LayerOfOutputGradient(WorkIndex gradient, Side side, const std::set<LayerNumber>& among,
                                    bool is_behind) const;
  bool AreWeightsFirst() const;
  LayerNumber LayerOfWeightsGradient(WorkIndex gradient, const Kind& kind, bool weights_first) const;
  LayerNumber LayerOfBatchedGradient(WorkIndex gradient) const;
  void CheckLayers();
  void FindTypes();
  void VoteForTypes(const std::vector<WorkIndex>& streak);
  ProductLayers Result() const;

  const Kind& KindOf(WorkIndex work) const { return kinds_[works_[work].kind]; }
  bool IsForward(WorkIndex work) const {
    return works_[work].owner == kNone && KindOf(work).role == Role::kForward;
  }
  bool IsGradient(WorkIndex work) const {
    return works_[work].owner == kNone && KindOf(work).role == Role::kGradient;
  }
  const ProductShape& ShapeOf(WorkIndex work) const { return facts_[works_[work].op].product; }
  Matrix MatrixOf(WorkIndex work, Side side) const {
    const ProductShape& shape = ShapeOf(work);
    const auto [shorter, longer] = side == Side::kA ? std::minmax(shape.m, shape.k) : std::minmax(shape.k, shape.n);
    return {side == Side::kA ? works_[work].at.a : works_[work].at.b, shorter, longer};
  }
  LayerSizes SizesOf(WorkIndex work) const { return analyzer::SizesOf(ShapeOf(work), KindOf(work).weights); }
  bool IsExclusive(const Matrix& matrix) const {
    const auto found = sizes_at_.find(matrix.address);
    return found != sizes_at_.end() && found->second.first == matrix.shorter && found->second.second == matrix.longer;
  }

  const TraceModel& model_;
  const std::vector<OpFacts>& facts_;
  std::vector<Work> works_;
  std::vector<Kind> kinds_;
  absl::flat_hash_map<Matrix, std::vector<Read>> reads_;
  // Sizes of all that is read at an address; {0, 0}: of several sizes, or products write there, too.
  absl::flat_hash_map<uint64_t, std::pair<int64_t, int64_t>> sizes_at_;
  std::vector<Layer> layers_;
};

void Reader::MakeWorks(absl::Span<const CallIndex> calls, const std::vector<int64_t>& step_starts_ns) {
  const std::vector<uint32_t> leaders = LoopLeaders(model_, facts_, calls);
  std::vector<WorkIndex> work_of(calls.size());
  size_t step = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    while (step < step_starts_ns.size() && step_starts_ns[step] <= model_.calls.start_ns[calls[i]]) ++step;
    const Operands at = OperandsOfCall(model_, facts_, calls[i]);
    if (leaders[i] != i) {
      Work& work = works_[work_of[leaders[i]]];
      work.is_loop = true;
      work.moves_a |= at.a != work.at.a;
      work.moves_b |= at.b != work.at.b;
      work.calls.push_back(calls[i]);
      continue;
    }
    work_of[i] = static_cast<WorkIndex>(works_.size());
    Work work;
    work.op = model_.calls.op[calls[i]];
    work.at = at;
    work.step = step;
    work.calls = {calls[i]};
    works_.push_back(std::move(work));
  }
}

void Reader::IndexMatrices() {
  for (WorkIndex i = 0; i < works_.size(); ++i) {
    for (Side side : {Side::kA, Side::kB}) {
      const Matrix matrix = MatrixOf(i, side);
      reads_[matrix].push_back({i, side});
      const auto sizes = std::pair(matrix.shorter, matrix.longer);
      const auto [at, is_new] = sizes_at_.try_emplace(matrix.address, sizes);
      if (!is_new && at->second != sizes) at->second = {};
    }
  }
  for (const Work& work : works_) {
    if (const auto at = sizes_at_.find(work.at.c); at != sizes_at_.end()) at->second = {};
  }
}

// Products with a vector that add to the result of the product before them, or sum an operand of one beside them.
void Reader::SetAsideBiases() {
  const auto is_vector = [&](WorkIndex i) { return ShapeOf(i).m == 1 || ShapeOf(i).n == 1 || ShapeOf(i).k == 1; };
  for (WorkIndex i = 0; i < works_.size(); ++i) {
    for (size_t far = 1; is_vector(i) && far <= kBeside && works_[i].owner == kNone; ++far) {
      for (const WorkIndex j : {static_cast<WorkIndex>(i - far), static_cast<WorkIndex>(i + far)}) {
        if (j >= works_.size() || is_vector(j)) continue;
        const Operands &own = works_[i].at, &other = works_[j].at;
        const bool adds = ShapeOf(i).k == 1 && j < i && own.c == other.c;
        const bool sums =
            ShapeOf(i).k > 1 && (own.a == other.a || own.a == other.b || own.b == other.a || own.b == other.b);
        if (adds || sums) works_[i].owner = j;
      }
    }
  }
}

void Reader::MakeKinds() {
  std::map<std::array<int64_t, 6>, KindIndex> known;
  for (WorkIndex i = 0; i < works_.size(); ++i) {
    const ProductShape& shape = ShapeOf(i);
    const auto [at, is_new] =
        known.try_emplace({shape.m, shape.n, shape.k, shape.batch, shape.a_is_transposed, shape.b_is_transposed},
                          static_cast<KindIndex>(kinds_.size()));
    if (is_new) {
      kinds_.emplace_back();
      kinds_.back().shape = &shape;
      if (shape.batch > 1) kinds_.back().role = Role::kBatched;
    }
    works_[i].kind = at->second;
    if (works_[i].owner == kNone) kinds_[at->second].works.push_back(i);
  }
}

// Kinds of the same three sizes, whichever is which, in the order of their first calls.
void Reader::FindRoles() {
  std::map<std::array<int64_t, 3>, std::vector<KindIndex>> families;
  for (KindIndex index = 0; index < kinds_.size(); ++index) {
    const ProductShape& shape = *kinds_[index].shape;
    if (kinds_[index].role == Role::kBatched || kinds_[index].works.empty()) continue;
    std::array<int64_t, 3> sizes = {shape.m, shape.n, shape.k};
    std::sort(sizes.begin(), sizes.end());
    std::vector<KindIndex>& family = families[sizes];
    FindRole(index, family);
    family.push_back(index);
  }
}

// By kind of `before`, operand of that and own operand: the part of the works that read what such a work read before
// them.
std::map<Sharing, double> Reader::PartsShared(const Kind& kind, const std::vector<KindIndex>& before) const {
  std::map<Sharing, double> parts;
  for (WorkIndex work : kind.works) {
    std::set<Sharing> shared;
    for (Side side : {Side::kA, Side::kB}) {
      const std::vector<Read>& reads = reads_.at(MatrixOf(work, side));
      auto at = std::lower_bound(reads.begin(), reads.end(), work,
                                 [](const Read& read, WorkIndex value) { return read.work < value; });
      for (size_t far = 0; at != reads.begin() && far < kFar; ++far) {
        --at;
        const KindIndex other = works_[at->work].kind;
        if (std::find(before.begin(), before.end(), other) != before.end()) shared.insert({other, at->side, side});
      }
    }
    for (const Sharing& each : shared) parts[each] += 1.0 / static_cast<double>(kind.works.size());
  }
  return parts;
}

bool MayBeGradientOf(Side side, const ProductShape& forward, const ProductShape& gradient) {
  return side == Side::kA ? MayBeGradientOfA(forward, gradient) : MayBeGradientOfB(forward, gradient);
}

void Reader::FindRole(KindIndex index, const std::vector<KindIndex>& before) {
  Kind& kind = kinds_[index];
  const std::map<Sharing, double> parts = PartsShared(kind, before);
  double most = 0;
  for (const auto& [sharing, part] : parts) {
    const auto& [other, of_other, own] = sharing;
    const Side of = Other(of_other);
    const bool fits = kinds_[other].role == Role::kForward && MayBeGradientOf(of, *kinds_[other].shape, *kind.shape);
    if (!fits || part <= most) continue;
    most = part;
    kind.forward = other;
    kind.gradient_of = of;
    kind.shares = of_other;
    kind.input = own;
  }
  kind.role = Role::kGradient;
  if (most >= kNearlyAll) return;
  const bool some_share = most > kHardlyAny;
  const std::pair of_some(kind.forward, kind.gradient_of);
  const bool is_gradient = IsOtherGradient(parts, kind) || IsGradientBySizes(before, kind);
  if (!is_gradient) kind.role = some_share ? Role::kOpen : Role::kForward;
  if (is_gradient && some_share && of_some != std::pair(kind.forward, kind.gradient_of)) kind.role = Role::kOpen;
}

// The other gradient of a layer, whose input was computed anew: it shares the gradient of the output.
bool Reader::IsOtherGradient(const std::map<Sharing, double>& parts, Kind& kind) const {
  for (const auto& [sharing, part] : parts) {
    const auto& [other, of_other, own] = sharing;
    const Kind& gradient = kinds_[other];
    if (gradient.role != Role::kGradient || gradient.shares == Side::kNone || of_other == gradient.input) continue;
    if (part < kNearlyAll || !MayBeGradientOf(gradient.shares, *kinds_[gradient.forward].shape, *kind.shape)) continue;
    kind.forward = gradient.forward;
    kind.gradient_of = gradient.shares;
    kind.shares = Side::kNone;
    kind.input = Other(own);
    return true;
  }
  return false;
}

// Of products of these sizes there is one forward kind, whose weights stay where they are; what this one reads was
// computed anew, and there is no other gradient of that operand.
bool Reader::IsGradientBySizes(const std::vector<KindIndex>& before, Kind& kind) const {
  if (before.empty() || kinds_[before[0]].role != Role::kForward) return false;
  const Kind& forward = kinds_[before[0]];
  const bool of_a = MayBeGradientOfA(*forward.shape, *kind.shape), of_b = MayBeGradientOfB(*forward.shape, *kind.shape);
  const bool moves = std::max(SteadyPart(kind, Side::kA), SteadyPart(kind, Side::kB)) <= kHardlyAny;
  const bool stays = std::max(SteadyPart(forward, Side::kA), SteadyPart(forward, Side::kB)) >= kNearlyAll;
  if (of_a == of_b || !moves || !stays || kind.works.size() > forward.works.size()) return false;
  const Side of = of_a ? Side::kA : Side::kB;
  for (size_t i = 1; i < before.size(); ++i) {
    const Kind& other = kinds_[before[i]];
    if (other.role != Role::kGradient || other.gradient_of == of) return false;
  }
  const auto [shorter, longer] = of == Side::kB ? std::minmax(forward.shape->m, forward.shape->k)
                                                : std::minmax(forward.shape->k, forward.shape->n);
  const Matrix a = MatrixOf(kind.works[0], Side::kA);
  kind.forward = before[0];
  kind.gradient_of = of;
  kind.shares = Side::kNone;
  kind.input = a.shorter == shorter && a.longer == longer ? Side::kA : Side::kB;
  kind.by_shapes = true;
  return true;
}

// The part of a kind's works that read on this side what they read in nearly every step, and nothing else lies there.
double Reader::SteadyPart(const Kind& kind, Side side) const {
  std::set<size_t> steps;
  absl::flat_hash_map<Matrix, std::set<size_t>> steps_of;
  for (WorkIndex work : kind.works) {
    steps.insert(works_[work].step);
    steps_of[MatrixOf(work, side)].insert(works_[work].step);
  }
  if (steps.size() < kMinSteps) return 0;
  size_t steady = 0;
  for (WorkIndex work : kind.works) {
    const Matrix matrix = MatrixOf(work, side);
    const bool is_in_all =
        static_cast<double>(steps_of[matrix].size()) >= kNearlyAll * static_cast<double>(steps.size());
    steady += is_in_all && IsExclusive(matrix) ? 1 : 0;
  }
  return static_cast<double>(steady) / static_cast<double>(kind.works.size());
}

// What stays where it is while the other operand moves on.
Side Reader::FixedInLoops(const Kind& kind) const {
  size_t a = 0, b = 0;
  for (WorkIndex work : kind.works) {
    if (!works_[work].is_loop || works_[work].moves_a == works_[work].moves_b) continue;
    ++(works_[work].moves_a ? b : a);
  }
  const double most = kNearlyAll * static_cast<double>(kind.works.size());
  if (static_cast<double>(a) >= most) return Side::kA;
  return static_cast<double>(b) >= most ? Side::kB : Side::kNone;
}

// Image by image with one buffer of columns for all: only the results move on. The weights stand on the left.
bool Reader::IsByImage(const Kind& kind) const {
  return std::all_of(kind.works.begin(), kind.works.end(), [&](WorkIndex work) {
    return works_[work].is_loop && !works_[work].moves_a && !works_[work].moves_b;
  });
}

Side Reader::SteadySide(const Kind& kind) const {
  const double a = SteadyPart(kind, Side::kA), b = SteadyPart(kind, Side::kB);
  if (a >= kNearlyAll && b <= kHardlyAny) return Side::kA;
  return b >= kNearlyAll && a <= kHardlyAny ? Side::kB : Side::kNone;
}

void Reader::FindWeights() {
  const auto is_open = [](const Kind& kind) { return kind.role == Role::kForward && kind.weights == Side::kNone; };
  const std::vector<Side> by_variants = SidesByVariants();
  for (KindIndex i = 0; i < kinds_.size(); ++i) {
    if (is_open(kinds_[i])) kinds_[i].weights = FixedInLoops(kinds_[i]);
    if (is_open(kinds_[i])) kinds_[i].weights = by_variants[i];
  }
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<Side> by_fit = SidesByFit();
    for (KindIndex i = 0; i < kinds_.size(); ++i) {
      if (!is_open(kinds_[i])) continue;
      kinds_[i].weights = SideOfKnownWeights(kinds_[i]);
      if (kinds_[i].weights != Side::kNone) continue;
      const Side steady = SteadySide(kinds_[i]);
      const bool agree = steady == by_fit[i] || steady == Side::kNone || by_fit[i] == Side::kNone;
      // A whole data set stays where it is, and new weights may be made for each step.
      const bool fit_wins = !agree && SideByGradients(i) == by_fit[i];
      if (agree && steady != Side::kNone) kinds_[i].weights = steady;
      if ((agree && by_fit[i] != Side::kNone) || fit_wins) kinds_[i].weights = by_fit[i];
    }
  }
  for (KindIndex i = 0; i < kinds_.size(); ++i) {
    if (is_open(kinds_[i]) && SteadySide(kinds_[i]) == Side::kNone) kinds_[i].weights = SideByGradients(i);
    if (is_open(kinds_[i]) && IsByImage(kinds_[i])) kinds_[i].weights = Side::kA;
  }
  const std::vector<Side> by_rows = SidesByRows();
  for (KindIndex i = 0; i < kinds_.size(); ++i) {
    if (is_open(kinds_[i]) && HasGradient(i)) kinds_[i].weights = by_rows[i];
  }
}

// How forward products fit on those right before them, with weights on either side.
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
        const Fits fits = Fit(analyzer::SizesOf(ShapeOf(first), of_first ? own : other),
                              analyzer::SizesOf(ShapeOf(second), of_first ? other : own));
        if (fits.all() >= best.all()) best = fits;
      }
      Fits& sum = sums[works_[of_first ? first : second].kind][own == Side::kA ? 0 : 1];
      sum.chain += best.chain;
      sum.rows += best.rows;
    }
  };
  WorkIndex first = kNone;
  for (WorkIndex second = 0; second < works_.size(); ++second) {
    if (IsGradient(second)) first = kNone;
    if (!IsForward(second)) continue;
    if (first != kNone) add(first, second, /*of_first=*/true);
    if (first != kNone) add(first, second, /*of_first=*/false);
    first = second;
  }
  std::vector<Side> sides(kinds_.size(), Side::kNone);
  // Rows alone say little: there may be as many samples as channels.
  const auto is_better = [](const Fits& one, const Fits& other) {
    return one.chain > 0 && 4 * one.all() > 5 * other.all();
  };
  for (KindIndex i = 0; i < kinds_.size(); ++i) {
    if (is_better(sums[i][0], sums[i][1])) sides[i] = Side::kA;
    if (is_better(sums[i][1], sums[i][0])) sides[i] = Side::kB;
  }
  return sides;
}

// What a kind of other streaks reads, too: with another number of samples a layer's weights are the same.
std::vector<Side> Reader::SidesByVariants() const {
  std::vector<std::set<size_t>> streaks_of(kinds_.size());
  absl::flat_hash_map<Matrix, std::set<KindIndex>> readers;
  size_t streaks = 0;
  ForEachStreak([&](const std::vector<WorkIndex>& streak) {
    ++streaks;
    for (WorkIndex work : streak) {
      streaks_of[works_[work].kind].insert(streaks);
      for (Side side : {Side::kA, Side::kB}) readers[MatrixOf(work, side)].insert(works_[work].kind);
    }
  });
  const auto is_variant = [&](KindIndex one, KindIndex other) {
    const auto is_beside = [&](size_t streak) { return streaks_of[other].count(streak) > 0; };
    const auto beside = std::count_if(streaks_of[one].begin(), streaks_of[one].end(), is_beside);
    return 2 * static_cast<size_t>(beside) <= std::min(streaks_of[one].size(), streaks_of[other].size());
  };
  std::vector<Side> sides(kinds_.size(), Side::kNone);
  for (KindIndex i = 0; i < kinds_.size(); ++i) {
    if (kinds_[i].role != Role::kForward) continue;
    std::array<double, 2> parts = {};
    for (WorkIndex work : kinds_[i].works) {
      for (Side side : {Side::kA, Side::kB}) {
        const std::set<KindIndex>& others = readers[MatrixOf(work, side)];
        const bool is_shared = std::any_of(others.begin(), others.end(),
                                           [&](KindIndex other) { return other != i && is_variant(i, other); });
        if (is_shared) parts[side == Side::kA ? 0 : 1] += 1.0 / static_cast<double>(kinds_[i].works.size());
      }
    }
    if (parts[0] >= kNearlyAll && parts[1] <= kHardlyAny) sides[i] = Side::kA;
    if (parts[1] >= kNearlyAll && parts[0] <= kHardlyAny) sides[i] = Side::kB;
  }
  return sides;
}

// Where other products' weights lie: the same layer with another number of samples.
Side Reader::SideOfKnownWeights(const Kind& kind) const {
  std::set<Matrix> known;
  for (const Kind& other : kinds_) {
    if (other.role != Role::kForward || other.weights == Side::kNone) continue;
    for (WorkIndex work : other.works) known.insert(MatrixOf(work, other.weights));
  }
  std::array<double, 2> parts = {};
  for (WorkIndex work : kind.works) {
    parts[0] += static_cast<double>(known.count(MatrixOf(work, Side::kA))) / static_cast<double>(kind.works.size());
    parts[1] += static_cast<double>(known.count(MatrixOf(work, Side::kB))) / static_cast<double>(kind.works.size());
  }
  if (parts[0] >= kNearlyAll && parts[1] <= kHardlyAny) return Side::kA;
  return parts[1] >= kNearlyAll && parts[0] <= kHardlyAny ? Side::kB : Side::kNone;
}

// The samples divide the rows of all layers that run in a row.
std::vector<Side> Reader::SidesByRows() const {
  std::vector<std::array<int64_t, 3>> fits(kinds_.size());  // with weights A, with B; all
  const auto divide = [](int64_t one, int64_t other) { return std::max(one, other) % std::min(one, other) == 0; };
  const auto compare = [&](const std::vector<WorkIndex>& streak) {
    for (WorkIndex open : streak) {
      if (KindOf(open).weights != Side::kNone) continue;
      for (WorkIndex known : streak) {
        if (KindOf(known).weights == Side::kNone || works_[known].is_loop) continue;
        const int64_t rows = SizesOf(known).rows;
        auto& fit = fits[works_[open].kind];
        fit[0] += divide(ShapeOf(open).n, rows) ? 1 : 0;
        fit[1] += divide(ShapeOf(open).m, rows) ? 1 : 0;
        ++fit[2];
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

// Calls `take` with the forward products between gradients.
void Reader::ForEachStreak(const std::function<void(const std::vector<WorkIndex>&)>& take) const {
  std::vector<WorkIndex> streak;
  for (WorkIndex i = 0; i < works_.size(); ++i) {
    if (IsForward(i)) streak.push_back(i);
    if (!IsGradient(i)) continue;
    take(streak);
    streak.clear();
  }
  take(streak);
}

bool Reader::HasGradient(KindIndex kind) const {
  return std::any_of(kinds_.begin(), kinds_.end(), [&](const Kind& gradient) {
    return gradient.role == Role::kGradient && gradient.forward == kind;
  });
}

// Gradients of all weights are computed, but a first layer needs none of its input.
Side Reader::SideByGradients(KindIndex kind) const {
  size_t of_a = 0, of_b = 0;
  for (const Kind& gradient : kinds_) {
    if (gradient.role != Role::kGradient || gradient.forward != kind) continue;
    (gradient.gradient_of == Side::kA ? of_a : of_b) += gradient.works.size();
  }
  return of_a > of_b ? Side::kA : of_b > of_a ? Side::kB : Side::kNone;
}

// A recording that began in a backward pass shows gradients first, which come in turns, and not one layer after the
// other.
bool Reader::RunsForward() const {
  size_t forward = 0, in_a_row = 0;
  std::set<KindIndex> kinds;
  bool was_forward = false;
  for (WorkIndex i = 0; i < works_.size(); ++i) {
    if (works_[i].owner != kNone) continue;
    if (IsForward(i)) {
      ++forward;
      in_a_row += was_forward ? 1 : 0;
      kinds.insert(works_[i].kind);
    }
    was_forward = IsForward(i);
  }
  return kinds.size() < 2 || 4 * in_a_row >= forward;
}

// The next group of a convolution: all three operands follow on the group before.
bool Reader::ContinuesGroup(WorkIndex before, WorkIndex work, Side weights) const {
  if (before == kNone || weights == Side::kNone || works_[before].kind != works_[work].kind) return false;
  const ProductShape& shape = ShapeOf(work);
  const Operands &one = works_[before].at, &other = works_[work].at;
  const auto follows = [](uint64_t first, int64_t bytes, uint64_t second) {
    return bytes > 0 && first + static_cast<uint64_t>(bytes) == second;
  };
  return follows(one.a, shape.a_bytes, other.a) && follows(one.b, shape.b_bytes, other.b) &&
         follows(one.c, shape.c_bytes, other.c);
}

// A layer for each matrix of weights; where weights are made anew for each step, for their sizes.
void Reader::PlaceForward() {
  std::map<std::tuple<uint64_t, int64_t, int64_t>, LayerNumber> numbers;
  std::vector<bool> is_steady;
  for (const Kind& kind : kinds_) {
    is_steady.push_back(kind.weights != Side::kNone && SteadyPart(kind, kind.weights) >= kNearlyAll);
  }
  WorkIndex before = kNone;
  for (WorkIndex i = 0; i < works_.size(); ++i) {
    const Side side = KindOf(i).weights;
    if (!IsForward(i) || side == Side::kNone) continue;
    Work& work = works_[i];
    const Matrix weights = MatrixOf(i, side);
    const bool by_address = is_steady[work.kind] || IsExclusive(weights);
    const auto [at, is_new] = numbers.try_emplace({by_address ? weights.address : 0, weights.shorter, weights.longer},
                                                  static_cast<LayerNumber>(layers_.size()));
    if (is_new && ContinuesGroup(before, i, side)) {
      at->second = works_[before].layer;
    } else if (is_new) {
      layers_.emplace_back();
    }
    work.layer = at->second;
    work.direction = LayerDirection::kForward;
    layers_[work.layer].forward.push_back(i);
    before = i;
    layers_[work.layer].by_sizes |= !by_address;
  }
}

LayerNumber Reader::LayerOfLastForward(WorkIndex work, Side side) const {
  LayerNumber layer = kNone;
  for (const Read& read : reads_.at(MatrixOf(work, side))) {
    if (read.work >= work) break;
    if (works_[read.work].direction == LayerDirection::kForward) layer = works_[read.work].layer;
  }
  return layer;
}

// Of the forward products that read this matrix last, without a gradient between them.
std::set<LayerNumber> Reader::LayersOfInput(WorkIndex gradient, Side side) const {
  std::set<LayerNumber> layers;
  bool ended = false;
  for (const Read& read : reads_.at(MatrixOf(gradient, side))) {
    if (read.work >= gradient) break;
    if (IsGradient(read.work)) ended = true;
    if (works_[read.work].direction != LayerDirection::kForward) continue;
    if (std::exchange(ended, false)) layers.clear();
    layers.insert(works_[read.work].layer);
  }
  return layers;
}

// Whether the layer's forward product did not run between the two: then they are of one step.
bool Reader::IsOneStep(LayerNumber layer, WorkIndex one, WorkIndex other) const {
  const std::vector<WorkIndex>& forward = layers_[layer].forward;
  const auto [first, last] = std::minmax(one, other);
  const auto next = std::upper_bound(forward.begin(), forward.end(), first);
  return next == forward.end() || *next >= last;
}

// Of the gradient of an input that reads the same gradient of an output: the one right before it, or right behind it
// where `is_behind`; else the only one in the step.
LayerNumber Reader::LayerOfOutputGradient(WorkIndex gradient, Side side, const std::set<LayerNumber>& among,
                                          bool is_behind) const {
  std::set<LayerNumber> in_step;
  for (const Read& read : reads_.at(MatrixOf(gradient, side))) {
    const Work& work = works_[read.work];
    if (work.direction != LayerDirection::kBackwardData || among.count(work.layer) == 0) continue;
    if (read.work == (is_behind ? gradient + 1 : gradient - 1)) return work.layer;
    if (IsOneStep(work.layer, read.work, gradient)) in_step.insert(work.layer);
  }
  return in_step.size() == 1 ? *in_step.begin() : kNone;
}

// Whether gradients of weights come before those of inputs.
bool Reader::AreWeightsFirst() const {
  size_t before = 0, behind = 0;
  for (WorkIndex i = 1; i + 1 < works_.size(); ++i) {
    const Kind& kind = KindOf(i);
    if (!IsGradient(i) || kinds_[kind.forward].weights != kind.gradient_of) continue;
    const Matrix read = MatrixOf(i, Other(kind.input));
    const auto reads = [&](WorkIndex other) {
      const bool is_of_same = IsGradient(other) && KindOf(other).forward == kind.forward;
      return is_of_same && (MatrixOf(other, Side::kA) == read || MatrixOf(other, Side::kB) == read);
    };
    const bool is_before = reads(i - 1), is_behind = reads(i + 1);
    if (is_before != is_behind) ++(is_before ? before : behind);
  }
  return behind > before;
}

// The layer that both operands lead to.
LayerNumber Reader::LayerOfWeightsGradient(WorkIndex gradient, const Kind& kind, bool weights_first) const {
  std::set<LayerNumber> layers;
  if (kind.shares != Side::kNone) layers = LayersOfInput(gradient, kind.input);
  if (layers.empty()) {
    for (WorkIndex work : kinds_[kind.forward].works) layers.insert(works_[work].layer);
  }
  if (layers.size() == 1) return *layers.begin();
  return LayerOfOutputGradient(gradient, Other(kind.input), layers, weights_first);
}

void Reader::PlaceGradients() {
  const bool weights_first = AreWeightsFirst();
  for (bool of_weights : {false, true}) {
    for (const Kind& kind : kinds_) {
      if (kind.role != Role::kGradient) continue;
      const Side weights = kinds_[kind.forward].weights;
      if (weights == Side::kNone || (kind.gradient_of == weights) != of_weights) continue;
      for (WorkIndex i : kind.works) {
        works_[i].layer =
            of_weights ? LayerOfWeightsGradient(i, kind, weights_first) : LayerOfLastForward(i, kind.input);
        if (works_[i].layer == kNone) continue;
        works_[i].direction = of_weights ? LayerDirection::kBackwardWeights : LayerDirection::kBackwardData;
        if (kind.by_shapes) layers_[works_[i].layer].evidence = Evidence::kShapes;
      }
    }
  }
}

// Of the forward product in its step that read one of its operands; kNone: there are two.
LayerNumber Reader::LayerOfBatchedGradient(WorkIndex gradient) const {
  std::set<LayerNumber> layers;
  for (Side side : {Side::kA, Side::kB}) {
    LayerNumber last = kNone;
    for (const Read& read : reads_.at(MatrixOf(gradient, side))) {
      if (read.work >= gradient) break;
      const Work& work = works_[read.work];
      if (work.direction != LayerDirection::kForward) continue;
      if (IsOneStep(work.layer, read.work, gradient)) last = work.layer;
    }
    if (last != kNone) layers.insert(last);
  }
  return layers.size() == 1 ? *layers.begin() : kNone;
}

// Products of parts of two activations have no weights: where they stand among others tells whether they run forward,
// the matrices that they share with forward ones which gradients are theirs.
void Reader::PlaceBatched() {
  std::map<std::pair<LayerNumber, size_t>, LayerNumber> numbers;
  std::vector<WorkIndex> waiting;
  LayerNumber last = kNone;
  bool is_backward = false;
  const auto finish = [&](bool goes_on_forward) {
    const bool forward = !is_backward && goes_on_forward;
    size_t count = 0;
    for (WorkIndex i : waiting) {
      Work& work = works_[i];
      if (forward) {
        const auto [at, is_new] =
            numbers.try_emplace({last, count++}, static_cast<LayerNumber>(layers_.size()));
        if (is_new) layers_.push_back({"batched product", "matmul"});
        work.layer = at->second;
        work.direction = LayerDirection::kForward;
        layers_[work.layer].forward.push_back(i);
      } else if (is_backward && !goes_on_forward) {
        work.layer = LayerOfBatchedGradient(i);
        if (work.layer != kNone) work.direction = LayerDirection::kBackwardData;
      }
    }
    waiting.clear();
  };
  for (WorkIndex i = 0; i < works_.size(); ++i) {
    if (KindOf(i).role == Role::kBatched) waiting.push_back(i);
    if (!IsForward(i) && !IsGradient(i)) continue;
    finish(IsForward(i));
    is_backward = IsGradient(i);
    if (works_[i].layer != kNone) last = works_[i].layer;
  }
}

void Reader::PlaceBiases() {
  for (Work& work : works_) {
    if (work.owner == kNone || works_[work.owner].layer == kNone) continue;
    const bool forward = works_[work.owner].direction == LayerDirection::kForward;
    work.layer = works_[work.owner].layer;
    work.direction = forward ? LayerDirection::kForward : LayerDirection::kBackwardBias;
  }
}

// A layer with more gradients than forward products, or that runs forward in two ways, is none.
void Reader::CheckLayers() {
  struct Counts {
    size_t forward = 0, data = 0, weights = 0;
    std::set<int64_t> sums_over;
    uint64_t last_weights = 0;
  };
  std::vector<Counts> counts(layers_.size());
  for (WorkIndex i = 0; i < works_.size(); ++i) {
    const Work& work = works_[i];
    if (work.layer == kNone || work.owner != kNone) continue;
    Counts& of = counts[work.layer];
    if (work.direction == LayerDirection::kForward) {
      ++of.forward;
      of.sums_over.insert(ShapeOf(i).k);
      const Side side = KindOf(i).weights;
      const uint64_t now = side == Side::kA ? work.at.a : side == Side::kB ? work.at.b : 0;
      // New weights without a gradient in between are another layer's.
      const bool is_other = of.last_weights != 0 && of.last_weights != now;
      if (layers_[work.layer].by_sizes && is_other) layers_[work.layer].is_sure = false;
      of.last_weights = now;
    }
    if (work.direction == LayerDirection::kBackwardData) ++of.data;
    if (work.direction == LayerDirection::kBackwardWeights) {
      ++of.weights;
      of.last_weights = 0;
    }
  }
  for (LayerNumber layer = 0; layer < layers_.size(); ++layer) {
    const Counts& of = counts[layer];
    const size_t most = of.forward + of.forward / 10 + 1, gradients = layers_[layer].prefix == "matmul" ? 2 : 1;
    const bool too_many = of.weights > most || of.data > gradients * most;
    if (too_many || of.sums_over.size() > 1) layers_[layer].is_sure = false;
  }
}

void Reader::FindTypes() {
  ForEachStreak([&](const std::vector<WorkIndex>& streak) { VoteForTypes(streak); });
  const auto is_any = [&](auto which) { return std::any_of(layers_.begin(), layers_.end(), which); };
  const bool any_conv = is_any([](const Layer& layer) { return layer.convolution > layer.linear + layer.either; });
  const bool any_batched = is_any([](const Layer& layer) { return layer.prefix == "matmul"; });
  for (Layer& layer : layers_) {
    if (layer.prefix == "matmul") continue;
    // One by one, over more rows than there are samples: a convolution beside others, else each token's product.
    if (any_conv) layer.convolution += layer.either;
    if (any_batched && !any_conv) layer.linear += layer.either;
    const bool told = layer.convolution + layer.linear > layer.either;
    layer.type = !told ? "matrix product" : layer.convolution > layer.linear ? "convolution" : "linear";
    layer.prefix = !told ? "product" : layer.convolution > layer.linear ? "conv" : "fc";
  }
}

// A kernel's area is an odd square; the rows of a convolution are positions of all samples, and those of the layers
// behind it the samples.
void Reader::VoteForTypes(const std::vector<WorkIndex>& streak) {
  int64_t fewest_rows = INT64_MAX;
  for (WorkIndex work : streak) {
    const ProductShape& shape = ShapeOf(work);
    const int64_t rows = KindOf(work).weights == Side::kNone ? std::min(shape.m, shape.n) : SizesOf(work).rows;
    if (!works_[work].is_loop) fewest_rows = std::min(fewest_rows, rows);
  }
  const auto is_kernel = [](int64_t area) { return area > 1 && area % 2 == 1 && IsSquareNumber(area); };
  for (size_t i = 0; i < streak.size(); ++i) {
    if (works_[streak[i]].layer == kNone) continue;
    Layer& layer = layers_[works_[streak[i]].layer];
    const LayerSizes own = SizesOf(streak[i]);
    if (works_[streak[i]].is_loop) {
      ++(KindOf(streak[i]).weights == Side::kA ? layer.convolution : layer.linear);
      continue;
    }
    bool has_kernel = i == 0 && (is_kernel(own.in) || (own.in % 3 == 0 && is_kernel(own.in / 3)));
    for (size_t j = 0; j < i && !has_kernel; ++j) {
      const LayerSizes other = SizesOf(streak[j]);
      has_kernel = own.in % other.out == 0 && is_kernel(own.in / other.out);
    }
    const bool is_flat = own.rows == fewest_rows;
    if (!is_flat) {
      ++(has_kernel ? layer.convolution : layer.either);
    } else if (!has_kernel || i == 0) {
      ++layer.linear;
    } else {
      const LayerSizes before = SizesOf(streak[i - 1]);
      const int64_t samples = works_[streak[i - 1]].is_loop ? 1 : own.rows;
      const bool is_row_of_map = before.rows % samples == 0 && own.in % before.out == 0 &&
                                 (before.rows / samples) % (own.in / before.out) == 0;
      ++(is_row_of_map ? layer.linear : before.rows == own.rows ? layer.convolution : layer.either);
    }
  }
}

ProductLayers Reader::Result() const {
  ProductLayers result;
  std::map<LayerNumber, size_t> index;
  for (const Work& work : works_) {
    if (work.layer == kNone || !layers_[work.layer].is_sure) {
      result.open.insert(result.open.end(), work.calls.begin(), work.calls.end());
      continue;
    }
    const Layer& layer = layers_[work.layer];
    const auto [at, is_new] = index.try_emplace(work.layer, result.layers.size());
    if (is_new) result.layers.push_back({layer.type, layer.prefix, layer.evidence, {}});
    for (CallIndex call : work.calls) result.layers[at->second].calls.emplace_back(call, work.direction);
  }
  return result;
}

}  // namespace

ProductLayers ReadProductLayers(const TraceModel& model, const std::vector<OpFacts>& facts,
                                absl::Span<const CallIndex> calls, const std::vector<int64_t>& step_starts_ns) {
  return Reader(model, facts).Run(calls, step_starts_ns);
}

}  // namespace dlhook::analyzer
