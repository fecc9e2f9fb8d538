// Combines moments into the elements of a training loop: fetch a batch, run a network, compute gradients, update
// weights.
#pragma once

#include "absl/container/inlined_vector.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/steps/moments.h"

namespace dlhook::analyzer::inline steps {

// A step or a run through a network.
struct BatchSpan {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t batch = 0;     // 0: not known
  bool is_rows = false;  // of products: samples, or their tokens
};

// Consecutive moments of one kind; kForward: one run through one network, whose batch SetBatchSizes sets. kOther moments are
// in no item.
struct StepItem : BatchSpan {
  absl::InlinedVector<LayerIndex, 4> layers;  // for a run: those it visited, ascending
  uint32_t first = 0;                         // index of the first moment
  MomentKind kind = MomentKind::kOther;
  bool at_cut = false;
  bool continues_pass = false;  // for a run: in the same pass as the previous item (encoder and decoder)
  bool has_links = false;       // for a run: the tap recorded numbers of backward nodes …
  bool is_linked = false;       // … and one of them ran
  bool lacks_input = false;     // for a run of a graph that asked for a batch and went no further
};

// Of a parametrization.
bool ComputesWeight(const Layer& layer);

// In order of time. A run ends where another network begins, and where its first layer runs again after a network's
// last one, or after the one with which the network's last pass ends.
// Networks that follow each other form one pass if the first of them occurs from time to time and not many times in a
// row: an encoder runs once per request, but a network that was tried once is not part of the requests that another one
// serves later.
// At each of `cuts` (ascending) a new item begins; `updates_apart`: with each of an optimizer's steps, too.
std::vector<StepItem> MakeItems(const Moments& moments, const Attribution& attribution, const NumberSet& trained_links,
                                const std::vector<int64_t>& cuts, bool updates_apart = false);

// Sets the batch of spans of one process, or one of its threads (ascending and disjoint), where it is 0 and can be
// inferred:
// - the minibatch of the first convolution, pooling, norm … of the span (of a product: its rows);
// - else the number of rows that all products of the first forward pass have in common, not counting products that
//   compute convolutions. Unknown if two numbers are common to all, or there is only one product, and no framework op
//   shows which side is rows; or if these show that rows differ. With sequences, rows may be tokens.
// Unknown, too, where the first of these is of one sample and its layer makes it 8 times or more before the backward pass: a
// loop over samples, or over one sample. With gradient accumulation it is the batch size of one pass.
void SetBatchSizes(const TraceModel& model, const Attribution& attribution, ProcessIndex process, ThreadIndex thread,
                   const std::vector<BatchSpan*>& spans);

}  // namespace dlhook::analyzer::steps
