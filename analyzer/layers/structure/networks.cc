// Networks that repeat, and the layers that need reorders: see network_pass.h.
#include "absl/container/flat_hash_set.h"
#include "analyzer/layers/structure/network_pass.h"
#include "analyzer/model/op_cost.h"

namespace dlhook::analyzer::inline structure {
namespace {

// A layer is ambiguous if more than one in this many of its passes were disputed.
constexpr int64_t kDisputedPart = 10;
// Each position of each pass is compared with all of them.
constexpr size_t kMaxNetworks = 64;

using Signature = std::vector<std::string>;

// Equal for one layer in all passes.
std::string KeyOf(const LayerWork& work, bool weights_are_a) {
  if (work.is_attention) return "attention";
  if (!work.facts->is_product) return work.facts->key;
  const ProductShape& shape = work.facts->product;
  return weights_are_a ? absl::StrCat("a|", shape.m, "|", shape.n, "|", shape.k)
                       : absl::StrCat("b|", shape.n, "|", shape.k, "|", shape.batch > 1);
}

std::string KeyOf(const LayerWork& work) { return KeyOf(work, work.weights_are_a); }

// Whether their KeyOf are equal, without building keys: called for every position of every pass.
bool IsSameLayer(const LayerWork& layer, const LayerWork& forward) {
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

bool MatchesAt(const Network& network, absl::Span<const Forward> forwards) {
  return network.size() <= forwards.size() && std::equal(network.begin(), network.end(), forwards.begin(), IsSameLayer);
}

// The longest network that begins here; kNone if none.
size_t LongestAt(const std::vector<Network>& networks, absl::Span<const Forward> forwards) {
  size_t best = kNone;
  for (size_t i = 0; i < networks.size(); ++i) {
    if (!MatchesAt(networks[i], forwards)) continue;
    if (best == kNone || networks[best].size() < networks[i].size()) best = i;
  }
  return best;
}

// What remains of a pass after known networks are removed from its beginning and end.
absl::Span<const Forward> Remainder(absl::Span<const Forward> forwards, const std::vector<Network>& networks) {
  bool changed = true;
  while (changed && !forwards.empty()) {
    changed = false;
    if (const size_t at = LongestAt(networks, forwards); at != kNone) {
      forwards.remove_prefix(networks[at].size());
      changed = true;
    }
    for (const Network& network : networks) {
      if (network.size() > forwards.size()) continue;
      const size_t begin = forwards.size() - network.size();
      if (!MatchesAt(network, forwards.subspan(begin))) continue;
      forwards.remove_suffix(network.size());
      changed = true;
    }
  }
  return forwards;
}

int64_t Positions(const Extent& extent) { return std::max<int64_t>(extent.positions, 1); }

Extent OutputOf(const LayerWork& layer) {
  const ProductShape& shape = layer.facts->product;
  if (layer.facts->is_product && layer.weights_are_a) return {shape.m * static_cast<int64_t>(layer.parts), shape.n};
  return layer.facts->out;
}

// Whether the second layer may read what the first wrote, possibly through pooling, flattening or an activation.
bool FitsOn(const LayerWork& first, const LayerWork& second) {
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
    if (!FitsOn(forwards[i], forwards[i + 1])) return false;
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
      for (const NetworkLayer& layer : networks[networks_]) keys_.insert({layer.facts->type, KeyOf(layer)});
    }
  }
  bool HasAny(absl::Span<const Forward> forwards) const {
    return absl::c_any_of(forwards, [&](const Forward& forward) {
      const auto has = [&](bool weights_are_a) {
        return keys_.contains({forward.facts->type, KeyOf(forward, weights_are_a)});
      };
      return has(false) || has(true);
    });
  }

 private:
  size_t networks_ = 0;
  absl::flat_hash_set<std::pair<std::string, std::string>> keys_;
};

// Whether two pieces of forward work use the same weights, on the right, as in y = x wT: a layer used twice. For
// untransposed operands this can't be decided: the columns of im2col convolutions are on the right, in a buffer that
// layers may share.
bool ShareWeights(const Forward& first, const Forward& second) {
  if (!first.facts->is_product || !second.facts->is_product || first.first_op != second.first_op) return false;
  const ProductShape& shape = second.facts->product;
  if (shape.batch > 1 || !shape.b_is_transposed || first.weights_are_a || second.weights_are_a) return false;
  return second.first_b != 0 && first.first_b == second.first_b;
}

void AddNetwork(absl::Span<const Forward> forwards, std::vector<Network>& networks) {
  if (networks.size() >= kMaxNetworks) return;
  Network network;
  for (size_t i = 0; i < forwards.size(); ++i) {
    NetworkLayer& layer = network.emplace_back(NetworkLayer{forwards[i]});
    while (layer.same_as < i && !ShareWeights(forwards[layer.same_as], forwards[i])) ++layer.same_as;
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
    for (const Forward& forward : pass.forwards) signature.push_back(KeyOf(forward));
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
    if (!FitsOn(network[i], network[i + 1])) return false;
  }
  return true;
}

// Reorders and the layers that need them.

const Tensor* TensorOf(const Op& op, const char* role) {
  for (const Tensor& tensor : op.tensors) {
    if (tensor.role == role) return &tensor;
  }
  return nullptr;
}

// Filters are converted with and without their group dimension, those of deconvolutions with swapped channels.
bool HasDims(const Tensor& tensor, const std::vector<int64_t>& dims, bool in_any_shape) {
  if (tensor.dims == dims) return true;
  if (!in_any_shape || dims.empty() || tensor.dims.empty()) return false;
  const std::optional<int64_t> count = ElementCount(dims);
  if (tensor.dims.size() != dims.size()) return count && ElementCount(tensor.dims) == count;
  return std::is_permutation(dims.begin(), dims.end(), tensor.dims.begin());
}

// True for a library's own format, such as "aBcd16b"; false for "abcd", "acdb".
bool IsBlocked(const std::string& format) {
  return absl::c_any_of(format, [](unsigned char c) { return absl::ascii_isdigit(c); });
}

class Charges {
 public:
  Charges(const TraceModel& model, const std::vector<Place>& places) : model_(model), places_(places) {}

  // Of the calls before and after the reorder (kNone: there is none) the one that needs it; kNone: neither.
  CallIndex CauseOf(CallIndex reorder, CallIndex before, CallIndex after) const {
    const Op& op = model_.ops[model_.calls.op[reorder]];
    const Tensor* from = TensorOf(op, "src");
    const Tensor* to = TensorOf(op, "dst");
    if (from == nullptr || to == nullptr) return kNone;
    for (bool in_any_shape : {false, true}) {
      const bool takes_back = Takes(before, *from, /*in_format=*/true, in_any_shape);
      const bool leaves_library = IsBlocked(from->format) && !IsBlocked(to->format);
      // A gradient stays in a plain format for the program: what enters a blocked one is the next layer's filter.
      const bool enters_library = !IsBlocked(from->format) && IsBlocked(to->format);
      if (takes_back && (leaves_library || (!enters_library && IsParameterGradient(before, *from, in_any_shape)))) {
        return before;
      }
      if (Takes(after, *to, /*in_format=*/true, in_any_shape)) return after;
      if (takes_back) return before;
    }
    for (bool in_any_shape : {false, true}) {
      if (Takes(after, *to, /*in_format=*/false, in_any_shape)) return after;
      if (Takes(before, *from, /*in_format=*/false, in_any_shape)) return before;
    }
    return kNone;
  }

 private:
  bool Takes(CallIndex call, const Tensor& moved, bool in_format, bool in_any_shape) const {
    if (call == kNone || places_[call].layer == kNone) return false;
    const Op& op = model_.ops[model_.calls.op[call]];
    return absl::c_any_of(op.tensors, [&](const Tensor& tensor) {
      return HasDims(tensor, moved.dims, in_any_shape) && (!in_format || tensor.format == moved.format);
    });
  }

  // Gradients of weights and biases are converted to the program's format after they are computed; those of the next
  // layer may have the same dimensions.
  bool IsParameterGradient(CallIndex call, const Tensor& moved, bool in_any_shape) const {
    const Op& op = model_.ops[model_.calls.op[call]];
    if (op.direction != Direction::kBackwardWeights && op.direction != Direction::kBackward) return false;
    // Only some primitives mark gradients ("diff_wei_layer"); a backward convolution's result is just "wei".
    const auto is_named_apart = [](const Tensor& tensor) { return absl::StartsWith(tensor.role, "diff_wei"); };
    const bool apart = absl::c_any_of(op.tensors, is_named_apart);
    return absl::c_any_of(op.tensors, [&](const Tensor& tensor) {
      const bool is_parameter = (absl::StrContains(tensor.role, "wei") || absl::StrContains(tensor.role, "bia")) &&
                                (!apart || absl::StartsWith(tensor.role, "diff_"));
      return is_parameter && tensor.format == moved.format && HasDims(tensor, moved.dims, in_any_shape);
    });
  }

  const TraceModel& model_;
  const std::vector<Place>& places_;
};

}  // namespace

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
      take(at, network, 0, networks[network].size());
      at += networks[network].size();
      continue;
    }
    // Cut off at its end, or begun before the recording.
    bool is_cut = false;
    for (size_t i = 0; i < networks.size() && !is_cut; ++i) {
      const Network& layers = networks[i];
      if (layers.size() <= rest.size()) continue;
      for (size_t first : {size_t{0}, layers.size() - rest.size()}) {
        if (first != 0 && at != 0) continue;
        const absl::Span<const NetworkLayer> part = absl::MakeConstSpan(layers).subspan(first, rest.size());
        is_cut = is_cut || absl::c_equal(part, rest, IsSameLayer);
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
  const NetworkLayer& known = network[layer];
  if (known.evidence != Evidence::kNone) return known.evidence;
  const std::string key = KeyOf(known);
  const auto has_its_shape = [&](const NetworkLayer& other) { return KeyOf(other) == key; };
  return absl::c_count_if(network, has_its_shape) > 1 ? Evidence::kOrder : Evidence::kShapes;
}

std::vector<std::string> AmbiguitiesOf(const Network& network) {
  std::vector<std::string> sentences(network.size());
  std::map<std::string, std::vector<size_t>> groups;
  for (size_t i = 0; i < network.size(); ++i) groups[KeyOf(network[i])].push_back(i);
  for (const auto& [key, members] : groups) {
    if (members.size() < 2) continue;
    const bool in_one_row = IsInOneRow(network, members);
    for (size_t member : members) {
      const NetworkLayer& layer = network[member];
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

int64_t ChargeReorders(const TraceModel& model, const std::vector<OpFacts>& facts, absl::Span<const CallIndex> calls,
                       std::vector<Place>& places) {
  const Charges charges(model, places);
  const auto is_reorder = [&](CallIndex call) { return facts[model.calls.op[call]].work == Work::kReorder; };
  std::vector<CallIndex> last(model.threads.size(), kNone);  // by thread: the last call that is not a reorder
  std::vector<CallIndex> after(calls.size());
  for (size_t i = calls.size(); i-- > 0;) {
    CallIndex& next = last[model.calls.thread[calls[i]]];
    after[i] = next;
    if (!is_reorder(calls[i])) next = calls[i];
  }
  absl::c_fill(last, kNone);
  int64_t left = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    CallIndex& before = last[model.calls.thread[calls[i]]];
    if (!is_reorder(calls[i])) before = calls[i];
    if (!is_reorder(calls[i]) || places[calls[i]].layer != kNone) continue;
    const CallIndex cause = charges.CauseOf(calls[i], before, after[i]);
    if (cause == kNone) {
      ++left;
    } else {
      places[calls[i]] = places[cause];
    }
  }
  return left;
}

}  // namespace dlhook::analyzer::structure
