// The heaviest layers, with repeated blocks in one row: "encoder.layer.*.intermediate.dense x12".
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/table/table.h"
#include "analyzer/work/step_facts.h"

namespace dlhook::analyzer::inline answer {

// Times per mean step in ns: GPU time if the run has it, else wall share.
struct LayerRow {
  std::string
      name;  // "*" replaces the numbers in which the layers differ; includes the type if the name alone is ambiguous
  size_t layers = 1;  // in this row
  double forward_ns = 0;
  double backward_ns = 0;
  double update_ns = 0;
  double total_ns = 0;               // with recompute and work without direction
  double least_ns = 0, most_ns = 0;  // of a single layer
};

// From the table `layers`, heaviest first, without rows that are no layer ("[Python]"). At least three layers of one
// type whose names differ only in numbers form one row.
std::vector<LayerRow> LayerRows(const Table& layers);
// Of the steps that the answer is about.
absl::StatusOr<std::vector<LayerRow>> LayerRowsOf(const StepFacts& facts);

}  // namespace dlhook::analyzer::answer
