#include "analyzer/layers/structure/networks.h"

#include "absl/strings/str_cat.h"

namespace dlhook::analyzer::inline structure {
namespace {

// A layer is ambiguous if more than one in this many of its passes were disputed.
constexpr int64_t kDisputedPart = 10;
// Each position of each pass is compared with all of them.
constexpr size_t kMaxNetworks = 64;

using Signature = std::vector<std::string>;

std::string KeyOf(const OpFacts& facts, bool is_attention, bool weights_are_a) {
  if (is_attention) return "attention";
  if (!facts.is_product) return facts.key;
  const ProductShape& shape = facts.product;
  return weights_are_a ? absl::StrCat("a|", shape.m, "|", shape.n, "|", shape.k)
                       : absl::StrCat("b|", shape.n, "|", shape.k, "|", shape.batch > 1);
}

std::string KeyOf(const NetworkLayer& layer) { return KeyOf(*layer.facts, layer.is_attention, layer.weights_are_a); }

NetworkLayer LayerOf(const Forward& forward) {
  NetworkLayer layer;
  layer.facts = forward.facts;
  layer.weights_are_a = forward.weights_are_a;
  layer.is_attention = forward.is_attention;
  layer.parts = forward.parts;
  return layer;
}

bool MatchesAt(const Network& network, absl::Span<const Forward> forwards) {
  if (network.layers.size() > forwards.size()) return false;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    if (!IsSameLayer(network.layers[i], forwards[i])) return false;
  }
  return true;
}

// The longest network that begins here; kNone if none.
size_t LongestAt(const std::vector<Network>& networks, absl::Span<const Forward> forwards) {
  size_t best = kNone;
  for (size_t i = 0; i < networks.size(); ++i) {
    if (!MatchesAt(networks[i], forwards)) continue;
    if (best == kNone || networks[best].layers.size() < networks[i].layers.size()) best = i;
  }
  return best;
}

// What remains of a pass after known networks are removed from its beginning and end.
absl::Span<const Forward> Remainder(absl::Span<const Forward> forwards, const std::vector<Network>& networks) {
  bool changed = true;
  while (changed && !forwards.empty()) {
    changed = false;
    if (const size_t at = LongestAt(networks, forwards); at != kNone) {
      forwards.remove_prefix(networks[at].layers.size());
      changed = true;
    }
    for (const Network& network : networks) {
      if (network.layers.size() > forwards.size()) continue;
      const size_t begin = forwards.size() - network.layers.size();
      if (!MatchesAt(network, forwards.subspan(begin))) continue;
      forwards.remove_suffix(network.layers.size());
      changed = true;
    }
  }
  return forwards;
}

int64_t Positions(const Extent& extent) { return std::max<int64_t>(extent.positions, 1); }

Extent OutputOf(const NetworkLayer& layer) {
  const ProductShape& shape = layer.facts->product;
  if (layer.facts->is_product && layer.weights_are_a) return {shape.m * static_cast<int64_t>(layer.parts), shape.n};
  return layer.facts->out;
}

// Whether the second layer may read what the first wrote, possibly through pooling, flattening or an activation.
bool FitsOn(const NetworkLayer& first, const NetworkLayer& second) {
  if (first.is_attention || second.is_attention) return true;
  const Extent out = OutputOf(first), in = second.facts->in;
  if (out.channels == 0 || in.channels == 0) return false;
  if (second.facts->is_product && second.weights_are_a) {
    // Channels times the kernel's area, which is rarely even.
    const int64_t k = second.facts->product.k;
    return k % out.channels == 0 && k / out.channels % 2 == 1;
  }
  if (second.facts->is_product) return in.channels % out.channels == 0 && in.channels / out.channels <= Positions(out);
  return in.channels == out.channels && Positions(in) <= Positions(out);
}

bool IsChain(absl::Span<const Forward> forwards) {
  for (size_t i = 0; i + 1 < forwards.size(); ++i) {
    if (!FitsOn(LayerOf(forwards[i]), LayerOf(forwards[i + 1]))) return false;
  }
  return forwards.size() > 1;
}

bool ShowsNetwork(absl::Span<const Forward> forwards, bool is_repeated) {
  const auto is_layer = [](const Forward& forward) {
    return forward.facts->work == Work::kLayer || forward.is_attention || forward.evidence != Evidence::kNone;
  };
  if (absl::c_any_of(forwards, is_layer)) return true;
  return is_repeated && IsChain(forwards);
}

// The layers of all networks, of which there may be as many as forward work in a pass: for IsSameLayer with any of them.
class KnownLayers {
 public:
  // `networks`: of those before, and further ones.
  void Update(const std::vector<Network>& networks) {
    for (; networks_ < networks.size(); ++networks_) {
      for (const NetworkLayer& layer : networks[networks_].layers) keys_.insert({layer.facts->type, KeyOf(layer)});
    }
  }
  bool HasAny(absl::Span<const Forward> forwards) const {
    return absl::c_any_of(forwards, [&](const Forward& forward) {
      const auto has = [&](bool weights_are_a) {
        return keys_.contains({forward.facts->type, KeyOf(*forward.facts, forward.is_attention, weights_are_a)});
      };
      return has(false) || has(true);
    });
  }

 private:
  size_t networks_ = 0;
  absl::flat_hash_set<std::pair<std::string, std::string>> keys_;
};

void AddNetwork(absl::Span<const Forward> forwards, std::vector<Network>& networks) {
  if (networks.size() >= kMaxNetworks) return;
  Network network;
  for (size_t i = 0; i < forwards.size(); ++i) {
    network.layers.push_back(LayerOf(forwards[i]));
    size_t same_as = 0;
    while (same_as < i && !ShareWeights(forwards[same_as], forwards[i])) ++same_as;
    network.layers.back().same_as = same_as;
  }
  networks.push_back(std::move(network));
}

struct Seen {
  const Pass* pass = nullptr;
  int64_t count = 0;
};

// Distinct sequences, shorter ones first.
std::vector<Seen> Sequences(const std::vector<const Pass*>& passes) {
  std::map<Signature, Seen> sequences;
  for (const Pass* each : passes) {
    const Pass& pass = *each;
    if (pass.forwards.empty()) continue;
    Signature signature;
    for (const Forward& forward : pass.forwards) {
      signature.push_back(KeyOf(*forward.facts, forward.is_attention, forward.weights_are_a));
    }
    Seen& seen = sequences[signature];
    // A pass with backward work shows most.
    if (seen.pass == nullptr || (pass.has_backward && !seen.pass->has_backward)) seen.pass = &pass;
    ++seen.count;
  }
  std::vector<Seen> list;
  for (const auto& [signature, seen] : sequences) list.push_back(seen);
  absl::c_stable_sort(list,
                      [](const Seen& a, const Seen& b) { return a.pass->forwards.size() < b.pass->forwards.size(); });
  return list;
}

// Whether layers with one key are consecutive and each fits onto the previous one: then the order of their gradients is
// determined.
bool IsInOneRow(const Network& network, const std::vector<size_t>& members) {
  for (size_t i = members.front(); i < members.back(); ++i) {
    if (!FitsOn(network.layers[i], network.layers[i + 1])) return false;
  }
  return true;
}

}  // namespace

// Whether their KeyOf are equal, without building keys: called for every position of every pass.
bool IsSameLayer(const NetworkLayer& layer, const Forward& forward) {
  const OpFacts& one = *layer.facts;
  const OpFacts& other = *forward.facts;
  if (layer.is_attention != forward.is_attention || one.type != other.type) return false;
  if (layer.is_attention) return true;
  if (one.is_product != other.is_product) return false;
  if (!one.is_product) return one.key == other.key;
  const ProductShape& a = one.product;
  const ProductShape& b = other.product;
  if (layer.weights_are_a) return a.m == b.m && a.n == b.n && a.k == b.k;
  return a.n == b.n && a.k == b.k && (a.batch > 1) == (b.batch > 1);
}

std::vector<Network> LearnNetworks(const std::vector<const Pass*>& passes) {
  std::vector<Network> networks;
  const std::vector<Seen> sequences = Sequences(passes);
  const bool any_repeated = absl::c_any_of(sequences, [](const Seen& seen) { return seen.count > 1; });
  for (const Seen& seen : sequences) {
    if (any_repeated && seen.count < 2) continue;
    const absl::Span<const Forward> rest = Remainder(seen.pass->forwards, networks);
    if (!rest.empty() && ShowsNetwork(rest, seen.count > 1)) AddNetwork(rest, networks);
  }
  // Work that ran once, next to repeated work, e.g. a single batch of another network. A piece of a known network does
  // not count.
  KnownLayers known;
  for (const Seen& seen : sequences) {
    if (!any_repeated || seen.count > 1) continue;
    known.Update(networks);
    const absl::Span<const Forward> rest = Remainder(seen.pass->forwards, networks);
    const bool is_new = !rest.empty() && !known.HasAny(rest);
    if (is_new && ShowsNetwork(rest, /*is_repeated=*/false)) AddNetwork(rest, networks);
  }
  return networks;
}

std::vector<std::optional<NetworkPlace>> PlacesOf(const Pass& pass, const std::vector<Network>& networks) {
  std::vector<std::optional<NetworkPlace>> places(pass.forwards.size());
  const absl::Span<const Forward> all(pass.forwards);
  const auto take = [&](size_t begin, size_t network, size_t first, size_t count) {
    for (size_t i = 0; i < count; ++i) places[begin + i] = NetworkPlace{network, first + i};
  };
  for (size_t at = 0; at < all.size();) {
    const absl::Span<const Forward> rest = all.subspan(at);
    if (const size_t network = LongestAt(networks, rest); network != kNone) {
      take(at, network, 0, networks[network].layers.size());
      at += networks[network].layers.size();
      continue;
    }
    // Cut off at its end, or begun before the recording.
    bool is_cut = false;
    for (size_t i = 0; i < networks.size() && !is_cut; ++i) {
      const std::vector<NetworkLayer>& layers = networks[i].layers;
      if (layers.size() <= rest.size()) continue;
      for (size_t first : {size_t{0}, layers.size() - rest.size()}) {
        if (first != 0 && at != 0) continue;
        is_cut = is_cut || std::equal(rest.begin(), rest.end(), layers.begin() + static_cast<ptrdiff_t>(first),
                                      [](const Forward& b, const NetworkLayer& a) { return IsSameLayer(a, b); });
        if (!is_cut) continue;
        take(at, i, first, rest.size());
        break;
      }
    }
    if (is_cut) break;
    ++at;
  }
  return places;
}

Evidence EvidenceOf(const Network& network, size_t layer) {
  const NetworkLayer& known = network.layers[layer];
  if (known.evidence != Evidence::kNone) return known.evidence;
  const std::string key = KeyOf(known);
  const auto has_its_shape = [&](const NetworkLayer& other) { return KeyOf(other) == key; };
  return absl::c_count_if(network.layers, has_its_shape) > 1 ? Evidence::kOrder : Evidence::kShapes;
}

std::vector<std::string> AmbiguitiesOf(const Network& network) {
  std::vector<std::string> sentences(network.layers.size());
  std::map<std::string, std::vector<size_t>> groups;
  for (size_t i = 0; i < network.layers.size(); ++i) groups[KeyOf(network.layers[i])].push_back(i);
  for (const auto& [key, members] : groups) {
    if (members.size() < 2) continue;
    const bool in_one_row = IsInOneRow(network, members);
    for (size_t member : members) {
      const NetworkLayer& layer = network.layers[member];
      if (layer.evidence != Evidence::kOrder) continue;
      const bool is_disputed = layer.disputed_passes * kDisputedPart > layer.passes;
      if (in_one_row && !is_disputed) continue;
      sentences[member] =
          absl::StrCat(members.size(), " layers have this shape",
                       in_one_row ? " and the calls of the backward pass come in an order that has several readings"
                                  : " and may lie in branches side by side",
                       ": they were matched in reverse order");
    }
  }
  return sentences;
}

}  // namespace dlhook::analyzer::structure
