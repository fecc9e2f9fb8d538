// Layers from the functions above their calls: see layer_functions.h.

#include "analyzer/calls/scope_names.h"
#include "analyzer/layers/functions/layer_functions.h"
#include "analyzer/layers/op_facts.h"

namespace dlhook::analyzer::inline functions {
namespace {

using Identity = uint32_t;
using Directions = std::pair<LayerDirection, LayerDirection>;

class Namer {
 public:
  Namer(const TraceModel& model, Attribution* attribution)
      : model_(model), result_(*attribution), facts_(FactsOfOps(model)), places_(model) {}

  void Run() {
    FindTrack(/*take_exact=*/true);
    if (!AreExactOnesWhole()) FindTrack(/*take_exact=*/false);
    if (track_.empty()) return;
    TakeExactLayers();
    AdoptStructure();
    AddOpenLayers();
    TakeOpenCalls();
    for (CallIndex call : track_) result_.of_call[call].direction = DirectionOf(call);
    Finish();
  }

 private:
  // Nested calls come later, so that the outer ones are already attributed.
  void FindTrack(bool take_exact) {
    track_.clear();
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      const LayerFunctionPlace* const place = places_.Of(call);
      if (place != nullptr && (take_exact || !place->is_exact)) track_.push_back(call);
    }
    std::ranges::stable_sort(track_, {}, [&](CallIndex call) { return model_.calls.start_ns[call]; });
  }

  // A compiler may inline layers of one type into each other; without debug information their calls then seem to belong
  // to one layer.
  bool AreExactOnesWhole() {
    std::map<Identity, std::string> shapes;
    for (CallIndex call : track_) {
      const LayerFunctionPlace& place = *places_.Of(call);
      if (!place.is_exact || place.direction != LayerDirection::kForward || !IsMainCall(call)) continue;
      const auto [at, is_new] = shapes.try_emplace(place.identity, ShapeOf(call));
      if (is_new || at->second == ShapeOf(call)) continue;
      ++result_.oddities
            ["a layer of a C++ network whose functions are inlined into each other: compile it with -g to tell layers "
             "apart"];
      return false;
    }
    return true;
  }

  void TakeExactLayers() {
    std::map<Identity, LayerIndex> layers;
    for (CallIndex call : track_) {
      const LayerFunctionPlace& place = *places_.Of(call);
      if (!place.is_exact) continue;
      const auto [at, is_new] = layers.try_emplace(place.identity, kNone);
      if (is_new) at->second = NewLayer(place, Evidence::kFunction);
      if (!place.work.empty() && result_.layers[at->second].type.empty()) Describe(place, at->second);
      result_.of_call[call].layer = at->second;
      const bool is_forward_product =
          place.direction == LayerDirection::kForward && FactsOf(call).is_product && IsMainCall(call);
      if (is_forward_product) forward_products_.try_emplace(at->second, &FactsOf(call));
    }
  }

  // A layer of the structure has the type that the function above most of its calls indicates. If each layer has its own
  // function, the function identifies it.
  void AdoptStructure() {
    std::map<LayerIndex, std::map<Identity, std::pair<int64_t, const LayerFunctionPlace*>>> votes;
    for (CallIndex call : track_) {
      const LayerIndex layer = result_.of_call[call].layer;
      const LayerFunctionPlace& place = *places_.Of(call);
      if (layer == kNone || place.is_exact) continue;
      auto& [count, first] = votes[layer][place.identity];
      ++count;
      if (first == nullptr || first->direction != LayerDirection::kForward) first = &place;
    }
    std::map<Identity, std::vector<LayerIndex>> layers_of;
    for (const auto& [layer, of_layer] : votes) {
      const auto most =
          absl::c_max_element(of_layer, [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
      Describe(*most->second.second, layer);
      layers_of[most->first].push_back(layer);
    }
    for (const auto& [identity, layers] : layers_of) {
      if (layers.size() == 1) result_.layers[layers[0]].evidence = Evidence::kFunction;
    }
    // A call from another function does not belong to this layer, whatever its shape; a bias alone is not a layer.
    std::set<LayerIndex> with_work;
    for (CallIndex call : track_) {
      if (IsMainCall(call)) with_work.insert(result_.of_call[call].layer);
    }
    for (CallIndex call : track_) {
      Place& place = result_.of_call[call];
      const auto described = described_.find(place.layer);
      if (described == described_.end()) continue;
      if (described->second->identity != places_.Of(call)->identity || with_work.count(place.layer) == 0)
        place = Place();
    }
    std::erase_if(described_, [&](const auto& described) {
      return !described.second->is_exact && with_work.count(described.first) == 0;
    });
  }

  // Adds one layer per shape of a function's forward calls for which the structure has no layer.
  void AddOpenLayers() {
    std::map<std::tuple<Identity, std::string>, LayerIndex> layers;
    std::map<Identity, int> counts;
    for (CallIndex call : track_) {
      const LayerFunctionPlace& place = *places_.Of(call);
      if (!IsOpen(call) || !IsMainCall(call) || place.direction != LayerDirection::kForward) continue;
      const auto [at, is_new] = layers.try_emplace({place.identity, ShapeOf(call)}, kNone);
      if (is_new) {
        at->second = NewLayer(place, Evidence::kFunction);
        ++counts[place.identity];
      }
      result_.of_call[call] = {at->second, LayerDirection::kForward};
    }
    for (const auto& [key, layer] : layers) {
      if (counts[std::get<0>(key)] > 1) result_.layers[layer].evidence = Evidence::kShapes;
    }
    for (CallIndex call : track_) {
      const Place& place = result_.of_call[call];
      if (place.layer == kNone || !FactsOf(call).is_product || !IsMainCall(call)) continue;
      if (places_.Of(call)->direction == LayerDirection::kForward)
        forward_products_.try_emplace(place.layer, &FactsOf(call));
    }
  }

  // Assigns gradients by their sizes if only one layer of the function has these; everything else belongs to the adjacent
  // work.
  void TakeOpenCalls() {
    std::map<Identity, std::vector<LayerIndex>> layers_of;
    for (const auto& [layer, place] : described_) layers_of[place->identity].push_back(layer);
    for (size_t at = 0; at < track_.size(); ++at) {
      const CallIndex call = track_[at];
      Place& place = result_.of_call[call];
      if (place.layer != kNone) continue;
      if (model_.calls.parent[call] != kNone) {
        place = result_.of_call[model_.calls.parent[call]];
        if (place.layer != kNone) continue;
      }
      std::vector<LayerIndex> fitting;
      const std::vector<LayerIndex>& candidates = layers_of[places_.Of(call)->identity];
      for (LayerIndex layer : candidates) {
        if (IsMainCall(call) && GradientDirections(layer, FactsOf(call))) fitting.push_back(layer);
      }
      place.layer = fitting.size() == 1 ? fitting[0] : candidates.size() == 1 ? candidates[0] : NearestLayer(at);
    }
  }

  void Finish() {
    KeepLayers(OrderOfLayers(), &result_);
    std::map<std::pair<std::string, std::string>, int> counts;
    for (Layer& layer : result_.layers) {
      const std::string prefix = LiteratureName(layer.type.empty() ? "layer" : layer.type);
      layer.name = absl::StrCat(prefix, ++counts[{layer.model, prefix}]);
    }
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      if (result_.of_call[call].layer == kNone && FactsOf(call).work != Work::kNone) return;
    }
    result_.oddities.erase(kUnpairedBackward);
    result_.oddities.erase(kOutsideOfNetworks);
  }

  // In the order of the first forward calls; layers that lost all their calls are dropped.
  std::vector<LayerIndex> OrderOfLayers() const {
    std::map<LayerIndex, std::pair<bool, int64_t>> first;  // no forward call, time
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      const Place& place = result_.of_call[call];
      if (place.layer == kNone) continue;
      const std::pair<bool, int64_t> now = {place.direction != LayerDirection::kForward, model_.calls.start_ns[call]};
      const auto [at, is_new] = first.try_emplace(place.layer, now);
      if (!is_new) at->second = std::min(at->second, now);
    }
    std::vector<LayerIndex> order;
    for (const auto& [layer, time] : first) order.push_back(layer);
    std::ranges::stable_sort(order, {}, [&](LayerIndex layer) { return first.at(layer); });
    return order;
  }

  LayerIndex NewLayer(const LayerFunctionPlace& place, Evidence evidence) {
    const LayerIndex index = result_.Add({.evidence = evidence});
    Describe(place, index);
    return index;
  }

  void Describe(const LayerFunctionPlace& place, LayerIndex index) {
    Layer& layer = result_.layers[index];
    if (!place.work.empty()) layer.type = place.work;
    layer.module_type = place.owner;
    described_[index] = &place;
  }

  // Among the adjacent calls under the same function: the last one before it, else the first one after it.
  LayerIndex NearestLayer(size_t at) const {
    const LayerFunctionPlace& place = *places_.Of(track_[at]);
    const auto fits = [&](size_t other) {
      const LayerFunctionPlace& beside = *places_.Of(track_[other]);
      return model_.calls.thread[track_[other]] == model_.calls.thread[track_[at]] &&
             beside.identity == place.identity && result_.of_call[track_[other]].layer != kNone;
    };
    constexpr size_t kFar = 64;
    for (size_t i = at; i > 0 && at - i < kFar; --i) {
      if (fits(i - 1)) return result_.of_call[track_[i - 1]].layer;
    }
    for (size_t i = at + 1; i < track_.size() && i - at < kFar; ++i) {
      if (fits(i)) return result_.of_call[track_[i]].layer;
    }
    return kNone;
  }

  // The function tells forward from backward; the sizes, or the structure, tell which gradient it is.
  LayerDirection DirectionOf(CallIndex call) const {
    const Place& place = result_.of_call[call];
    const LayerDirection said = places_.Of(call)->direction;
    if (place.layer == kNone || said != LayerDirection::kBackward)
      return place.layer == kNone ? LayerDirection::kUnknown : said;
    if (!IsMainCall(call)) return LayerDirection::kBackwardBias;
    const Layer& layer = result_.layers[place.layer];
    if (const std::optional<Directions> both = GradientDirections(place.layer, FactsOf(call))) {
      const auto& [of_a, of_b] = *both;
      if (of_a == LayerDirection::kUnknown) return of_b;
      if (of_b == LayerDirection::kUnknown) return of_a;
      // For a square problem: x and dy are transposed to sum over samples, weights to propagate back.
      if (layer.evidence != Evidence::kPointers) return FactsOf(call).product.a_is_transposed ? of_b : of_a;
    }
    return IsBackward(place.direction) ? place.direction : LayerDirection::kBackward;
  }

  // What a product of these sizes can be for a layer: the gradient of A, and of B; kUnknown: not that one. nullopt:
  // neither.
  std::optional<Directions> GradientDirections(LayerIndex layer, const OpFacts& facts) const {
    const auto forward = forward_products_.find(layer);
    if (forward == forward_products_.end() || !facts.is_product) return std::nullopt;
    const bool weights_are_a = result_.layers[layer].type == "convolution";
    const LayerDirection of_a = weights_are_a ? LayerDirection::kBackwardWeights : LayerDirection::kBackwardData;
    const LayerDirection of_b = weights_are_a ? LayerDirection::kBackwardData : LayerDirection::kBackwardWeights;
    const bool may_be_a = MayBeGradientOfA(forward->second->product, facts.product);
    const bool may_be_b = MayBeGradientOfB(forward->second->product, facts.product);
    if (!may_be_a && !may_be_b) return std::nullopt;
    return Directions{may_be_a ? of_a : LayerDirection::kUnknown, may_be_b ? of_b : LayerDirection::kUnknown};
  }

  // Whether the call itself is the layer's main work, not a bias or another detail.
  bool IsMainCall(CallIndex call) const {
    const OpFacts& facts = FactsOf(call);
    if (facts.work == Work::kLayer) return true;
    const ProductShape& shape = facts.product;
    return facts.work == Work::kProduct && shape.k > 1 && (shape.m > 1 || shape.n > 1);
  }

  bool IsOpen(CallIndex call) const {
    return result_.of_call[call].layer == kNone && model_.calls.parent[call] == kNone;
  }

  // Equal for the forward calls of one layer at all batch sizes; includes the address of the weights if known.
  std::string ShapeOf(CallIndex call) const {
    const OpFacts& facts = FactsOf(call);
    if (!facts.is_product) return facts.key;
    const bool weights_are_a = facts.product.weights_are_a || places_.Of(call)->work == "convolution";
    const ProductShape& shape = facts.product;
    return weights_are_a ? absl::StrCat(shape.m, "x", shape.n, "x", shape.k) : absl::StrCat(shape.n, "x", shape.k);
  }

  const OpFacts& FactsOf(CallIndex call) const { return facts_[model_.calls.op[call]]; }

  const TraceModel& model_;
  Attribution& result_;
  const std::vector<OpFacts> facts_;
  const LayerFunctionPlaces places_;
  std::vector<CallIndex> track_;  // calls inside a layer function, in order of time
  std::map<LayerIndex, const LayerFunctionPlace*> described_;
  std::map<LayerIndex, const OpFacts*> forward_products_;  // the first forward product of each
};

}  // namespace

void NameByFunctions(const TraceModel& model, Attribution* attribution) {
  if (!model.native_symbols.empty()) Namer(model, attribution).Run();
}

}  // namespace dlhook::analyzer::functions
