// The implementation of ReadProductLayers: the roles of products (roles.cc), the side of their weights (sides.cc), their
// layers (places.cc), and what equal steps and open products say about these (weights.cc).
#pragma once

#include "absl/container/flat_hash_set.h"
#include "analyzer/layers/structure/network_pass.h"

namespace dlhook::analyzer::inline structure::product_reader {

// Parts of an op's calls: nearly all, hardly any.
inline constexpr double kNearlyAll = 0.8;
inline constexpr double kHardlyAny = 0.3;
inline bool AreNearlyAll(size_t some, size_t all) {
  return static_cast<double>(some) >= kNearlyAll * static_cast<double>(all);
}
// Steps from which on staying in place counts as evidence.
inline constexpr size_t kMinSteps = 3;
// How many earlier reads of a matrix, or others that share it, to examine: the work stays proportional to the calls.
inline constexpr size_t kFar = 64;
using WorkIndex = uint32_t;
using LayerNumber = uint32_t;

enum class Side : uint8_t { kNone, kA, kB };
enum class Role : uint8_t { kOpen, kForward, kGradient, kBatched };

// A matrix in memory; its transpose is the same.
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

using KindIndex = uint32_t;  // of products of one shape, however it was passed to BLAS

// A product, including its repetitions in a loop.
struct Work {
  OpIndex op = 0;
  KindIndex kind = 0;
  Operands at;
  bool moves_a = false;  // between iterations of the loop
  bool moves_b = false;
  bool is_loop = false;
  size_t step = 0;
  std::vector<CallIndex> calls;
  WorkIndex owner = kNone;  // for a bias: the product to which it is added, or whose operand it sums
  LayerNumber layer = kNone;
  LayerDirection direction = LayerDirection::kUnknown;
};

struct Kind {
  const ProductShape* shape = nullptr;
  std::vector<WorkIndex> works;  // without biases
  Role role = Role::kOpen;
  Side weights = Side::kNone;  // forward: the operand that holds the weights
  // For gradients: the forward kind, and which of its operands is read again. kNone: neither, it was recomputed.
  KindIndex forward = 0;
  Side shares = Side::kNone;
  Side gradient_of = Side::kNone;
  Side input = Side::kNone;      // for gradients: the operand that also is (or would be) the forward product's
  std::set<LayerNumber> layers;  // forward: of its products
  bool by_shapes = false;
};

struct Read {
  WorkIndex work;
  Side side;
};

// An input gradient that reads the matrix of these reads.
struct DataGradient {
  const std::vector<Read>* reads = nullptr;
  LayerNumber layer = kNone;
  WorkIndex work = 0;
  auto operator<=>(const DataGradient&) const = default;
};

// By matrix: two forward kinds that read it.
using ForwardReaders = absl::flat_hash_map<Matrix, std::array<KindIndex, 2>>;

// Another kind, its operand, and the own operand that reads the same matrix.
using Sharing = std::tuple<KindIndex, Side, Side>;

// What distinguishes layers whose weights have the same sizes.
enum class Identity : uint8_t { kOpen, kAddress, kSizes };
using WeightSizes = std::pair<int64_t, int64_t>;

struct Layer {
  std::string type;
  std::string prefix;
  Evidence evidence = Evidence::kPointers;
  bool is_sure = true;
  std::string ambiguity;
  std::vector<WorkIndex> forward;
  // Number of forward products that look like it.
  int convolution = 0;
  int linear = 0;
  int either = 0;
};

inline Side Other(Side side) { return side == Side::kA ? Side::kB : Side::kA; }
// Of which nearly all say so, where hardly any says so of the other.
inline Side SideOfParts(double a, double b) {
  if (a >= kNearlyAll && b <= kHardlyAny) return Side::kA;
  return b >= kNearlyAll && a <= kHardlyAny ? Side::kB : Side::kNone;
}

// Of a forward product with known weights: y[rows, out] = x[rows, in] w[in, out].
struct LayerSizes {
  int64_t rows, in, out;
};
// How well the second layer fits to the first: its inputs to the other's outputs, and its rows.
struct Fits {
  int64_t chain = 0;
  int64_t rows = 0;
  int64_t all() const { return chain + rows; }
};

LayerSizes SizesOf(const ProductShape& shape, Side weights);
// `is_image`: rows of the first are positions of one image.
Fits Fit(const LayerSizes& first, const LayerSizes& second, bool is_image = false);
// Whether it is an odd square.
bool IsKernel(int64_t area);
std::array<int64_t, 3> SortedSizes(const ProductShape& shape);

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
    SetAsideVectors();
    if (!RunsForward()) return Result();
    PlaceForward();
    PlaceGradients();
    PlaceBatched();
    DecideByEqualSteps();
    PlaceBiases();
    CheckLayers();
    NoteParts();
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
  void NoteForward(KindIndex kind, ForwardReaders* readers) const;
  bool RunsAmongForward(const Kind& kind, const ForwardReaders& readers) const;
  bool RunsAmongGradients(const Kind& kind) const;
  bool MayBeOpenGradient(const std::vector<KindIndex>& before, const Kind& kind) const;
  bool IsGradientBySizes(const std::vector<KindIndex>& before, Kind& kind) const;
  double SteadyPart(const Kind& kind, Side side) const;
  void FindWeights();
  Side FixedInLoops(const Kind& kind) const;
  bool IsByImage(const Kind& kind) const;
  Side SteadySide(const Kind& kind) const;
  std::vector<Side> SidesByFit() const;
  std::vector<Side> SidesByVariants() const;
  void NoteWeights(const Kind& kind, absl::flat_hash_set<Matrix>* known) const;
  Side SideOfWeights(const Kind& kind, const absl::flat_hash_set<Matrix>& known) const;
  std::vector<Side> SidesByRows() const;
  void ForEachStreak(const std::function<void(const std::vector<WorkIndex>&)>& take) const;
  std::vector<Side> SidesOfFirstLayers() const;
  std::vector<std::array<size_t, 2>> CountGradients() const;
  void SetAsideVectors();
  bool RunsForward() const;
  void FindIdentities();
  void PlaceForward();
  void PlaceGradients();
  void PlaceBatched();
  void PlaceBiases();
  bool ContinuesGroup(WorkIndex before, WorkIndex work, Side weights) const;
  void PlaceGradientsOf(const std::vector<Read>& reads, bool of_weights, bool weights_first);
  absl::Span<const Read> ReadsBefore(const Matrix& matrix, WorkIndex work) const;
  void IndexDataGradients();
  bool IsOneStep(LayerNumber layer, WorkIndex one, WorkIndex other) const;
  LayerNumber LayerBeside(WorkIndex work, const Matrix& output_gradient) const;
  LayerNumber LayerOfOutputGradient(WorkIndex gradient, const Matrix& output_gradient,
                                    const std::set<LayerNumber>& among) const;
  bool AreWeightsFirst() const;
  LayerNumber LayerOfWeightsGradient(WorkIndex gradient, const std::set<LayerNumber>& readers,
                                     bool weights_first) const;
  LayerNumber LayerOfBatchedGradient(WorkIndex gradient) const;
  void DecideByEqualSteps();
  void DecideAlike(const std::vector<WorkIndex>& steps, WorkIndex at);
  LayerDirection DirectionOf(KindIndex forward, Side gradient_of) const;
  std::vector<std::vector<std::pair<KindIndex, Side>>> PossibleGradients() const;
  void NoteParts();
  void NotePartsOf(KindIndex forward, LayerDirection direction, size_t open,
                   std::map<std::pair<LayerNumber, LayerDirection>, size_t>* told);
  static void NotePart(size_t own, size_t all, const char* what, Layer* layer);
  bool HasGaps() const;
  std::vector<size_t> CountFitting() const;
  void CheckLayers();
  void FindTypes();
  void VoteForTypes(const std::vector<WorkIndex>& streak);
  ProductLayers Result() const;

  const Kind& KindOf(WorkIndex work) const { return kinds_[works_[work].kind]; }
  bool IsForward(WorkIndex work) const { return works_[work].owner == kNone && KindOf(work).role == Role::kForward; }
  bool IsGradient(WorkIndex work) const { return works_[work].owner == kNone && KindOf(work).role == Role::kGradient; }
  const ProductShape& ShapeOf(WorkIndex work) const { return facts_[works_[work].op].product; }
  Matrix MatrixOf(WorkIndex work, Side side) const {
    const ProductShape& shape = ShapeOf(work);
    const auto [shorter, longer] = side == Side::kA ? std::minmax(shape.m, shape.k) : std::minmax(shape.k, shape.n);
    return {side == Side::kA ? works_[work].at.a : works_[work].at.b, shorter, longer};
  }
  LayerSizes SizesOf(WorkIndex work) const { return product_reader::SizesOf(ShapeOf(work), KindOf(work).weights); }
  // Whether hardly anything else uses this memory: weights may be created where an earlier batch was.
  bool IsExclusive(const Matrix& matrix) const {
    return AreNearlyAll(reads_.at(matrix).size(), uses_at_.at(matrix.address));
  }

  const TraceModel& model_;
  const std::vector<OpFacts>& facts_;
  std::vector<Work> works_;
  std::vector<Kind> kinds_;
  absl::flat_hash_map<Matrix, std::vector<Read>> reads_;
  absl::flat_hash_map<uint64_t, size_t> uses_at_;  // how often products read or write at an address
  absl::flat_hash_set<uint64_t> written_;          // addresses that products write
  absl::btree_set<WorkIndex> gradients_;           // of the kinds that are known to be gradients
  std::vector<DataGradient> data_gradients_;       // sorted
  std::map<WeightSizes, Identity> identities_;
  std::vector<Layer> layers_;
};

}  // namespace dlhook::analyzer::structure::product_reader
