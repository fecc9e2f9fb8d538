// Generation of text, token by token: a pass over the prompt (prefill), then one for each further token (decode), which
// computes much less.
#pragma once

#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline work {

// Means over the sequences that were recorded from their prompt to the next one's.
struct Generation {
  int64_t sequences = 0;
  double prefill_ns = 0;
  double decode_ns = 0;    // of one pass
  double tokens = 0;       // the prompt's pass makes the first
  double sequence_ns = 0;  // from the first pass to the end of the last, with what lies between passes
};

// Nothing unless the requests of one thread are such passes: networks with attention, of whose requests some compute at
// least four times as much as the others, which are equal and follow each of these in twos or more.
std::optional<Generation> FindGeneration(const StepFacts& facts);

}  // namespace dlhook::analyzer::work
