// Layers from the matrices that products read: see weights.h.
//
// A layer's forward product reads its weights and its input; the gradient of its input reads the weights again, that of
// its weights the input; both gradients read the gradient of the output. So products with the same three sizes that
// share matrices belong together, and the one that appears first is the forward product. Weights are what stays in
// place from step to step while other operands move, in a loop over images or where memory is reused; if everything
// stays in place, layers must fit to each other (the rows of one are those of the next, its columns are what the next
// one sums over). What this does not decide stays open.
#include "analyzer/layers/structure/weights.h"

#include "absl/strings/str_cat.h"
#include "analyzer/layers/structure/network_pass.h"
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
class Continuation {
 public:
  Continuation(const TraceModel& model, absl::Span<const CallIndex> calls, size_t known, ProductLayers* result)
      : model_(model), calls_(calls), known_(known), result_(*result), places_(calls.size()) {
    absl::flat_hash_map<CallIndex, Place> place_of;
    for (LayerNumber i = 0; i < result_.layers.size(); ++i) {
      for (const auto& [call, direction] : result_.layers[i].calls) place_of[call] = {i, direction};
    }
    for (size_t i = 0; i < known_; ++i) {
      if (const auto found = place_of.find(calls_[i]); found != place_of.end()) places_[i] = found->second;
      const auto [at, is_new] = of_op_.try_emplace(OpAt(i), places_[i]);
      const bool is_same = at->second.layer == places_[i].layer && at->second.direction == places_[i].direction;
      if (!is_new && !is_same) at->second = {};
    }
  }

  void Run() {
    size_t period = Period();
    for (size_t i = known_; i < calls_.size(); ++i) {
      if (period != 0 && OpAt(i) != OpAt(i - period)) period = 0;
      if (period != 0) {
        places_[i] = places_[i - period];
      } else if (const auto found = of_op_.find(OpAt(i)); found != of_op_.end()) {
        places_[i] = found->second;
      }
      if (places_[i].layer == kNone) {
        result_.open.push_back(calls_[i]);
      } else {
        result_.layers[places_[i].layer].calls.emplace_back(calls_[i], places_[i].direction);
      }
    }
  }

 private:
  OpIndex OpAt(size_t i) const { return model_.calls.op[calls_[i]]; }

  // The period with which the last ops repeat, at least twice; 0: none.
  size_t Period() const {
    for (size_t period = 1; 3 * period <= known_; ++period) {
      size_t equal = 0;
      while (equal < 2 * period && OpAt(known_ - 1 - equal) == OpAt(known_ - 1 - equal - period)) ++equal;
      if (equal == 2 * period) return period;
    }
    return 0;
  }

  const TraceModel& model_;
  const absl::Span<const CallIndex> calls_;
  const size_t known_;
  ProductLayers& result_;
  std::vector<Place> places_;
  absl::flat_hash_map<OpIndex, Place> of_op_;
};

}  // namespace
}  // namespace product_reader

ProductLayers ReadProductLayers(const TraceModel& model, const std::vector<OpFacts>& facts,
                                absl::Span<const CallIndex> calls, const std::vector<int64_t>& step_starts_ns) {
  size_t known = 0;
  while (known < calls.size() && OperandsOfCall(model, facts, calls[known]).a != 0) ++known;
  ProductLayers result = product_reader::Reader(model, facts).Run(calls.first(known), step_starts_ns);
  product_reader::Continuation(model, calls, known, &result).Run();
  return result;
}

}  // namespace dlhook::analyzer::structure
