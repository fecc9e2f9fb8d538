// Assigns TensorFlow's graph nodes to layers by their paths: see framework_links.h.
//
//   StatefulPartitionedCall/sequential_1/conv2d_1/Relu:_MklNativeFusedConv2D                  forward of sequential_1/conv2d_1
//   …/gradient_tape/sequential_1/conv2d_1/convolution/Conv2DBackpropFilter:_MklNativeConv…   its backward-weights
//   StatefulPartitionedCall/sgd/Mul_3:Mul                                                    the optimizer
//   sequential_1/lstm_1/while/body/_9/sequential_1/lstm_1/while/lstm_cell_1/MatMul:MatMul    forward of …/lstm_cell_1
//   gradient_tape/while/while_grad/body/_6/gradient_tape/while/gradients/while/MatMul_grad/MatMul:MatMul  backward of
//     while/MatMul: a function without layers
//
// A layer's path ends before the first part that names an op, or one of the scopes that ops open inside a layer. Layers
// are ordered by when the last of their forward nodes ran in the first step, because the executor starts whatever is
// ready, such as variables and random numbers, first.

#include "analyzer/layers/framework/framework_links.h"

namespace dlhook::analyzer::inline framework {
namespace {

struct GraphName {
  std::string path;   // of the layer; empty: the node is outside layers
  std::string whole;  // full path without function calls, loops and what tells a gradient
  std::string node;   // the last part: "MatMul_1"
  std::string kernel;
  std::string optimizer;  // "sgd"
  bool is_backward = false;
};

// clang-format off
constexpr absl::string_view kOptimizers[] = {"sgd",      "adam",     "adam_w",    "rm_sprop", "adagrad", "nadam", "ftrl", "lion",
                                             "lamb",     "muon",     "adamw",     "rmsprop",  "adamax",
                                             "adadelta", "adafactor", "loss_scale_optimizer"};
constexpr absl::string_view kInnerScopes[] = {"convolution", "batchnorm", "moments", "stateless_dropout", "depthwise",
                                              "separable_conv2d", "stateless_random_uniform", "einsum", "tensordot"};
// Around an operation's constants ("transpose/perm"); layers may have these names, too.
constexpr absl::string_view kOpScopes[] = {"strided_slice", "transpose", "split"};
constexpr absl::string_view kLoops[] = {"while", "cond"};
// clang-format on

// "conv2d_1" -> "conv2d".
absl::string_view WithoutNumber(absl::string_view part) {
  const size_t last = part.find_last_not_of("0123456789");
  return last != absl::string_view::npos && last + 1 < part.size() && part[last] == '_' ? part.substr(0, last) : part;
}

template <size_t kCount>
bool OneOf(absl::string_view part, const absl::string_view (&parts)[kCount]) {
  return absl::c_linear_search(parts, WithoutNumber(part));
}

bool IsFunctionCall(absl::string_view part) { return absl::EndsWith(WithoutNumber(part), "PartitionedCall"); }

bool EndsLayer(absl::string_view part) {
  return part.empty() || absl::ascii_isupper(part[0]) || part[0] == '_' || OneOf(part, kInnerScopes);
}

using Parts = std::vector<absl::string_view>;

bool IsLoop(absl::string_view part) { return OneOf(part, kLoops); }

// A node of a loop's or a condition's function has its own full name behind the loop's: "while/body/_12/". Drops what is around
// the innermost; returns its name.
absl::string_view DropAround(Parts& parts) {
  static constexpr absl::string_view kFunctions[] = {"body", "cond", "then", "else"};  // and branch0, branch1 …
  for (size_t i = parts.size(); i-- > 2;) {
    if (parts[i][0] != '_' || !(OneOf(parts[i - 1], kFunctions) || absl::StartsWith(parts[i - 1], "branch"))) continue;
    const absl::string_view loop = absl::StripSuffix(parts[i - 2], "_grad");
    parts.erase(parts.begin(), parts.begin() + static_cast<int64_t>(i + 1));
    return loop;
  }
  return "";
}

size_t LayerLength(const Parts& parts) {
  size_t length = 0;
  while (length + 1 < parts.size() && !EndsLayer(parts[length])) ++length;
  const bool is_of_op = length > 0 && length + 1 == parts.size() && OneOf(parts[length - 1], kOpScopes) &&
                        absl::ascii_islower(parts[length].empty() ? ' ' : parts[length][0]);
  return is_of_op ? length - 1 : length;
}

// A layer is the same one in a loop. Without layers the loop's name distinguishes the loop's products from others.
void DropLoops(Parts& parts) {
  Parts rest = parts;
  std::erase_if(rest, IsLoop);
  if (LayerLength(rest) > 0) parts = std::move(rest);
}

GraphName ReadGraphName(absl::string_view name) {
  GraphName read;
  const size_t colon = name.rfind(':');
  if (colon != absl::string_view::npos) read.kernel = std::string(name.substr(colon + 1));
  if (absl::StartsWith(name, "_send_")) return read;  // a result of constants that are folded before the first run
  Parts parts = absl::StrSplit(name.substr(0, colon), '/', absl::SkipEmpty());
  const auto is_gradient = [](absl::string_view part) { return part == "gradient_tape" || part == "gradients"; };
  read.is_backward = absl::c_any_of(parts, is_gradient);
  const absl::string_view loop = DropAround(parts);
  std::erase_if(parts, IsFunctionCall);
  parts.erase(parts.begin(), std::find_if(parts.rbegin(), parts.rend(), is_gradient).base());
  if (parts.empty()) return read;
  // In TensorFlow 1 names in a loop are without the loop's.
  if (IsLoop(loop) && absl::c_none_of(parts, IsLoop)) parts.insert(parts.begin(), loop);
  for (absl::string_view& part : parts) {
    if (read.is_backward) absl::ConsumeSuffix(&part, "_grad");
  }
  if (!loop.empty()) DropLoops(parts);
  read.whole = absl::StrJoin(parts, "/");
  read.node = std::string(parts.back());
  if (parts.size() > 1 && OneOf(parts.front(), kOptimizers)) read.optimizer = std::string(parts.front());
  parts.resize(LayerLength(parts));
  read.path = absl::StrJoin(parts, "/");
  return read;
}

class GraphLinker {
 public:
  GraphLinker(const TraceModel& model, Attribution* attribution)
      : scopes_(model.scopes), attribution_(*attribution), read_(model.names.size()), place_(model.names.size()) {
    std::vector<bool> is_node(model.names.size());
    const RecurringKeys<ScopeLook>& looks = scopes_.look.values();
    for (uint32_t look = 0; look < looks.size(); ++look) {
      if (looks[look].kind == ScopeKind::kGraphNode) is_node[looks[look].name] = true;
    }
    for (NameIndex name = 0; name < is_node.size(); ++name) {
      if (is_node[name]) names_.push_back(name);
    }
    for (NameIndex name : names_) read_[name] = ReadGraphName(model.names[name]);
  }

  void Link() {
    if (names_.empty()) return;
    CollectLayers();
    AddLayersInOrder();
    for (NameIndex name : names_) place_[name] = PlaceOf(read_[name]);
    for (ScopeIndex scope = 0; scope < scopes_.size(); ++scope) {
      if (IsNode(scope)) {
        attribution_.of_scope.Set(scope, place_[scopes_.look[scope].name]);
      } else if (const ScopeIndex parent = scopes_.parent[scope]; parent != kNone && IsNode(parent)) {
        attribution_.of_scope.Set(scope, attribution_.of_scope[parent]);
      }
    }
  }

 private:
  bool IsNode(ScopeIndex scope) const { return scopes_.look[scope].kind == ScopeKind::kGraphNode; }

  static bool IsWeighted(const GraphName& read) {
    return absl::StrContains(read.kernel, "Conv") || absl::StrContains(read.kernel, "MatMul");
  }

  // The layers that forward nodes name. Without paths (a custom function), the products themselves are the layers.
  void CollectLayers() {
    for (NameIndex name : names_) {
      const GraphName& read = read_[name];
      if (!read.optimizer.empty()) continue;
      if (read.is_backward) {
        backward_.insert(read.whole);
        continue;
      }
      const bool has_layer = !read.path.empty() && !IsLoop(read.path.substr(0, read.path.find('/')));
      if (has_layer && (IsWeighted(read) || read.path.find('/') != std::string::npos)) forward_.insert(read.path);
      if (!has_layer && IsWeighted(read)) forward_.insert(read.whole);
    }
  }

  // Arithmetic directly in a layer ("batch_normalization_1/mul_1") opens scopes with names like those of layers.
  bool IsArithmeticOf(const std::string& path) const {
    static constexpr absl::string_view kArithmetic[] = {"add", "sub", "mul", "truediv", "pow", "sqrt", "neg", "mean"};
    const size_t slash = path.rfind('/');
    return OneOf(path.substr(slash + 1), kArithmetic) && forward_.contains(path.substr(0, slash));
  }

  static bool IsLoss(const std::string& path) { return absl::StartsWith(path, "compile_loss"); }

  // Nodes outside the data flow: variables, and updates of moving averages.
  static bool IsAside(const GraphName& read) {
    return absl::EndsWith(read.kernel, "VariableOp") || absl::ascii_islower(read.node[0]);
  }

  void AddLayersInOrder() {
    std::erase_if(forward_, [&](const std::string& path) { return IsArithmeticOf(path); });
    std::map<std::string, int64_t> first_ns;  // by node, with or without the function call around it
    for (ScopeIndex scope = 0; scope < scopes_.size(); ++scope) {
      const GraphName& read = read_[scopes_.look[scope].name];
      if (!IsNode(scope) || read.is_backward || !read.optimizer.empty() || read.whole.empty() || IsAside(read))
        continue;
      int64_t& first = first_ns.try_emplace(read.whole, INT64_MAX).first->second;
      first = std::min(first, scopes_.start_ns[scope]);
    }
    std::map<std::string, int64_t> last_ns;  // by layer
    for (const auto& [whole, start_ns] : first_ns) {
      const std::string path = LayerPath(whole);
      if (!path.empty()) last_ns[path] = std::max(last_ns[path], start_ns);
    }
    std::vector<std::tuple<bool, int64_t, std::string>>
        order;  // the loss last: in training it contains the last layer's activation
    for (const auto& [path, start_ns] : last_ns) order.emplace_back(IsLoss(path), start_ns, path);
    absl::c_sort(order);
    std::vector<std::string> names;
    for (const auto& [is_loss, start_ns, path] : order) {
      LayerNamed(path, "");
      names.push_back(path);
    }
    FindFirstWithGradients(names);
  }

  // The longest layer path that contains the node; empty: none.
  std::string LayerPath(std::string path) const {
    while (!path.empty() && !forward_.contains(path)) {
      const size_t slash = path.rfind('/');
      path.resize(slash == std::string::npos ? 0 : slash);
    }
    return path;
  }

  LayerDirection BackwardDirection(const GraphName& read) const {
    if (absl::StrContains(read.node, "BackpropFilter")) return LayerDirection::kBackwardWeights;
    if (absl::StrContains(read.node, "BackpropInput")) return LayerDirection::kBackwardData;
    if (absl::StartsWith(read.node, "BiasAddGrad")) return LayerDirection::kBackwardBias;
    if (WithoutNumber(read.node) != "MatMul") return LayerDirection::kBackward;
    // dx is computed before dw.
    if (read.node != "MatMul") return LayerDirection::kBackwardWeights;
    const std::string scope = read.whole.substr(0, read.whole.rfind('/'));
    if (backward_.contains(absl::StrCat(scope, "/MatMul_1"))) return LayerDirection::kBackwardData;
    return HasTrainedWeights(LayerPath(read.whole)) ? LayerDirection::kBackwardWeights : LayerDirection::kBackward;
  }

  // Of a layer with one gradient. Before the first layer with gradients nobody needs that of the input; a layer whose bias
  // has one is not frozen. Otherwise the weights may be.
  bool HasTrainedWeights(const std::string& layer) const {
    const std::string bias = absl::StrCat(layer, "/BiasAdd");
    const auto at = backward_.lower_bound(bias);
    return layer == first_with_gradients_ || (at != backward_.end() && absl::StartsWith(*at, bias));
  }

  // `order`: the layers' names in the order of their forward work.
  void FindFirstWithGradients(const std::vector<std::string>& order) {
    std::set<std::string> with_gradients;
    for (const std::string& path : backward_) with_gradients.insert(LayerPath(path));
    const auto first = absl::c_find_if(order, [&](const std::string& layer) { return with_gradients.contains(layer); });
    if (first != order.end()) first_with_gradients_ = *first;
  }

  Place PlaceOf(const GraphName& read) {
    if (!read.optimizer.empty()) {
      return {LayerNamed(absl::StrCat("optimizer (", read.optimizer, ")"), "optimizer"), LayerDirection::kUpdate};
    }
    const std::string path = LayerPath(read.whole);
    if (path.empty()) return {};
    const LayerIndex layer = LayerNamed(path, "");
    AddType(read, path, &attribution_.layers[layer]);
    return {layer, read.is_backward ? BackwardDirection(read) : LayerDirection::kForward};
  }

  LayerIndex LayerNamed(const std::string& name, const std::string& type) {
    const auto [at, is_new] = layers_.try_emplace(name, kNone);
    if (is_new) {
      const std::string outermost = name.substr(0, name.find('/'));
      const bool has_module = outermost != name && !IsLoop(outermost);
      at->second = attribution_.Add({.model = has_module && !IsLoss(name) ? outermost : "",
                                     .name = name,
                                     .module = has_module ? name : "",
                                     .type = type,
                                     .evidence = Evidence::kFramework});
    }
    return at->second;
  }

  // The layer's default name usually gives its type ("conv2d_1", "re_lu"); for a user's name the kernels do.
  static void AddType(const GraphName& read, const std::string& path, Layer* layer) {
    if (layer->type.empty()) layer->type = WorkOfModule(path.substr(path.rfind('/') + 1));
    if (IsLoss(path)) layer->type = "loss";
    if (layer->type.empty() && !read.is_backward && !absl::EndsWith(read.kernel, "VariableOp")) {
      layer->type = WorkOfModule(read.kernel);
    }
  }

  const ScopeColumns& scopes_;
  Attribution& attribution_;
  std::vector<NameIndex> names_;    // of graph nodes
  std::vector<GraphName> read_;     // by name
  std::vector<Place> place_;        // by name
  std::set<std::string> forward_;   // paths of layers
  std::set<std::string> backward_;  // full paths of gradient nodes
  std::string first_with_gradients_;
  std::map<std::string, LayerIndex> layers_;
};

}  // namespace

void LinkGraphNodes(const TraceModel& model, Attribution* attribution) { GraphLinker(model, attribution).Link(); }

}  // namespace dlhook::analyzer::framework
