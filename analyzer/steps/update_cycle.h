// Updates, or passes, that alternate: discriminator and generator, two models trained on one batch, an ensemble.
#ifndef DLHOOK_ANALYZER_STEPS_UPDATE_CYCLE_H_
#define DLHOOK_ANALYZER_STEPS_UPDATE_CYCLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dlhook::analyzer::inline steps {

constexpr uint64_t kNoTurn = UINT64_MAX;  // not an update: ends a cycle

// For a sequence of updates, each identified by a number: the position of each in its cycle, 0 for the first of a cycle
// and for those in none. Empty: they do not alternate. A cycle has at most 8 updates of at least two kinds and covers
// nearly all of the sequence; one model after another (aaaabbbb) is not a cycle.
std::vector<size_t> FindTurns(const std::vector<uint64_t>& updates);

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_UPDATE_CYCLE_H_
