// Matches layers of the two runs even if their names differ: a layer inserted into an nn.Sequential shifts the names of
// all later ones.
#ifndef DLHOOK_ANALYZER_DIFF_LAYER_NAMES_H_
#define DLHOOK_ANALYZER_DIFF_LAYER_NAMES_H_

#include "analyzer/diff/row_keys.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"
#include "analyzer/work/sides.h"

namespace dlhook::analyzer::inline diff {

struct NetworkSide {
  const TraceModel* model = nullptr;
  const Attribution* attribution = nullptr;
};

// Aligns the two networks in the order of their forward passes (Needleman and Wunsch, 1970) by the problems that a
// layer's forward pass computes, its kind of work and its name. A layer of BASE that has no match, but whose name
// belongs to another layer in NEW, gets a name that no row has. Unchanged names are not in the map.
NameMap MatchLayerNames(BaseSide<NetworkSide> base, NewSide<NetworkSide> new_side);

}  // namespace dlhook::analyzer::diff

#endif  // DLHOOK_ANALYZER_DIFF_LAYER_NAMES_H_
