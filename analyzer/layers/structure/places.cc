// Which layer each product belongs to. See reader.h.

#include "analyzer/layers/structure/reader.h"

namespace dlhook::analyzer::inline structure::product_reader {

// Whether it is the next group of a convolution: all three operands adjoin those of the previous group.
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

// Decides what identifies layers whose weights have these sizes: the addresses, if the weights stay in place or all are
// read in one streak; the sizes alone, if there is one such layer whose weights are recreated in each step, where
// gradients were before. Two networks that alternate look like one whose weights move: that stays open.
void Reader::FindIdentities() {
  std::map<KindIndex, bool> is_steady;
  std::map<WeightSizes, std::map<uint64_t, size_t>> reads;
  std::map<WeightSizes, size_t> most_in_streak;
  ForEachStreak([&](const std::vector<WorkIndex>& streak) {
    std::map<WeightSizes, std::set<uint64_t>> in_streak;
    for (WorkIndex work : streak) {
      if (KindOf(work).weights == Side::kNone) continue;
      const Matrix weights = MatrixOf(work, KindOf(work).weights);
      const WeightSizes sizes(weights.shorter, weights.longer);
      ++reads[sizes][weights.address];
      in_streak[sizes].insert(weights.address);
      const auto [at, is_new] = is_steady.try_emplace(works_[work].kind);
      if (is_new) at->second = SteadyPart(KindOf(work), KindOf(work).weights) >= kNearlyAll;
      if (at->second) identities_[sizes] = Identity::kAddress;
    }
    for (const auto& [sizes, addresses] : in_streak) {
      most_in_streak[sizes] = std::max(most_in_streak[sizes], addresses.size());
    }
  });
  for (const auto& [sizes, by_address] : reads) {
    size_t all = 0, written = 0;
    for (const auto& [address, count] : by_address) {
      all += count;
      written += written_.count(address);
    }
    const bool are_made_anew = 2 * all < 5 * by_address.size() || 2 * written >= by_address.size();
    const Identity found = most_in_streak[sizes] == by_address.size()    ? Identity::kAddress
                           : most_in_streak[sizes] == 1 && are_made_anew ? Identity::kSizes
                                                                         : Identity::kOpen;
    identities_.try_emplace(sizes, found);
  }
}

// One layer per matrix of weights, or per sizes.
void Reader::PlaceForward() {
  FindIdentities();
  std::map<std::tuple<uint64_t, int64_t, int64_t>, LayerNumber> numbers;
  WorkIndex before = kNone;
  for (WorkIndex i = 0; i < works_.size(); ++i) {
    const Side side = KindOf(i).weights;
    if (!IsForward(i) || side == Side::kNone) continue;
    const Matrix weights = MatrixOf(i, side);
    const Identity identity = identities_.at({weights.shorter, weights.longer});
    if (identity == Identity::kOpen) continue;
    const uint64_t address = identity == Identity::kAddress ? weights.address : 0;
    const auto [at, is_new] =
        numbers.try_emplace({address, weights.shorter, weights.longer}, static_cast<LayerNumber>(layers_.size()));
    if (is_new && ContinuesGroup(before, i, side)) {
      at->second = works_[before].layer;
    } else if (is_new) {
      layers_.emplace_back();
    }
    Work& work = works_[i];
    work.layer = at->second;
    work.direction = LayerDirection::kForward;
    layers_[work.layer].forward.push_back(i);
    kinds_[work.kind].layers.insert(work.layer);
    before = i;
  }
}

// Whether the layer's forward product did not run between the two, so that they belong to one step.
bool Reader::IsOneStep(LayerNumber layer, WorkIndex one, WorkIndex other) const {
  const std::vector<WorkIndex>& forward = layers_[layer].forward;
  const auto [first, last] = std::minmax(one, other);
  const auto next = absl::c_upper_bound(forward, first);
  return next == forward.end() || *next >= last;
}

// The layer of the input gradient that reads this output gradient.
LayerNumber Reader::LayerBeside(WorkIndex work, const Matrix& output_gradient) const {
  if (work >= works_.size() || works_[work].direction != LayerDirection::kBackwardData) return kNone;
  return MatrixOf(work, Other(KindOf(work).input)) == output_gradient ? works_[work].layer : kNone;
}

// In the order in which LayerOfOutputGradient searches.
void Reader::IndexDataGradients() {
  for (const auto& [matrix, reads] : reads_) {
    for (const Read& read : reads) {
      const Work& work = works_[read.work];
      if (work.direction == LayerDirection::kBackwardData) data_gradients_.push_back({&reads, work.layer, read.work});
    }
  }
  absl::c_sort(data_gradients_);
}

// The layer of the only input gradient in its step that reads the same output gradient. Of each layer, none is in its
// step if the nearest ones are not. kNone: not unique, or among too many.
LayerNumber Reader::LayerOfOutputGradient(WorkIndex gradient, const Matrix& output_gradient,
                                          const std::set<LayerNumber>& among) const {
  const std::vector<Read>* const reads = &reads_.at(output_gradient);
  const auto first_from = [&](LayerNumber layer, WorkIndex work) {
    return absl::c_lower_bound(data_gradients_, DataGradient{reads, layer, work});
  };
  const auto is_in_step = [&](auto at, LayerNumber layer) {
    return at->reads == reads && at->layer == layer && IsOneStep(layer, at->work, gradient);
  };
  LayerNumber only = kNone;
  auto at = first_from(0, 0);
  for (size_t layers = 0; at != data_gradients_.end() && at->reads == reads; ++layers) {
    const LayerNumber layer = at->layer;
    const auto next = first_from(layer, gradient);
    const bool is_beside = (next != data_gradients_.end() && is_in_step(next, layer)) ||
                           (next != data_gradients_.begin() && is_in_step(std::prev(next), layer));
    if (layers >= kFar || (only != kNone && is_beside && among.count(layer) > 0)) return kNone;
    if (is_beside && among.count(layer) > 0) only = layer;
    at = first_from(layer + 1, 0);
  }
  return only;
}

// Whether weight gradients come before input gradients.
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

// The layer that both operands lead to; `readers`: of the forward products that read its input last. Recomputed columns
// may be in memory that another layer used before.
LayerNumber Reader::LayerOfWeightsGradient(WorkIndex gradient, const std::set<LayerNumber>& readers,
                                           bool weights_first) const {
  const Kind& kind = KindOf(gradient);
  const std::set<LayerNumber>& all = kinds_[kind.forward].layers;
  const std::set<LayerNumber>& by_input = kind.shares == Side::kNone || readers.empty() ? all : readers;
  const Matrix output_gradient = MatrixOf(gradient, Other(kind.input));
  const LayerNumber first = LayerBeside(weights_first ? gradient + 1 : gradient - 1, output_gradient);
  const LayerNumber other = LayerBeside(weights_first ? gradient - 1 : gradient + 1, output_gradient);
  const LayerNumber beside = first != kNone ? first : other;
  if (beside != kNone && all.count(beside) > 0) {
    return by_input.count(beside) > 0 || works_[gradient].is_loop ? beside : kNone;
  }
  return by_input.size() == 1 ? *by_input.begin() : LayerOfOutputGradient(gradient, output_gradient, by_input);
}

void Reader::PlaceGradients() {
  const bool weights_first = AreWeightsFirst();
  for (const auto& [matrix, reads] : reads_) PlaceGradientsOf(reads, /*of_weights=*/false, weights_first);
  IndexDataGradients();
  for (const auto& [matrix, reads] : reads_) PlaceGradientsOf(reads, /*of_weights=*/true, weights_first);
}

// Those that read a matrix as forward products did before, or would have.
void Reader::PlaceGradientsOf(const std::vector<Read>& reads, bool of_weights, bool weights_first) {
  std::set<LayerNumber> readers;  // layers of the forward products that read it last, with no gradient in between
  LayerNumber last = kNone;
  bool ended = false;
  for (const Read& read : reads) {
    Work& work = works_[read.work];
    if (work.direction == LayerDirection::kForward) {
      if (std::exchange(ended, false)) readers.clear();
      readers.insert(last = work.layer);
    }
    if (!IsGradient(read.work)) continue;
    ended = true;
    const Kind& kind = KindOf(read.work);
    const Side weights = kinds_[kind.forward].weights;
    if (read.side != kind.input || weights == Side::kNone || (kind.gradient_of == weights) != of_weights) continue;
    work.layer = of_weights ? LayerOfWeightsGradient(read.work, readers, weights_first) : last;
    if (work.layer == kNone) continue;
    work.direction = of_weights ? LayerDirection::kBackwardWeights : LayerDirection::kBackwardData;
    if (kind.by_shapes) layers_[work.layer].evidence = Evidence::kShapes;
  }
}

// The layer of the forward product in its step that read one of its operands; kNone: not unique.
LayerNumber Reader::LayerOfBatchedGradient(WorkIndex gradient) const {
  std::set<LayerNumber> layers;
  for (Side side : {Side::kA, Side::kB}) {
    LayerNumber last = kNone;
    for (const Read& read : ReadsBefore(MatrixOf(gradient, side), gradient)) {
      const Work& work = works_[read.work];
      const bool is_forward = work.direction == LayerDirection::kForward;
      if (is_forward && IsOneStep(work.layer, read.work, gradient)) last = work.layer;
    }
    if (last != kNone) layers.insert(last);
  }
  return layers.size() == 1 ? *layers.begin() : kNone;
}

// Products of parts of two activations have no weights: their position among others shows whether they are forward
// products, and the matrices that they share with forward products show which gradients belong to them.
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
        const auto [at, is_new] = numbers.try_emplace({last, count++}, static_cast<LayerNumber>(layers_.size()));
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
    if (!forward && facts_[work.op].product.k == 1) continue;  // adds to a gradient
    work.layer = works_[work.owner].layer;
    work.direction = forward ? LayerDirection::kForward : LayerDirection::kBackwardBias;
  }
}

// How many forward products of each layer fit to the previous or next one.
std::vector<size_t> Reader::CountFitting() const {
  std::vector<size_t> fitting(layers_.size());
  ForEachStreak([&](const std::vector<WorkIndex>& streak) {
    for (size_t i = 0; i < streak.size(); ++i) {
      if (works_[streak[i]].layer == kNone) continue;
      const auto fits = [&](size_t first, size_t second) {
        return second < streak.size() && works_[streak[first]].layer != kNone &&
               works_[streak[second]].layer != kNone &&
               Fit(SizesOf(streak[first]), SizesOf(streak[second]), works_[streak[first]].is_loop).chain > 0;
      };
      if ((i > 0 && fits(i - 1, i)) || fits(i, i + 1)) ++fitting[works_[streak[i]].layer];
    }
  });
  return fitting;
}

// Rejects layers with more gradients than forward products, or whose forward products differ. If other layers have
// gradients, a layer without must fit to its neighbours. If none has gradients, a network must run completely in each
// step: all layers are reported, or none.
void Reader::CheckLayers() {
  struct Counts {
    size_t forward = 0, data = 0, weights = 0;
    std::set<int64_t> sums_over;
    std::set<size_t> steps;
  };
  std::vector<Counts> counts(layers_.size());
  for (WorkIndex i = 0; i < works_.size(); ++i) {
    const Work& work = works_[i];
    if (work.layer == kNone || work.owner != kNone) continue;
    Counts& of = counts[work.layer];
    if (work.direction == LayerDirection::kForward) {
      ++of.forward;
      of.sums_over.insert(ShapeOf(i).k);
      of.steps.insert(work.step);
    }
    if (work.direction == LayerDirection::kBackwardData) ++of.data;
    if (work.direction == LayerDirection::kBackwardWeights) ++of.weights;
  }
  const std::vector<size_t> fitting = CountFitting();
  const bool any_gradient = absl::c_any_of(counts, [](const Counts& of) { return of.weights + of.data > 0; });
  for (LayerNumber layer = 0; layer < layers_.size(); ++layer) {
    const Counts& of = counts[layer];
    const size_t most = of.forward + of.forward / 10 + 1, gradients = layers_[layer].prefix == "matmul" ? 2 : 1;
    const bool is_alone = any_gradient && of.weights + of.data == 0 && 2 * fitting[layer] < of.forward;
    const bool too_many = of.weights > most || of.data > gradients * most;
    if (too_many || is_alone || of.sums_over.size() > 1) layers_[layer].is_sure = false;
  }
  if (any_gradient) return;
  std::set<size_t> steps;
  bool is_whole = true;
  for (const Work& work : works_) {
    steps.insert(work.step);
    is_whole = is_whole && work.layer != kNone && layers_[work.layer].is_sure;
  }
  for (const Counts& of : counts) {
    is_whole = is_whole && (steps.size() < kMinSteps || AreNearlyAll(of.steps.size(), steps.size()));
  }
  for (Layer& layer : layers_) layer.is_sure = layer.is_sure && is_whole;
}

}  // namespace dlhook::analyzer::structure::product_reader
