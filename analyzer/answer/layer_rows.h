// The heaviest layers, repeated blocks in one row: "encoder.layer.*.intermediate.dense x12".
#ifndef DLHOOK_ANALYZER_ANSWER_LAYER_ROWS_H_
#define DLHOOK_ANALYZER_ANSWER_LAYER_ROWS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "analyzer/table/table.h"

namespace dlhook::analyzer::inline answer {

// Times of a mean step in ns: of GPUs where the run has their times, else wall share.
struct LayerRow {
  std::string
      name;  // "*" for the numbers in which the layers differ; with the type where the name alone says too little
  size_t layers = 1;  // in this row
  double forward_ns = 0;
  double backward_ns = 0;
  double total_ns = 0;               // with update, recompute and what has no direction
  double least_ns = 0, most_ns = 0;  // of one layer
};

// Of the table `layers`; the heaviest first. Rows of no layer ("[Python]") are left out. Layers of one type
// whose names differ in numbers alone are one row if there are at least three.
std::vector<LayerRow> LayerRows(const Table& layers);

}  // namespace dlhook::analyzer::answer

#endif  // DLHOOK_ANALYZER_ANSWER_LAYER_ROWS_H_
