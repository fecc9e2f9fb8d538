// Which layer of the new run is which of the base run, although it may be called otherwise: a layer put into an
// nn.Sequential shifts the names of all behind it.
#ifndef DLHOOK_ANALYZER_DIFF_LAYER_NAMES_H_
#define DLHOOK_ANALYZER_DIFF_LAYER_NAMES_H_

#include "analyzer/diff/row_keys.h"
#include "analyzer/diff/sides.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/model/trace_model.h"

namespace dlhook::analyzer::inline diff {

struct NetworkSide {
  const TraceModel* model = nullptr;
  const Attribution* attribution = nullptr;
};

// The two networks are laid side by side in the order of their forward passes so that as much as possible fits: the
// problems that a layer's forward pass computes, its kind of work, its name (Needleman and Wunsch, 1970). A layer of
// the base run whose name is another layer's in the new run, and which itself is gone, gets a name that no row has.
// Names that stay are not in the map.
NameMap MatchLayerNames(Baseline<NetworkSide> base, Contender<NetworkSide> candidate);

}  // namespace dlhook::analyzer::diff

#endif  // DLHOOK_ANALYZER_DIFF_LAYER_NAMES_H_
