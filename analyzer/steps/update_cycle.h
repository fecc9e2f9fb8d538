// Updates, or passes, that take turns: discriminator and generator, two models trained on one batch, an ensemble.
#ifndef DLHOOK_ANALYZER_STEPS_UPDATE_CYCLE_H_
#define DLHOOK_ANALYZER_STEPS_UPDATE_CYCLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dlhook::analyzer::inline steps {

constexpr uint64_t kNoTurn = UINT64_MAX;  // no update: ends a cycle

// Of a sequence of updates, each given by which one it is: the place of each in its cycle, 0 for the first of a cycle and for
// what is in none. Empty: they don't take turns. A cycle is at most 8 updates long, of at least two kinds, and makes up nearly
// all of the sequence; one model after another (aaaabbbb) is none.
std::vector<size_t> FindTurns(const std::vector<uint64_t>& updates);

}  // namespace dlhook::analyzer::steps

#endif  // DLHOOK_ANALYZER_STEPS_UPDATE_CYCLE_H_
