// What equal steps tell about each other's products, and what remains open of a layer. See reader.h.

#include "absl/strings/str_cat.h"
#include "analyzer/layers/structure/network_pass.h"
#include "analyzer/layers/structure/reader.h"

namespace dlhook::analyzer::inline structure::product_reader {

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
  const bool agree = static_cast<double>(most->second) >= kNearlyAll * static_cast<double>(told);
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
  const auto sizes_of = [](const ProductShape& shape) {
    std::array<int64_t, 3> sizes = {shape.m, shape.n, shape.k};
    absl::c_sort(sizes);
    return sizes;
  };
  std::map<std::array<int64_t, 3>, std::vector<KindIndex>> forward;
  for (KindIndex i = 0; i < kinds_.size(); ++i) {
    if (kinds_[i].role == Role::kForward && kinds_[i].weights != Side::kNone) {
      forward[sizes_of(*kinds_[i].shape)].push_back(i);
    }
  }
  std::vector<std::vector<std::pair<KindIndex, Side>>> found(kinds_.size());
  for (KindIndex i = 0; i < kinds_.size(); ++i) {
    const auto same = kinds_[i].role == Role::kOpen ? forward.find(sizes_of(*kinds_[i].shape)) : forward.end();
    for (const KindIndex of : same == forward.end() ? std::vector<KindIndex>() : same->second) {
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

}  // namespace dlhook::analyzer::structure::product_reader
