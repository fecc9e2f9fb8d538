// The batch size of a step, inferred from the shapes of its calls.
#pragma once

#include "analyzer/layers/attribution.h"

namespace dlhook::analyzer::inline steps {

// A step or a run through a network.
struct BatchSpan {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t batch = 0;     // 0: not known
  bool is_rows = false;  // of products: samples, or their tokens
};

// Sets the batch of spans of one process, or one of its threads (ascending and disjoint), where it is 0 and can be
// inferred:
// - the minibatch of the first convolution, pooling, norm … of the span (of a product: its rows);
// - else the number of rows that all products of the first forward pass have in common, not counting products that
//   compute convolutions. Unknown if two numbers are common to all, or there is only one product, and no framework op
//   shows which side is rows; or if these show that rows differ. With sequences, rows may be tokens.
// Unknown, too, where the first of these is of one sample and its layer makes it 8 times or more before the backward pass: a
// loop over samples, or over one sample. With gradient accumulation it is the batch size of one pass.
void SetBatchSizes(const TraceModel& model, const Attribution& attribution, ProcessIndex process, ThreadIndex thread,
                   std::vector<BatchSpan>& spans);

}  // namespace dlhook::analyzer::steps
