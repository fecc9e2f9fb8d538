// Layers from the matrices that products read: see network_pass.h.
//
// A layer's forward product reads its weights and its input; the gradient of its input reads the weights again, that of
// its weights the input; both gradients read the gradient of the output. So products with the same three sizes that
// share matrices belong together, and the one that appears first is the forward product. Weights are what stays in
// place from step to step while other operands move, in a loop over images or where memory is reused; if everything
// stays in place, layers must fit to each other (the rows of one are those of the next, its columns are what the next
// one sums over). Then equal steps tell about each other's products. What this does not decide stays open.

#include "analyzer/layers/structure/reader.h"

namespace dlhook::analyzer::inline structure {
namespace product_reader {

// The largest side of a convolution's kernel.
constexpr int64_t kMaxKernel = 255;

void Reader::FindTypes() {
  ForEachStreak([&](const std::vector<WorkIndex>& streak) { VoteForTypes(streak); });
  const auto is_any = [&](auto which) { return absl::c_any_of(layers_, which); };
  const bool any_conv = is_any([](const Layer& layer) { return layer.convolution > layer.linear + layer.either; });
  const bool any_batched = is_any([](const Layer& layer) { return layer.prefix == "matmul"; });
  for (Layer& layer : layers_) {
    if (layer.prefix == "matmul") continue;
    // A loop over more rows than there are samples: a convolution if others are, else a product per token.
    if (any_conv) layer.convolution += layer.either;
    if (any_batched && !any_conv) layer.linear += layer.either;
    const bool told = layer.convolution + layer.linear > layer.either;
    layer.type = !told ? "matrix product" : layer.convolution > layer.linear ? "convolution" : "linear";
    layer.prefix = !told ? "product" : layer.convolution > layer.linear ? "conv" : "fc";
  }
}

// A kernel's area is an odd square; the rows of a convolution are the positions of all samples, those of the layers
// after it the samples.
void Reader::VoteForTypes(const std::vector<WorkIndex>& streak) {
  int64_t fewest_rows = INT64_MAX;
  for (WorkIndex work : streak) {
    const ProductShape& shape = ShapeOf(work);
    const int64_t rows = KindOf(work).weights == Side::kNone ? std::min(shape.m, shape.n) : SizesOf(work).rows;
    if (!works_[work].is_loop) fewest_rows = std::min(fewest_rows, rows);
  }
  absl::flat_hash_set<int64_t> outs;  // of the previous products
  const auto has_kernel_over = [&](int64_t in) {
    for (int64_t side = 3; side <= kMaxKernel && side * side <= in; side += 2) {
      if (in % (side * side) == 0 && outs.contains(in / (side * side))) return true;
    }
    return false;
  };
  for (size_t i = 0; i < streak.size(); ++i) {
    if (i > 0) outs.insert(SizesOf(streak[i - 1]).out);
    if (works_[streak[i]].layer == kNone) continue;
    Layer& layer = layers_[works_[streak[i]].layer];
    const LayerSizes own = SizesOf(streak[i]);
    if (works_[streak[i]].is_loop) {
      ++(KindOf(streak[i]).weights == Side::kA ? layer.convolution : layer.linear);
      continue;
    }
    bool has_kernel = i == 0 && (IsKernel(own.in) || (own.in % 3 == 0 && IsKernel(own.in / 3)));
    has_kernel = has_kernel || has_kernel_over(own.in);
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

// Decides alike what equal positions of equal steps compute: nearly all of those that are told apart must agree, else
// all are open. Steps are equal if they have the same products, and the forward ones are of the same layers.
void Reader::DecideByEqualSteps() {
  std::map<std::vector<std::pair<KindIndex, LayerNumber>>, std::vector<WorkIndex>> groups;  // their first products
  for (WorkIndex begin = 0, end = 0; begin < works_.size(); begin = end) {
    std::vector<std::pair<KindIndex, LayerNumber>> products;
    for (; end < works_.size() && works_[end].step == works_[begin].step; ++end) {
      const bool is_forward = works_[end].direction == LayerDirection::kForward;
      products.emplace_back(works_[end].kind, is_forward ? works_[end].layer : kNone);
    }
    groups[std::move(products)].push_back(begin);
  }
  for (const auto& [products, steps] : groups) {
    for (WorkIndex i = 0; steps.size() >= kMinSteps && i < products.size(); ++i) DecideAlike(steps, i);
  }
}

// The gradients that are `at` after the begins of these steps.
void Reader::DecideAlike(const std::vector<WorkIndex>& steps, WorkIndex at) {
  std::map<std::pair<LayerNumber, LayerDirection>, size_t> votes;
  size_t told = 0;
  for (const WorkIndex step : steps) {
    const Work& work = works_[step + at];
    if (work.owner != kNone || work.direction == LayerDirection::kForward) return;
    if (work.layer == kNone) continue;
    ++told;
    ++votes[{work.layer, work.direction}];
  }
  if (told < 2) return;
  const auto most = absl::c_max_element(votes, [](const auto& a, const auto& b) { return a.second < b.second; });
  const bool agree = AreNearlyAll(most->second, told);
  for (const WorkIndex step : steps) {
    Work& work = works_[step + at];
    work.layer = agree ? most->first.first : kNone;
    work.direction = agree ? most->first.second : LayerDirection::kUnknown;
  }
}

LayerDirection Reader::DirectionOf(KindIndex forward, Side gradient_of) const {
  return gradient_of == kinds_[forward].weights ? LayerDirection::kBackwardWeights : LayerDirection::kBackwardData;
}

// By open kind: forward kinds of the same three sizes, and of which of their operands it may be the gradient.
std::vector<std::vector<std::pair<KindIndex, Side>>> Reader::PossibleGradients() const {
  std::map<std::array<int64_t, 3>, std::vector<KindIndex>> forward;
  for (KindIndex i = 0; i < kinds_.size(); ++i) {
    if (kinds_[i].role == Role::kForward && kinds_[i].weights != Side::kNone) {
      forward[SortedSizes(*kinds_[i].shape)].push_back(i);
    }
  }
  std::vector<std::vector<std::pair<KindIndex, Side>>> found(kinds_.size());
  for (KindIndex i = 0; i < kinds_.size(); ++i) {
    if (kinds_[i].role != Role::kOpen) continue;
    for (const KindIndex of : forward[SortedSizes(*kinds_[i].shape)]) {
      if (MayBeGradientOfA(*kinds_[of].shape, *kinds_[i].shape)) found[i].emplace_back(of, Side::kA);
      if (MayBeGradientOfB(*kinds_[of].shape, *kinds_[i].shape)) found[i].emplace_back(of, Side::kB);
    }
  }
  return found;
}

// Says of a layer which part of its gradients it has, if others of these sizes are open.
void Reader::NoteParts() {
  std::map<std::pair<LayerNumber, LayerDirection>, size_t> told;
  std::map<std::pair<KindIndex, LayerDirection>, size_t> open;  // by forward kind
  const std::vector<std::vector<std::pair<KindIndex, Side>>> may_be = PossibleGradients();
  size_t passes = 0;
  bool is_batched_open = false;
  for (WorkIndex i = 0; i < works_.size(); ++i) {
    const Work& work = works_[i];
    const Kind& kind = KindOf(i);
    if (work.layer != kNone) {
      const size_t count = ++told[{work.layer, work.direction}];
      if (work.direction == LayerDirection::kBackwardWeights) passes = std::max(passes, count);
    } else if (IsGradient(i)) {
      ++open[{kind.forward, DirectionOf(kind.forward, kind.gradient_of)}];
    } else if (kind.role == Role::kOpen && work.owner == kNone) {
      for (const auto& [forward, side] : may_be[work.kind]) ++open[{forward, DirectionOf(forward, side)}];
    }
    is_batched_open |= work.layer == kNone && kind.role == Role::kBatched;
  }
  for (const auto& [of, count] : open) NotePartsOf(of.first, of.second, count, &told);
  for (LayerNumber i = 0; is_batched_open && i < layers_.size(); ++i) {
    if (layers_[i].prefix != "matmul") continue;
    const size_t all = 2 * std::min(passes, layers_[i].forward.size());
    NotePart(told[{i, LayerDirection::kBackwardData}], all, "operands", &layers_[i]);
  }
}

// Of the layers of a forward kind, some of whose gradients are open.
void Reader::NotePartsOf(KindIndex forward, LayerDirection direction, size_t open,
                         std::map<std::pair<LayerNumber, LayerDirection>, size_t>* told) {
  std::set<LayerNumber> layers;
  for (const WorkIndex work : kinds_[forward].works) layers.insert(works_[work].layer);
  layers.erase(kNone);
  const bool of_data = direction == LayerDirection::kBackwardData;
  const LayerDirection other = of_data ? LayerDirection::kBackwardWeights : LayerDirection::kBackwardData;
  size_t most = 0;
  for (const LayerNumber layer : layers) most = std::max({most, (*told)[{layer, direction}], (*told)[{layer, other}]});
  for (const LayerNumber layer : layers) {
    const size_t own = (*told)[{layer, direction}];
    if (of_data && own == 0) continue;  // a first layer
    const size_t all = std::max(most, layers.size() == 1 ? own + open : own);
    NotePart(own, std::min(all, layers_[layer].forward.size()), of_data ? "input" : "weights", &layers_[layer]);
  }
}

void Reader::NotePart(size_t own, size_t all, const char* what, Layer* layer) {
  if (own >= all) return;
  absl::StrAppend(&layer->ambiguity, layer->ambiguity.empty() ? "" : "; ", "has ", own, " of ", all,
                  " gradients of its ", what, ": the others cannot be distinguished from other layers'");
}

// Vectors are scaled, repeated or summed by products, too (a softmax, a mean): where networks are trained, a layer of one
// input or output has a gradient of its weights.
void Reader::SetAsideVectors() {
  std::vector<bool> is_trained(kinds_.size());
  bool any_gradient = false;
  for (const Kind& kind : kinds_) {
    if (kind.role != Role::kGradient) continue;
    any_gradient = true;
    if (kind.gradient_of == kinds_[kind.forward].weights) is_trained[kind.forward] = true;
  }
  for (KindIndex i = 0; any_gradient && i < kinds_.size(); ++i) {
    Kind& kind = kinds_[i];
    if (kind.role != Role::kForward || kind.weights == Side::kNone || is_trained[i]) continue;
    const LayerSizes sizes = product_reader::SizesOf(*kind.shape, kind.weights);
    if (std::min(sizes.in, sizes.out) == 1) kind.role = Role::kOpen;
  }
  for (Kind& kind : kinds_) {
    if (kind.role == Role::kGradient && kinds_[kind.forward].role == Role::kOpen) kind.role = Role::kOpen;
  }
}

// Whether forward products before known layers are open, so that numbers would not be those of the program's layers.
bool Reader::HasGaps() const {
  size_t gaps = 0, streaks = 0;
  bool is_open = false, is_gap = false, has_layer = false;
  const auto close = [&] {
    gaps += is_gap ? 1 : 0;
    streaks += has_layer ? 1 : 0;
    is_open = is_gap = has_layer = false;
  };
  for (WorkIndex i = 0; i < works_.size(); ++i) {
    const Work& work = works_[i];
    if (work.owner != kNone) continue;
    if (IsGradient(i)) {
      close();
    } else if (work.layer == kNone || !layers_[work.layer].is_sure) {
      is_open = true;
    } else if (work.direction == LayerDirection::kForward) {
      has_layer = true;
      is_gap = is_gap || is_open;
    }
  }
  close();
  return static_cast<double>(gaps) > kHardlyAny * static_cast<double>(streaks);
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
    if (is_new) {
      const LayerSizes sizes = SizesOf(layer.forward[0]);
      result.layers.push_back(
          {layer.type, layer.prefix, absl::StrCat(sizes.in, "x", sizes.out), layer.ambiguity, layer.evidence, {}});
    }
    for (CallIndex call : work.calls) result.layers[at->second].calls.emplace_back(call, work.direction);
  }
  result.has_gaps = HasGaps();
  return result;
}

namespace {

// Only a thread's first products have operands; later ones are identified by their ops, which continue in the same
// order, or belong to one layer and direction.
void PlaceLater(const TraceModel& model, absl::Span<const CallIndex> calls, size_t known, ProductLayers* result) {
  const auto op_at = [&](size_t i) { return model.calls.op[calls[i]]; };
  absl::flat_hash_map<CallIndex, Place> place_of;
  for (LayerNumber i = 0; i < result->layers.size(); ++i) {
    for (const auto& [call, direction] : result->layers[i].calls) place_of[call] = {i, direction};
  }
  std::vector<Place> places(calls.size());
  absl::flat_hash_map<OpIndex, Place> of_op;
  for (size_t i = 0; i < known; ++i) {
    if (const auto found = place_of.find(calls[i]); found != place_of.end()) places[i] = found->second;
    const auto [at, is_new] = of_op.try_emplace(op_at(i), places[i]);
    if (at->second != places[i]) at->second = {};
  }
  // With which the last ops repeat, at least twice; 0: none.
  size_t period = 0;
  for (size_t tried = 1; 3 * tried <= known && period == 0; ++tried) {
    size_t equal = 0;
    while (equal < 2 * tried && op_at(known - 1 - equal) == op_at(known - 1 - equal - tried)) ++equal;
    if (equal == 2 * tried) period = tried;
  }
  for (size_t i = known; i < calls.size(); ++i) {
    if (period != 0 && op_at(i) != op_at(i - period)) period = 0;
    if (period != 0) {
      places[i] = places[i - period];
    } else if (const auto found = of_op.find(op_at(i)); found != of_op.end()) {
      places[i] = found->second;
    }
    if (places[i].layer == kNone) {
      result->open.push_back(calls[i]);
    } else {
      result->layers[places[i].layer].calls.emplace_back(calls[i], places[i].direction);
    }
  }
}

}  // namespace
}  // namespace product_reader

ProductLayers ReadProductLayers(const TraceModel& model, const std::vector<OpFacts>& facts,
                                absl::Span<const CallIndex> calls, const std::vector<int64_t>& step_starts_ns) {
  size_t known = 0;
  while (known < calls.size() && OperandsOfCall(model, facts, calls[known]).a != 0) ++known;
  ProductLayers result = product_reader::Reader(model, facts).Run(calls.first(known), step_starts_ns);
  product_reader::PlaceLater(model, calls, known, &result);
  return result;
}

}  // namespace dlhook::analyzer::structure
