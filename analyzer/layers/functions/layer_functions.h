// Recognizes functions of C and C++ frameworks that compute a layer, by name, for frameworks that provide neither links
// nor modules.
#pragma once

#include "absl/container/node_hash_map.h"
#include "analyzer/layers/attribution.h"

namespace dlhook::analyzer::inline functions {

struct LayerFunction {
  std::string owner;  // "caffe::ConvolutionLayer<float>"; for C functions, the name without the direction:
                      // "convolutional_layer"
  std::string work;   // "convolution", "linear", "scale"; same words as Layer.type
  LayerDirection direction = LayerDirection::kUnknown;  // kBackward if the function computes all gradients
  // The owner's type describes the network down to this layer (dlib): no two layers share it.
  bool is_exact = false;
};

// `function`: demangled, with or without arguments. nullopt: it does not compute a single layer
// (Net<float>::ForwardFromTo).
std::optional<LayerFunction> ReadLayerFunction(absl::string_view function);

// The layer functions on a native stack.
struct LayerFunctionPlace {
  uint32_t identity = 0;                                // equal if all owners are equal, from 0: distinguishes layers
  std::string work;                                     // of the innermost function that has one
  std::string owner;                                    // of the innermost
  LayerDirection direction = LayerDirection::kUnknown;  // of the innermost
  bool is_exact = false;                                // of any of them
};

// For every native frame of a model, the place of the stack that ends there; computed once, in linear time.
class LayerFunctionPlaces {
 public:
  explicit LayerFunctionPlaces(const TraceModel& model);

  // nullptr: no native stack, or no such function in it.
  const LayerFunctionPlace* Of(CallIndex call) const { return OfFrame(model_.calls.NativeStackOf(call)); }
  const LayerFunctionPlace* OfFrame(FrameIndex frame) const;
  bool empty() const { return places_.empty(); }

 private:
  uint32_t PlaceOf(FrameIndex frame, uint32_t around);
  const LayerFunction* Read(NameIndex name);
  uint32_t PlaceInside(uint32_t around, const LayerFunction& function);

  const TraceModel& model_;
  absl::node_hash_map<NameIndex, std::optional<LayerFunction>> read_;
  std::map<std::pair<uint32_t, const LayerFunction*>, uint32_t>
      inside_;                                                       // by place (kNone: none) and function inside it
  std::map<std::pair<uint32_t, std::string>, uint32_t> identities_;  // by identity (kNone: none) and owner inside it
  std::vector<LayerFunctionPlace> places_;
  std::vector<uint32_t> of_frame_;  // kNone: none
};

// Layers named after the framework function above their calls, if there are native stacks and no framework evidence.

// `attribution`: the result of AttributeByStructure, from operands, shapes and order alone. Sets the type of each layer
// and whether calls are forward or backward; calls that the structure left open or could not distinguish (a single
// pass, two networks with equal shapes) become layers of their own. Layers with calls under the same function are
// distinguished as the structure did. Does nothing if no call was made in a known layer function.
void NameByFunctions(const TraceModel& model, Attribution* attribution);

}  // namespace dlhook::analyzer::functions
