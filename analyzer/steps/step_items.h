// Moments put together to what a training loop is written in: a batch is fetched, a network run, gradients computed, weights
// updated.
#ifndef DLHOOK_ANALYZER_STEPS_STEP_ITEMS_H_
#define DLHOOK_ANALYZER_STEPS_STEP_ITEMS_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "analyzer/layers/attribution.h"
#include "analyzer/steps/moments.h"

namespace dlhook::analyzer::inline steps {

// Moments of one kind without another kind in between; kForward: one run through one network. kOther moments are in no item.
struct StepItem {
  MomentKind kind = MomentKind::kOther;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  size_t first = 0;             // index of the first moment
  std::set<LayerIndex> layers;  // of a run: those that were met
  bool at_cut = false;
  bool continues_pass = false;  // of a run: in one pass with the item before it (an encoder and its decoder)
  int64_t batch = 0;            // of a run: as SetBatchSizes tells it; 0: not known
  bool has_links = false;       // of a run: the tap told numbers of backward nodes …
  bool is_linked = false;       // … and one of them ran
  std::vector<uint32_t> marks;  // of an update: the moments, by index
};

// In order of time. A run ends where another network begins, and where its first layer is met again after a network's last one.
// Networks that follow each other are one pass where the first of them comes once in a while and not many times in a row: an encoder
// is run for each request, but a network that was tried once is no part of the requests that another one serves afterwards.
// At each of `cuts` (ascending) an item begins.
std::vector<StepItem> MakeItems(const std::vector<Moment>& moments, const Attribution& attribution,
                                const absl::flat_hash_set<int64_t>& trained_links, const std::vector<int64_t>& cuts);

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_STEP_ITEMS_H_
