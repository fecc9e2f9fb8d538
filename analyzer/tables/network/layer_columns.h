// The columns of table `layers`.
#pragma once

#include "analyzer/table/typed_columns.h"
#include "analyzer/tables/network/layer_sums.h"
#include "analyzer/tables/tables.h"

namespace dlhook::analyzer::inline tables {

struct LayerRow {
  const LayerGroup& group;
  const LayerSums::Group& sums;
  const LayerSums& all;
  const Attribution& attribution;
  const std::string& step;
};

// What some runs have. Text output shows `model` and `recompute` as columns only if they say something.
struct LayerColumnsShown {
  bool models = false;  // several
  bool recompute = false;
  bool gpu = false;
  bool windows = false;  // recorded in them
};

// `steps`: of the mean. A value that is zero in all steps is shown as unknown: a pooling layer has no weight gradient.
TypedColumns<LayerRow> LayerColumns(By by, const LayerColumnsShown& shown, const TableOptions& options, int64_t steps);

}  // namespace dlhook::analyzer::tables
