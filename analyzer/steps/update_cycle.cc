// Updates that alternate: see step_assembly.h.
#include <algorithm>
#include <set>

#include "analyzer/steps/step_assembly.h"

namespace dlhook::analyzer::inline steps {
namespace {

constexpr size_t kMaxCycle = 8;
constexpr size_t kMinCycles = 2;
constexpr double kNearlyAll = 0.9;

bool IsCycle(const std::vector<uint64_t>& updates, size_t length) {
  if (updates.size() < kMinCycles * length) return false;
  size_t equal = 0;
  for (size_t i = length; i < updates.size(); ++i) equal += updates[i] == updates[i - length] ? 1 : 0;
  if (static_cast<double>(equal) < kNearlyAll * static_cast<double>(updates.size() - length)) return false;
  size_t mixed = 0;
  const size_t cycles = updates.size() / length;
  for (size_t cycle = 0; cycle < cycles; ++cycle) {
    const auto begin = updates.begin() + static_cast<ptrdiff_t>(cycle * length);
    mixed += std::set<uint64_t>(begin, begin + static_cast<ptrdiff_t>(length)).size() > 1 ? 1 : 0;
  }
  return static_cast<double>(mixed) >= kNearlyAll * static_cast<double>(cycles);
}

}  // namespace

std::vector<size_t> FindTurns(const std::vector<uint64_t>& updates) {
  std::vector<uint64_t> known;
  std::copy_if(updates.begin(), updates.end(), std::back_inserter(known),
               [](uint64_t update) { return update != kNoTurn; });
  size_t length = 2;
  while (length <= kMaxCycle && !IsCycle(known, length)) ++length;
  if (length > kMaxCycle) return {};
  std::vector<size_t> places;
  size_t next = 0;
  for (uint64_t update : updates) {
    if (update == kNoTurn || update != known[next]) next = 0;
    places.push_back(next);
    if (update == known[next]) next = (next + 1) % length;
  }
  return places;
}

}  // namespace dlhook::analyzer::steps
