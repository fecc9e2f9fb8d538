// Layers from the calls alone: see structure.h.
//
// Stages, one file each: what an op shows by itself (layers/op_facts), passes forward and backward through a network
// (network_pass, pairing), repeating networks and layout conversions assigned to the layer that needs them
// (networks). Products that share matrices are handled separately (weights, reader.h).
#include "analyzer/layers/structure/structure.h"

#include "analyzer/layers/op_facts.h"
#include "analyzer/layers/structure/network_pass.h"
#include "analyzer/steps/measured_steps.h"

namespace dlhook::analyzer::inline structure {
namespace {

constexpr char kNotToldApart[] =
    "neither their operands nor their sizes and order say which layer they are of, or whether they run forward or "
    "backward";
constexpr char kWithStacks[] = "; DLHOOK_STACKS=native records the functions that call them";

// Calls that form one sequence: those of a process, or of a thread that repeats independently.
struct Track {
  std::vector<CallIndex> calls;  // calls that show something about layers, in order of time
  std::vector<CallIndex> work;   // the same without reorders
  std::vector<Pass> passes;
  ProductLayers products;  // instead of passes, if all work is products with addresses
};

// Attention heads, which belong together, are excluded.
bool AreProductsWithAddresses(const TraceModel& model, const std::vector<OpFacts>& facts,
                              const std::vector<CallIndex>& calls) {
  constexpr size_t kHeads = 4;
  size_t slices = 0;
  for (CallIndex call : calls) {
    const OpFacts& of = facts[model.calls.op[call]];
    slices = of.product.is_slice ? slices + 1 : 0;
    if (of.work != Work::kProduct || slices >= kHeads) return false;
  }
  return !calls.empty() && OperandsOfCall(model, facts, calls[0]).a != 0;
}

// Networks that most passes run several times in a row before the backward pass (two inputs that are compared).
std::set<size_t> UsuallyRepeated(const std::vector<Pass>& passes, const std::vector<Network>& networks) {
  std::map<size_t, std::pair<int64_t, int64_t>> counts;  // by network: passes with it, passes with it twice in a row
  for (const Pass& pass : passes) {
    std::map<size_t, bool> repeated;
    size_t before = kNone;
    for (const std::optional<NetworkPlace>& place : PlacesOf(pass, networks)) {
      if (!place || place->layer != 0) continue;
      repeated[place->network] = repeated[place->network] || place->network == before;
      before = place->network;
    }
    for (const auto& [network, is_repeated] : repeated) {
      ++counts[network].first;
      counts[network].second += is_repeated ? 1 : 0;
    }
  }
  std::set<size_t> usual;
  for (const auto& [network, count] : counts) {
    if (count.second * 2 > count.first) usual.insert(network);
  }
  return usual;
}

// Calls that begin a network after another one that has no backward work or is the same: the batches of an evaluation,
// and the training step after them.
std::set<CallIndex> FollowingNetworks(const Pass& pass, const std::vector<Network>& networks,
                                      const std::set<size_t>& usually_repeated) {
  std::set<CallIndex> begins;
  const std::vector<std::optional<NetworkPlace>> places = PlacesOf(pass, networks);
  bool has_backward = false;
  size_t before = kNone;
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] && places[i]->layer == 0) {
      const size_t network = places[i]->network;
      const bool is_again = network == before && usually_repeated.count(network) == 0;
      if (before != kNone && (!has_backward || is_again)) begins.insert(pass.forwards[i].calls[0].first);
      has_backward = false;
      before = network;
    }
    has_backward = has_backward || pass.forwards[i].calls.back().second != LayerDirection::kForward;
  }
  return begins;
}

class Attributor {
 public:
  explicit Attributor(const TraceModel& model) : model_(model), facts_(FactsOfOps(model)) {
    result_.of_call.resize(model.calls.size());
  }

  Attribution Run() {
    FindTracks();
    networks_ = LearnNetworks(AllPasses());
    if (CutForwardRuns()) networks_ = LearnNetworks(AllPasses());
    AddLayers();
    for (const Track& track : tracks_) {
      for (const Pass& pass : track.passes) Attribute(pass);
      AddProducts(track.products);
    }
    for (const Track& track : tracks_) left_reorders_ += ChargeReorders(model_, facts_, track.calls, result_.of_call);
    FinishLayers();
    TakeOverFromParents();
    CountOddities();
    return std::move(result_);
  }

 private:
  // The calls of all threads of a process together, except for threads that repeat independently.
  void FindTracks() {
    const std::vector<StepTrack> found = FindStepsByCalls(model_);
    // By thread: its own track, else the process's.
    std::vector<const StepTrack*> of_thread(model_.threads.size(), nullptr);
    for (const StepTrack& track : found) {
      if (track.thread != kNone) of_thread[track.thread] = &track;
      for (ThreadIndex thread = 0; track.thread == kNone && thread < model_.threads.size(); ++thread) {
        if (model_.threads[thread].process == track.process) of_thread[thread] = &track;
      }
    }
    std::map<std::pair<ProcessIndex, const StepTrack*>, std::vector<CallIndex>> calls;
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      if (model_.calls.parent[call] != kNone || facts_[model_.calls.op[call]].work == Work::kNone) continue;
      const ThreadIndex thread = model_.calls.thread[call];
      calls[{model_.threads[thread].process, of_thread[thread]}].push_back(call);
    }
    for (auto& [key, list] : calls) {
      std::ranges::stable_sort(list, {}, [&](CallIndex call) { return model_.calls.start_ns[call]; });
      tracks_.push_back(TrackOf(std::move(list), key.second));
    }
  }

  // Passes are cut at the start of steps only if there is no backward work, which otherwise shows better where they
  // end.
  Track TrackOf(std::vector<CallIndex> calls, const StepTrack* steps) const {
    Track track;
    track.calls = std::move(calls);
    for (CallIndex call : track.calls) {
      if (facts_[model_.calls.op[call]].work != Work::kReorder) track.work.push_back(call);
    }
    if (AreProductsWithAddresses(model_, facts_, track.work)) {
      std::vector<int64_t> step_starts_ns;
      for (size_t i = 0; steps != nullptr && i < steps->steps.size(); ++i) {
        step_starts_ns.push_back(steps->steps[i].start_ns);
      }
      track.products = ReadProductLayers(model_, facts_, track.work, step_starts_ns);
      return track;
    }
    track.passes = ReadPasses(model_, facts_, track.work, {});
    const auto has_backward = [](const Pass& pass) { return pass.has_backward; };
    if (steps == nullptr || absl::c_any_of(track.passes, has_backward)) return track;
    std::vector<size_t> cuts;
    size_t at = 0;
    for (const Step& step : steps->steps) {
      while (at < track.work.size() && model_.calls.start_ns[track.work[at]] < step.start_ns) ++at;
      cuts.push_back(at);
    }
    track.passes = ReadPasses(model_, facts_, track.work, cuts);
    return track;
  }

  std::vector<const Pass*> AllPasses() const {
    std::vector<const Pass*> all;
    for (const Track& track : tracks_) {
      for (const Pass& pass : track.passes) all.push_back(&pass);
    }
    return all;
  }

  // Reads tracks again with these cuts, so that backward work is matched only with the forward work of its own step.
  bool CutForwardRuns() {
    bool any = false;
    for (Track& track : tracks_) {
      const std::set<size_t> usually_repeated = UsuallyRepeated(track.passes, networks_);
      std::set<CallIndex> begins;
      for (const Pass& pass : track.passes) begins.merge(FollowingNetworks(pass, networks_, usually_repeated));
      if (begins.empty()) continue;
      std::vector<size_t> cuts;
      for (size_t i = 0; i < track.work.size(); ++i) {
        if (begins.count(track.work[i]) > 0) cuts.push_back(i);
      }
      track.passes = ReadPasses(model_, facts_, track.work, cuts);
      any = true;
    }
    return any;
  }

  // Names as in the literature: by type, numbered from the input.
  void AddLayers() {
    for (size_t i = 0; i < networks_.size(); ++i) {
      std::vector<LayerIndex>& index = index_.emplace_back();
      std::map<std::string, int> counts;
      for (const NetworkLayer& known : networks_[i]) {
        if (known.same_as < index.size()) {
          index.push_back(index[known.same_as]);
          continue;
        }
        const bool is_im2col = known.facts->is_product && known.weights_are_a && known.facts->product.n > 1;
        const std::string prefix = known.is_attention ? "attention" : is_im2col ? "conv" : known.facts->prefix;
        index.push_back(result_.Add({.model = networks_.size() > 1 ? absl::StrCat("network ", i + 1) : "",
                                     .name = absl::StrCat(prefix, ++counts[prefix]),
                                     .type = known.is_attention ? "attention"
                                             : is_im2col        ? "convolution"
                                                                : known.facts->type}));
      }
    }
  }

  void AddProducts(const ProductLayers& products) {
    std::map<std::string, int> counts;
    for (const ProductLayer& known : products.layers) {
      // Numbers would look like positions in the network.
      const std::string word = products.has_gaps ? absl::StrCat(known.prefix, " ", known.sizes) : known.prefix;
      const int number = ++counts[word];
      const LayerIndex index = result_.Add({.name = !products.has_gaps ? absl::StrCat(word, number)
                                                    : number > 1       ? absl::StrCat(word, " #", number)
                                                                       : word,
                                            .type = known.type,
                                            .ambiguity = known.ambiguity,
                                            .evidence = known.evidence});
      for (const auto& [call, direction] : known.calls) result_.of_call[call] = {index, direction};
    }
    if (products.open.empty()) return;
    const LayerIndex open =
        result_.Add({.name = "products, ambiguous",
                     .type = "matrix product",
                     .ambiguity = absl::StrCat(kNotToldApart, model_.calls.native_stack.empty() ? kWithStacks : "")});
    for (CallIndex call : products.open) result_.of_call[call].layer = open;
  }

  void Attribute(const Pass& pass) {
    unpaired_ += std::ssize(pass.unpaired);
    const std::vector<std::optional<NetworkPlace>> places = PlacesOf(pass, networks_);
    for (size_t i = 0; i < pass.forwards.size(); ++i) {
      if (places[i]) {
        AttributeForward(pass.forwards[i], *places[i]);
      } else {
        outside_ += std::ssize(pass.forwards[i].calls);
      }
    }
  }

  void AttributeForward(const Forward& forward, const NetworkPlace& place) {
    NetworkLayer& layer = networks_[place.network][place.layer];
    ++layer.passes;
    if (forward.is_disputed) ++layer.disputed_passes;
    layer.evidence = std::max(layer.evidence, forward.evidence);
    // A pass with a single image does not show on which side the weights are; others did.
    const bool exchange = forward.facts->is_product && layer.weights_are_a != forward.weights_are_a;
    for (const auto& [call, direction] : forward.calls) {
      LayerDirection known = direction;
      if (exchange && direction == LayerDirection::kBackwardData) known = LayerDirection::kBackwardWeights;
      if (exchange && direction == LayerDirection::kBackwardWeights) known = LayerDirection::kBackwardData;
      result_.of_call[call] = {IndexOf(place), known};
    }
  }

  void FinishLayers() {
    for (size_t i = 0; i < networks_.size(); ++i) {
      const std::vector<std::string> ambiguities = AmbiguitiesOf(networks_[i]);
      for (size_t j = 0; j < networks_[i].size(); ++j) {
        Layer& layer = result_.layers[IndexOf({i, j})];
        if (!ambiguities[j].empty()) layer.ambiguity = ambiguities[j];
        layer.evidence = std::max(layer.evidence, EvidenceOf(networks_[i], j));
      }
    }
  }

  // A product inside a convolution belongs to the convolution's layer.
  void TakeOverFromParents() {
    for (CallIndex call = 0; call < model_.calls.size(); ++call) {
      const CallIndex parent = model_.calls.parent[call];
      if (parent != kNone && result_.of_call[call].layer == kNone) result_.of_call[call] = result_.of_call[parent];
    }
  }

  void CountOddities() {
    const auto count = [&](const char* sentence, int64_t calls) {
      if (calls > 0) result_.oddities[sentence] += calls;
    };
    count(kUnpairedBackward, unpaired_);
    count(kOutsideOfNetworks, outside_);
    count("a layout conversion that no neighbouring layer explains", left_reorders_);
  }

  LayerIndex IndexOf(const NetworkPlace& place) const { return index_[place.network][place.layer]; }

  const TraceModel& model_;
  const std::vector<OpFacts> facts_;
  std::vector<Track> tracks_;
  std::vector<Network> networks_;
  std::vector<std::vector<LayerIndex>> index_;  // by network and position in it
  Attribution result_;
  int64_t unpaired_ = 0;
  int64_t outside_ = 0;
  int64_t left_reorders_ = 0;
};

}  // namespace

Attribution AttributeByStructure(const TraceModel& model) { return Attributor(model).Run(); }

}  // namespace dlhook::analyzer::structure
