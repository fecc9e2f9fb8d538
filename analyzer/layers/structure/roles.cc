// What a track's products are: forward work, gradients, biases. See reader.h.
//
// Both gradients of a forward product have its three sizes, in other roles, and share matrices with it and with each
// other; the kind that appears first is the forward product.

#include "analyzer/layers/structure/reader.h"
#include "analyzer/steps/measured_steps.h"

namespace dlhook::analyzer::inline structure::product_reader {
namespace {

// How far from a product to look for its bias.
constexpr size_t kBeside = 4;

// Whether the second product may add to everything that the first wrote, or to all its groups.
bool AddsTo(const ProductShape& product, const ProductShape& bias) {
  return (product.n == bias.n && bias.m % product.m == 0) || (product.m == bias.m && bias.n % product.n == 0);
}

bool MayBeGradientOf(Side side, const ProductShape& forward, const ProductShape& gradient) {
  return side == Side::kA ? MayBeGradientOfA(forward, gradient) : MayBeGradientOfB(forward, gradient);
}

}  // namespace

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
      ++uses_at_[matrix.address];
    }
    ++uses_at_[works_[i].at.c];
    written_.insert(works_[i].at.c);
  }
}

// Finds products with a vector that add to the result of the previous product, or sum an operand of an adjacent one.
void Reader::SetAsideBiases() {
  const auto is_vector = [&](WorkIndex i) { return ShapeOf(i).m == 1 || ShapeOf(i).n == 1 || ShapeOf(i).k == 1; };
  for (WorkIndex i = 0; i < works_.size(); ++i) {
    for (size_t far = 1; is_vector(i) && far <= kBeside && works_[i].owner == kNone; ++far) {
      for (const WorkIndex j : {static_cast<WorkIndex>(i - far), static_cast<WorkIndex>(i + far)}) {
        if (j >= works_.size() || is_vector(j)) continue;
        const Operands &own = works_[i].at, &other = works_[j].at;
        const bool adds = ShapeOf(i).k == 1 && j < i && own.c == other.c && AddsTo(ShapeOf(j), ShapeOf(i));
        const bool sums =
            ShapeOf(i).k > 1 && (own.a == other.a || own.a == other.b || own.b == other.a || own.b == other.b);
        if (adds || sums) works_[i].owner = j;
      }
    }
  }
  // An op that is next to such a product only sometimes is not a bias, nor is one that reads a vector that other
  // products read.
  std::set<OpIndex> others;
  std::set<uint64_t> read;
  for (const Work& work : works_) {
    if (work.owner != kNone) continue;
    others.insert(work.op);
    read.insert({work.at.a, work.at.b});
  }
  for (Work& work : works_) {
    const ProductShape& shape = facts_[work.op].product;
    const uint64_t vector = shape.n == 1 ? work.at.b : work.at.a;
    const bool sums = shape.k > 1 && read.count(vector) > 0;
    if (others.count(work.op) > 0 || sums) work.owner = kNone;
  }
}

void Reader::MakeKinds() {
  std::map<std::array<int64_t, 7>, KindIndex> known;
  for (WorkIndex i = 0; i < works_.size(); ++i) {
    const ProductShape& shape = ShapeOf(i);
    const auto [at, is_new] = known.try_emplace(
        {shape.m, shape.n, shape.k, shape.batch, shape.a_is_transposed, shape.b_is_transposed, works_[i].is_loop},
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

// Finds the roles of kinds with the same three sizes in any order, in the order of their first calls.
void Reader::FindRoles() {
  std::map<std::array<int64_t, 3>, std::vector<KindIndex>> families;
  for (KindIndex index = 0; index < kinds_.size(); ++index) {
    const ProductShape& shape = *kinds_[index].shape;
    if (kinds_[index].role == Role::kBatched || kinds_[index].works.empty()) continue;
    std::vector<KindIndex>& family = families[SortedSizes(shape)];
    FindRole(index, family);
    family.push_back(index);
  }
  ForwardReaders readers;
  for (KindIndex i = 0; i < kinds_.size(); ++i) NoteForward(i, &readers);
  for (KindIndex i = 0; i < kinds_.size(); ++i) {
    if (kinds_[i].role != Role::kGradient || !RunsAmongForward(kinds_[i], readers)) continue;
    kinds_[i].role = Role::kForward;
    NoteForward(i, &readers);
  }
  for (Kind& kind : kinds_) {
    if (kind.role == Role::kForward && RunsAmongGradients(kind)) kind.role = Role::kOpen;
  }
}

// Whether products of these sizes are forward products in one place and gradients in another, or neither.
bool Reader::RunsAmongGradients(const Kind& kind) const {
  const auto among = absl::c_count_if(kind.works, [&](WorkIndex work) {
    const bool is_among = work > 0 && work + 1 < works_.size() && IsGradient(work - 1) && IsGradient(work + 1);
    return is_among && KindOf(work + 1).forward != works_[work].kind;  // except in a network of one layer
  });
  return static_cast<double>(among) > kHardlyAny * static_cast<double>(kind.works.size());
}

// The last kFar of them.
absl::Span<const Read> Reader::ReadsBefore(const Matrix& matrix, WorkIndex work) const {
  const std::vector<Read>& reads = reads_.at(matrix);
  const auto end =
      absl::c_lower_bound(reads, work, [](const Read& read, WorkIndex value) { return read.work < value; });
  const auto count = static_cast<size_t>(end - reads.begin());
  return absl::MakeConstSpan(reads).subspan(count - std::min(count, kFar), std::min(count, kFar));
}

// By kind in `before`, its operand and the own operand: the part of the works that read a matrix which such a work read
// before.
std::map<Sharing, double> Reader::PartsShared(const Kind& kind, const std::vector<KindIndex>& before) const {
  std::map<Sharing, double> parts;
  for (WorkIndex work : kind.works) {
    std::set<Sharing> shared;
    for (Side side : {Side::kA, Side::kB}) {
      for (const Read& read : ReadsBefore(MatrixOf(work, side), work)) {
        const KindIndex other = works_[read.work].kind;
        if (absl::c_linear_search(before, other)) shared.insert({other, read.side, side});
      }
    }
    for (const Sharing& each : shared) parts[each] += 1.0 / static_cast<double>(kind.works.size());
  }
  return parts;
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
  const auto note = [&] { gradients_.insert(kind.works.begin(), kind.works.end()); };
  if (most >= kNearlyAll) return note();
  const bool some_share = most > kHardlyAny;
  const std::pair of_some(kind.forward, kind.gradient_of);
  const bool is_gradient = IsOtherGradient(parts, kind) || IsGradientBySizes(before, kind);
  if (!is_gradient) kind.role = some_share || MayBeOpenGradient(before, kind) ? Role::kOpen : Role::kForward;
  if (is_gradient && some_share && of_some != std::pair(kind.forward, kind.gradient_of)) kind.role = Role::kOpen;
  if (kind.role == Role::kGradient) note();
}

// Whether it is the other gradient of a layer whose input was recomputed: both share the output gradient.
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

// If it is a forward kind.
void Reader::NoteForward(KindIndex kind, ForwardReaders* readers) const {
  if (kinds_[kind].role != Role::kForward) return;
  for (WorkIndex work : kinds_[kind].works) {
    for (Side side : {Side::kA, Side::kB}) {
      std::array<KindIndex, 2>& two = readers->try_emplace(MatrixOf(work, side), std::array{kind, kind}).first->second;
      if (two[0] != kind) two[1] = kind;
    }
  }
}

// Whether other kinds' forward products run right before and after it, and other products read the same matrices: the
// weights of another layer, at another batch size.
bool Reader::RunsAmongForward(const Kind& kind, const ForwardReaders& readers) const {
  const auto is_other_forward = [&](WorkIndex work) {
    return work < works_.size() && KindOf(work).role == Role::kForward && works_[work].kind != kind.forward;
  };
  const auto among = absl::c_count_if(kind.works, [&](WorkIndex work) {
    if (work == 0 || !is_other_forward(work - 1) || !is_other_forward(work + 1)) return false;
    const auto is_read_by_other = [&](Side side) {
      const auto found = readers.find(MatrixOf(work, side));
      return found != readers.end() && found->second != std::array{kind.forward, kind.forward};
    };
    return is_read_by_other(Side::kA) || is_read_by_other(Side::kB);
  });
  return 2 * static_cast<size_t>(among) > kind.works.size();
}

// Whether its sizes allow it to be a gradient that a kind lacks, and gradients were computed before it.
bool Reader::MayBeOpenGradient(const std::vector<KindIndex>& before, const Kind& kind) const {
  for (KindIndex forward : before) {
    if (kinds_[forward].role != Role::kForward) continue;
    const auto gradient = gradients_.lower_bound(kinds_[forward].works[0]);
    if (gradient == gradients_.end() || *gradient >= kind.works[0]) continue;
    for (Side of : {Side::kA, Side::kB}) {
      const bool is_known = absl::c_any_of(before, [&](KindIndex other) {
        return kinds_[other].role == Role::kGradient && kinds_[other].forward == forward &&
               kinds_[other].gradient_of == of;
      });
      if (!is_known && MayBeGradientOf(of, *kinds_[forward].shape, *kind.shape)) return true;
    }
  }
  return false;
}

// Whether there is exactly one forward kind of these sizes, whose weights stay in place, while this product reads
// recomputed data, and that operand has no other gradient.
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

// The part of a kind's works that read, on this side, a matrix that they read in nearly every step and that hardly
// anything else uses.
double Reader::SteadyPart(const Kind& kind, Side side) const {
  struct Steps {  // products are in order of time, so each step is counted when it begins
    size_t last = SIZE_MAX;
    size_t count = 0;
    void Add(size_t step) { count += step != std::exchange(last, step) ? 1 : 0; }
  } steps;
  absl::flat_hash_map<Matrix, Steps> steps_of;
  for (WorkIndex work : kind.works) {
    steps.Add(works_[work].step);
    steps_of[MatrixOf(work, side)].Add(works_[work].step);
  }
  if (steps.count < kMinSteps) return 0;
  size_t steady = 0;
  for (WorkIndex work : kind.works) {
    const Matrix matrix = MatrixOf(work, side);
    steady += AreNearlyAll(steps_of[matrix].count, steps.count) && IsExclusive(matrix) ? 1 : 0;
  }
  return static_cast<double>(steady) / static_cast<double>(kind.works.size());
}

// Calls `take` with each streak: the forward products between gradients.
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

// A recording that began in a backward pass shows gradients first; they come in pairs, not one layer after the other.
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

}  // namespace dlhook::analyzer::structure::product_reader
