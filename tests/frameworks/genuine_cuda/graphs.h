// Operation graphs as cudnn-frontend builds them: everything below the graph is destroyed once the graph is finalized.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend.h"

namespace genuine {

struct Graph {
  Descriptor descriptor;
  std::vector<int64_t> uids;  // of the tensors that a variant pack must name
  int status = 0;             // of finalizing
};

// One convolution layer as in descriptions of networks; groups: a filter with fewer channels than the input.
struct Layer {
  const char* name;
  int64_t batch, channels, height, width, filters, filter_height, filter_width, pad, stride, groups;
  int64_t dilation = 1;
};

enum class Direction { kForward, kBackwardData, kBackwardFilter };
struct Variant {
  Direction direction;
  DataType type;
  bool channels_last;
};
std::string NameOf(const Layer& layer, const Variant& variant);

Graph ConvolutionGraph(const Layer& layer, const Variant& variant);
Graph FusedConvolutionGraph(const Layer& layer, const Variant& variant);  // relu(alpha conv + beta z + bias)
Graph PoolingGraph();
Graph ConvolutionWithUnevenPadGraph();
Graph VolumeConvolutionGraph();
Graph MatmulGraph(bool fused);
Graph ReductionGraph();
Graph LayerNormGraph();
Graph BatchNormGraph();
Graph NormBackwardGraph();
Graph AttentionGraph();
Graph AttentionOfPartsGraph();  // the same as two products and the operations between them, as in older frontends
Graph MatmulOfReluGraph();

}  // namespace genuine
