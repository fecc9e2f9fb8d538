// Passes of a network that come in series: a text token by token, an image in steps of its noise.
#pragma once

#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline work {

// Generation of text: a pass over the prompt (prefill), then one for each further token (decode), which computes much less.

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

// Requests that a loop makes inside another one: an operation's line comes before those of all requests, in the same
// function, and runs for few of them.
struct PassSeries {
  double passes = 0;   // mean of a series
  double ns = 0;       // from the first pass to the end of the last
  std::string line;    // "pipeline.py:190": that runs once in each
  std::string caller;  // "generate.py:8": the program's, which leads there; empty: that line is the program's
};

// Nothing unless the requests of one thread have known Python lines, and three series of two or more were recorded.
std::optional<PassSeries> FindPassSeries(const StepFacts& facts);

}  // namespace dlhook::analyzer::work
