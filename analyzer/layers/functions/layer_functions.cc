// Layer functions by name: see layer_functions.h.
//
// To add a framework: its methods in kMethods, words of its class names in kClassWords.
#include "analyzer/layers/functions/layer_functions.h"

#include "analyzer/calls/scope_names.h"

namespace dlhook::analyzer::inline functions {
namespace {

struct Method {
  absl::string_view name;
  LayerDirection direction;
};
constexpr Method kMethods[] = {
    // Caffe
    {"Forward_cpu", LayerDirection::kForward},
    {"Forward_gpu", LayerDirection::kForward},
    {"Backward_cpu", LayerDirection::kBackward},
    {"Backward_gpu", LayerDirection::kBackward},
    // mlpack, libtorch, ncnn, OpenCV, dlib
    {"Forward", LayerDirection::kForward},
    {"forward", LayerDirection::kForward},
    {"forward_inplace", LayerDirection::kForward},
    {"Backward", LayerDirection::kBackward},
    {"Gradient", LayerDirection::kBackwardWeights},
    {"backward", LayerDirection::kBackward},
    {"back_propagate_error", LayerDirection::kBackward},
    // tiny-dnn, Shark
    {"forward_propagation", LayerDirection::kForward},
    {"back_propagation", LayerDirection::kBackward},
    {"eval", LayerDirection::kForward},
    {"weightedParameterDerivative", LayerDirection::kBackwardWeights},
    {"weightedInputDerivative", LayerDirection::kBackwardData},
};

// Words in class names that scope_names.h does not know, in lower case without underscores; short ones must equal the
// whole class name.
struct ClassWord {
  absl::string_view name;
  absl::string_view work;
};
constexpr ClassWord kClassNames[] = {
    {"con", "convolution"},
    {"cont", "transposed convolution"},
    {"fc", "linear"},
    {"innerproduct", "linear"},
    {"fullyconnected", "linear"},
    {"connected", "linear"},
    {"convolutional", "convolution"},
    {"pooling", "pooling"},
    {"maxpool", "max pooling"},
    {"avgpool", "average pooling"},
    {"lrn", "lrn"},
    {"bn", "batch norm"},
};

// Position of the first of `wanted` from `at` on, outside <…>, (…) and {…}; npos: none.
size_t FindOutside(absl::string_view name, size_t at, absl::string_view wanted) {
  int depth = 0;
  for (; at < name.size(); ++at) {
    const char c = name[at];
    if (depth == 0 && absl::StartsWith(name.substr(at), wanted)) return at;
    if (c == '<' || c == '(' || c == '{') ++depth;
    if (c == '>' || c == ')' || c == '}') --depth;
    if (depth < 0) return absl::string_view::npos;  // an operator's name: not a layer's
  }
  return absl::string_view::npos;
}

// "void a::B<int>::f<C>(D)" -> {"a", "B<int>", "f<C>"}.
std::vector<absl::string_view> PartsOf(absl::string_view function) {
  size_t arguments = 0;
  while ((arguments = FindOutside(function, arguments, "(")) != absl::string_view::npos &&
         absl::StartsWith(function.substr(arguments), "(anonymous namespace)")) {
    arguments += sizeof "(anonymous namespace)" - 1;
  }
  function = function.substr(0, arguments);
  for (size_t space; (space = FindOutside(function, 0, " ")) != absl::string_view::npos;)
    function.remove_prefix(space + 1);
  std::vector<absl::string_view> parts;
  size_t begin = 0;
  for (size_t at; (at = FindOutside(function, begin, "::")) != absl::string_view::npos; begin = at + 2) {
    parts.push_back(function.substr(begin, at - begin));
  }
  parts.push_back(function.substr(begin));
  return parts;
}

absl::string_view WithoutTemplate(absl::string_view name) { return name.substr(0, name.find('<')); }

// "con_" and "Convolution_x86_avx512" -> "con", "convolution"; "LinearType" -> "linear".
std::string BareClass(absl::string_view name) {
  for (absl::string_view suffix : {"_x86_avx512", "_x86_avx", "_x86_fma", "_x86", "_arm", "_vulkan", "_riscv"}) {
    if (absl::ConsumeSuffix(&name, suffix)) break;
  }
  absl::ConsumeSuffix(&name, "_");
  absl::ConsumeSuffix(&name, "Impl");
  absl::ConsumeSuffix(&name, "Type");
  if (!absl::ConsumeSuffix(&name, "Layer")) absl::ConsumeSuffix(&name, "_layer");
  std::string bare = absl::AsciiStrToLower(name);
  bare.erase(std::remove(bare.begin(), bare.end(), '_'), bare.end());
  return bare;
}

bool SaysLayer(absl::string_view name) { return absl::EndsWith(name, "Layer") || absl::EndsWith(name, "_layer"); }

// "" if the class is not a layer: a network, a solver, the base class of all layers.
std::string WorkOfClass(absl::string_view name) {
  const std::string bare = BareClass(name);
  if (bare.empty() || bare == "base") return "";
  for (const ClassWord& word : kClassNames) {
    if (bare == word.name) return std::string(word.work);
  }
  // Layer classes have short names ("ConvolutionLayer", "Conv2d"); helpers do not ("ConvolutionParameter", "LossNet").
  std::string work = WorkOfModule(bare);
  if (!work.empty() && (SaysLayer(name) || absl::ascii_isupper(name[0]))) return work;
  return SaysLayer(name) ? absl::StrReplaceAll(bare, {{"_", " "}}) : "";
}

// darknet: forward_convolutional_layer, backward_connected_layer_gpu.
std::optional<LayerFunction> ReadCFunction(absl::string_view name) {
  static constexpr Method kPrefixes[] = {{"forward_", LayerDirection::kForward},
                                         {"backward_", LayerDirection::kBackward},
                                         {"update_", LayerDirection::kUpdate}};
  absl::ConsumeSuffix(&name, "_gpu");
  if (!absl::ConsumeSuffix(&name, "_layer")) return std::nullopt;
  for (const Method& prefix : kPrefixes) {
    absl::string_view layer = name;
    if (!absl::ConsumePrefix(&layer, prefix.name)) continue;
    const std::string work = WorkOfClass(absl::StrCat(layer, "_layer"));
    return LayerFunction{absl::StrCat(layer, "_layer"), work, prefix.direction, false};
  }
  return std::nullopt;
}

// dlib: the whole network is one type, add_layer<con_<...>, add_layer<...>>, whose methods run the layer and those
// below it.
LayerFunction ReadDlib(absl::string_view owner, absl::string_view owner_class, LayerDirection direction) {
  owner_class.remove_prefix(std::min(owner_class.find('<') + 1, owner_class.size()));
  absl::ConsumePrefix(&owner_class, "dlib::");
  const absl::string_view details = owner_class.substr(0, owner_class.find_first_of("<,"));
  std::string work = WorkOfClass(details);
  if (work.empty()) work = WorkOfModule(details);
  if (work.empty()) work = BareClass(details);
  return {std::string(owner), std::move(work), direction, true};
}

// PaddlePaddle: phi::ConvGradKernel<float, phi::CPUContext>. Matrix products may belong to any layer.
std::optional<LayerFunction> ReadPhiKernel(absl::string_view name) {
  absl::ConsumeSuffix(&name, "Impl");
  if (!absl::ConsumeSuffix(&name, "Kernel")) return std::nullopt;
  const bool is_backward = absl::ConsumeSuffix(&name, "Grad");
  if (!absl::StrContains(name, "Conv")) return std::nullopt;
  const bool is_transposed = absl::StrContains(name, "Transpose");
  return LayerFunction{absl::StrCat("phi::", name), is_transposed ? "transposed convolution" : "convolution",
                       is_backward ? LayerDirection::kBackward : LayerDirection::kForward, false};
}

}  // namespace

std::optional<LayerFunction> ReadLayerFunction(absl::string_view function) {
  const std::vector<absl::string_view> parts = PartsOf(function);
  const absl::string_view method = WithoutTemplate(parts.back());
  if (parts.size() < 2) return ReadCFunction(method);
  if (parts.front() == "phi") return ReadPhiKernel(method);
  const auto* const known = absl::c_find_if(kMethods, [&](const Method& m) { return m.name == method; });
  if (known == std::end(kMethods)) return std::nullopt;
  const absl::string_view owner_class = parts[parts.size() - 2];
  const absl::string_view owner(parts.front().data(),
                                static_cast<size_t>(owner_class.data() + owner_class.size() - parts.front().data()));
  if (parts.front() == "dlib" && absl::StartsWith(owner_class, "add_")) {  // not add_loss_layer, add_tag_layer
    if (WithoutTemplate(owner_class) != "add_layer") return std::nullopt;
    return ReadDlib(owner, owner_class, known->direction);
  }
  const std::string work = WorkOfClass(WithoutTemplate(owner_class));
  if (work.empty()) return std::nullopt;
  const bool is_data = parts.front() == "mlpack" && method == "Backward";
  return LayerFunction{std::string(owner), work, is_data ? LayerDirection::kBackwardData : known->direction, false};
}

LayerFunctionPlaces::LayerFunctionPlaces(const TraceModel& model) : model_(model) {
  const NativeFrameColumns& frames = model.native_frames;
  if (model.native_symbols.empty()) return;
  of_frame_.assign(frames.size(), kNone);
  for (FrameIndex frame = 0; frame < frames.size(); ++frame) {
    const FrameIndex parent = frames.parent[frame];
    of_frame_[frame] = PlaceOf(frame, parent == kNone ? kNone : of_frame_[parent]);
  }
}

// Inlined functions come innermost first.
uint32_t LayerFunctionPlaces::PlaceOf(FrameIndex frame, uint32_t around) {
  const absl::Span<const NativeSymbol> symbols = model_.native_symbols.Of(frame);
  for (auto symbol = symbols.rbegin(); symbol != symbols.rend(); ++symbol) {
    const LayerFunction* const function = Read(symbol->function);
    if (function != nullptr) around = PlaceInside(around, *function);
  }
  return around;
}

const LayerFunction* LayerFunctionPlaces::Read(NameIndex name) {
  if (name == kNone) return nullptr;
  const auto [at, is_new] = read_.try_emplace(name);
  if (is_new) at->second = ReadLayerFunction(model_.names[name]);
  return at->second ? &*at->second : nullptr;
}

// An exact layer contains only its own functions.
uint32_t LayerFunctionPlaces::PlaceInside(uint32_t around, const LayerFunction& function) {
  const auto [at, is_new] = inside_.try_emplace({around, &function}, static_cast<uint32_t>(places_.size()));
  if (!is_new) return at->second;
  LayerFunctionPlace place;
  const LayerFunctionPlace* const outer = around == kNone ? nullptr : &places_[around];
  const bool is_part = outer != nullptr && outer->is_exact && !function.is_exact;
  if (is_part) {
    place.identity = outer->identity;
  } else {
    const uint32_t outer_identity = outer == nullptr || function.is_exact ? kNone : outer->identity;
    place.identity =
        identities_.try_emplace({outer_identity, function.owner}, static_cast<uint32_t>(identities_.size()))
            .first->second;
  }
  place.work = function.work.empty() && is_part ? outer->work : function.work;
  place.owner = function.owner;
  place.direction = function.direction;
  place.is_exact = function.is_exact || is_part;
  places_.push_back(std::move(place));
  return at->second;
}

const LayerFunctionPlace* LayerFunctionPlaces::OfFrame(FrameIndex frame) const {
  if (of_frame_.empty() || frame == kNone || of_frame_[frame] == kNone) return nullptr;
  return &places_[of_frame_[frame]];
}

}  // namespace dlhook::analyzer::functions
