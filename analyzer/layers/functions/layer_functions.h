// Which functions of C and C++ frameworks compute a layer, told by their names: what stands in for links and modules
// where a framework tells of neither.
#ifndef DLHOOK_ANALYZER_LAYERS_FUNCTIONS_LAYER_FUNCTIONS_H_
#define DLHOOK_ANALYZER_LAYERS_FUNCTIONS_LAYER_FUNCTIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/strings/string_view.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline functions {

struct LayerFunction {
  std::string owner;  // "caffe::ConvolutionLayer<float>"; of C's functions their name without the direction:
                      // "convolutional_layer"
  std::string work;   // "convolution", "linear", "scale"; in the words of Layer.type
  LayerDirection direction = LayerDirection::kUnknown;  // kBackward where the function computes all gradients
  // The owner's type is the network down to this layer (dlib): two layers never have the same one.
  bool is_exact = false;
};

// `function`: demangled, with or without arguments. nullopt: it computes no layer, or no one layer
// (Net<float>::ForwardFromTo).
std::optional<LayerFunction> ReadLayerFunction(absl::string_view function);

// The layer functions that a native stack is inside of.
struct LayerFunctionPlace {
  uint32_t identity = 0;  // equal where the owners of all of them are: what they tell layers apart by. Counted from 0
  std::string work;       // of the innermost that says one
  std::string owner;      // of the innermost
  LayerDirection direction = LayerDirection::kUnknown;  // of the innermost
  bool is_exact = false;                                // of any
};

// Of every native frame of a model the place of the stack that ends there; computed once, in time linear in the frames.
class LayerFunctionPlaces {
 public:
  explicit LayerFunctionPlaces(const TraceModel& model);

  // nullptr: no native stack, or no such function on it.
  const LayerFunctionPlace* Of(CallIndex call) const;
  bool empty() const { return places_.empty(); }

 private:
  uint32_t PlaceOf(FrameIndex frame, uint32_t around);
  const LayerFunction* Read(NameIndex name);
  uint32_t PlaceInside(uint32_t around, const LayerFunction& function);

  const TraceModel& model_;
  absl::node_hash_map<NameIndex, std::optional<LayerFunction>> read_;
  std::map<std::pair<uint32_t, const LayerFunction*>, uint32_t>
      inside_;                                                       // of a place (kNone: none) and a function in it
  std::map<std::pair<uint32_t, std::string>, uint32_t> identities_;  // of an identity (kNone: none) and an owner in it
  std::vector<LayerFunctionPlace> places_;
  std::vector<uint32_t> of_frame_;  // kNone: none
};

}  // namespace dlhook::analyzer::functions

#endif  // DLHOOK_ANALYZER_LAYERS_FUNCTIONS_LAYER_FUNCTIONS_H_
