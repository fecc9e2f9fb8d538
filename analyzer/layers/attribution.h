// Which layer of the network, and which direction, each call and each scope of a run belongs to, and by which evidence.
//
// Evidence, strongest first (docs/layers.md, "How calls are matched"):
//   framework   the framework's own links: TensorFlow's node names, PyTorch's sequence numbers that pair a forward op with its
//               backward node, NVTX ranges
//   module      the innermost user module in the Python stack
//   function    the framework's function above the call in the native stack (ConvolutionLayer<float>::Forward_cpu)
//   pointers    operands: weights shared by forward and backward-data, input by forward and backward-weights
//   shapes      y = x w, dx = dy wT, dw = xT dy; convolutions by descriptor; im2col + gemm
//   order       the backward pass meets the layers in reverse
#pragma once

#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline layers {

using LayerIndex = uint32_t;

// What a call computes. kBackward: a backward op that has no parts (an activation's).
enum class LayerDirection : uint8_t {
  kUnknown,
  kForward,
  kBackwardData,
  kBackwardWeights,
  kBackwardBias,
  kBackward,
  kRecompute,
  kUpdate
};
constexpr size_t kLayerDirections = 8;
using NsByDirection = std::array<int64_t, kLayerDirections>;
const char* LayerDirectionName(LayerDirection direction);  // "forward", "backward-data", …
bool IsBackward(LayerDirection direction);                 // of any kind; recomputed forwards are not
LayerDirection BackwardOf(Direction direction);            // of a backward call; kBackward: of more than one kind

enum class Evidence : uint8_t { kNone, kFramework, kModule, kFunction, kPointers, kShapes, kOrder };
const char* EvidenceName(Evidence evidence);  // "framework", "module", …; "" for kNone

// A layer that a loop works for, and which part of the loop's time is its.
struct LoopPart {
  LayerIndex layer = 0;
  double part = 0;
};

// A layer: one place in the network, over all steps and directions.
struct Layer {
  std::string model;  // the network, if a run has several: "AlexNet", "AlexNet #2"; empty if not known
  std::string name;   // the user's name: "features.0", "sequential/conv2d_1"; else as in the literature: "conv1", "fc2"
  std::string
      module;  // qualified name of the innermost module, empty if none. Several layers may share one module (functional
               // ops in its forward); `name` then is "MODULE:relu", "MODULE:relu#2"
  std::string module_type;  // "Conv2d"; empty if none
  std::string type;         // kind of work: "convolution", "linear", "batch norm", "relu", "lstm" …
  std::string line;         // "alexnet.py:42": the innermost line outside the framework; empty if not known
  std::string ambiguity;    // a sentence, if the reconstruction had to choose; empty if it is certain
  Evidence evidence =
      Evidence::kNone;  // how calls were matched to it: the weakest evidence needed for one of its directions
  bool is_compiled_region = false;   // fused by a compiler: one row with what it contains
  std::vector<LoopPart> loop_parts;  // of a compiler's loop over several layers, which add up to 1; else empty
};

// One per call or scope.
struct Place {
  LayerIndex layer =
      kNone;  // kNone: no layer (the optimizer and the loss's arithmetic may be layers, too, if they are named)
  LayerDirection direction = LayerDirection::kUnknown;
  friend bool operator==(const Place& a, const Place& b) = default;
};

// A gap on a thread: the Python stacks before and after it, and the user or NVTX range around it.
struct UnseenGap {
  StackIndex before = kNone;
  StackIndex after = kNone;
  ScopeIndex around = kNone;
  friend bool operator==(const UnseenGap& a, const UnseenGap& b) = default;
};

// The place of a gap (ActivityKind::kNotSeen).
struct GapPlace {
  Place place;       // of the module whose call contains the gap
  std::string line;  // "block.py:7 to 10": from one call to the next; "block.py:7": within it. Empty if not known
  NameIndex file = kNone, function = kNone;  // that this line is in
  bool is_of_program = false;  // it may be a closure's: the range around it is the optimizer's, but not all in it
};

// As a small number.
struct PlaceCode {
  static constexpr int kDirectionBits = 4;
  static int64_t Encode(size_t /*index*/, const Place& place) {
    const auto layer = static_cast<int32_t>(place.layer);  // kNone: -1
    return int64_t{layer} * (1 << kDirectionBits) + static_cast<int64_t>(place.direction);
  }
  template <typename>
  static Place Decode(size_t /*index*/, int64_t code) {
    return {static_cast<LayerIndex>(code >> kDirectionBits),
            static_cast<LayerDirection>(code & ((1 << kDirectionBits) - 1))};
  }
};

struct Attribution {
  std::vector<Layer> layers;                         // in the order of the first forward pass
  std::vector<Place> of_call;                        // by CallIndex
  CompactColumn<Place, int8_t, PlaceCode> of_scope;  // by ScopeIndex; empty if the run has no scopes
  std::vector<Place>
      of_gpu;  // by GpuIndex; only set for slices of runs, in which the calls that requested the GPU work may be
               // missing
  std::map<std::pair<StackIndex, StackIndex>, GapPlace> of_gap;  // by the stacks before and after
  // The layer's name; "Sequential #2: 0" where another network has one of this name.
  std::string NameOf(LayerIndex layer) const;
  LayerIndex Add(Layer layer);  // behind the others
  Place PlaceOfCall(CallIndex call) const { return call < of_call.size() ? of_call[call] : Place(); }
  Place PlaceOfScope(ScopeIndex scope) const { return scope < of_scope.size() ? of_scope[scope] : Place(); }
  Place PlaceOfGap(const UnseenGap& gap) const;
  const std::string& LineOfGap(const UnseenGap& gap) const;
  // Contradictory pairings, links without a partner …: sentence -> count.
  std::map<std::string, int64_t> oddities;
};

// Oddities of calls that no sequence of layers explains; removed if something else explains them.
inline constexpr char kUnpairedBackward[] =
    "a backward call without the forward call of its layer (by operands, shapes and order)";
inline constexpr char kOutsideOfNetworks[] = "a forward call outside of every sequence of layers that repeats";

// Keeps only these layers, in this order.
void KeepLayers(const std::vector<LayerIndex>& order, Attribution* attribution);

// "features.0 backward-data", with the model's name before it where there are several: "AlexNet: features.0 forward".
std::string PlaceTitle(const std::vector<Layer>& layers, Place place);

// Where GPU work belongs: layer and direction, when it was requested, and which kind of work it is.

// Kinds of GPU work that the overlap metrics distinguish.
enum class GpuWork : uint8_t { kCompute, kCopy, kCommunication };

// Communication: done for a collective call, or by a kernel that is one by its name. Copy: copies and memsets, and copy
// calls timed by events. Compute: the rest.
GpuWork GpuWorkOf(const TraceModel& model, GpuIndex activity);

// The place of each activity: that of the call that it was done for (or of the calls around it, if that has none), else
// that of the scope in which it was requested.
std::vector<Place> GpuPlaces(const TraceModel& model, const Attribution& attribution);

// When it was requested, on the host's clock: the start of its launching call, else requested_ns, else its own start.
int64_t GpuAskedNs(const TraceModel& model, GpuIndex activity);

// The work of CUDA graph launches: the network's ops in the order in which they were captured, for steps that consist
// only of a graph launch. Needs GPU times: a graph's nodes make no calls.
// Consecutive work for one layer in one direction.
struct ReplayedPart {
  Place place;
  ScopeIndex scope = kNone;  // in which its first part was captured
};

// By the call that launched the graph: work with a direction, ordered by time on the GPU. Linear in activities.
using GraphReplays = absl::flat_hash_map<CallIndex, std::vector<ReplayedPart>>;
GraphReplays FindGraphReplays(const TraceModel& model, const Attribution& attribution);

}  // namespace dlhook::analyzer::layers
