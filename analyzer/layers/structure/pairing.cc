// Pairs backward calls of ops that report their direction (oneDNN's log, cuDNN) with the forward calls of one pass.
//
// Several layers with the same descriptor are paired by addresses, if known; else in reverse order, separately for each
// direction, if every layer has its backward call. If some are missing (frozen weights, lost calls), adjacent
// backward-data and backward-weights are taken as one layer's, and layers are matched starting with the last one.

#include "analyzer/layers/structure/network_pass.h"

namespace dlhook::analyzer::inline structure {
namespace {

bool IsWeights(const BackwardCall& call) { return call.direction == Direction::kBackwardWeights; }
uint64_t OutputGradientOf(const BackwardCall& call) { return IsWeights(call) ? call.operands.b : call.operands.a; }

// The forwards and the backward calls of one descriptor.
struct Group {
  std::vector<OpenForward*> forwards;
  std::vector<const BackwardCall*> calls;
};

bool& SlotOf(const BackwardCall& call, OpenForward& forward) {
  return IsWeights(call) ? forward.has_backward_weights : forward.has_backward_data;
}

void Assign(const BackwardCall& call, Evidence evidence, OpenForward& forward) {
  SlotOf(call, forward) = true;
  forward.calls.emplace_back(call.call, BackwardOf(call.direction));
  forward.evidence = std::max(forward.evidence, evidence);
  if (OutputGradientOf(call) != 0) forward.output_gradients.insert(OutputGradientOf(call));
}

bool SharesOperand(const BackwardCall& call, const OpenForward& forward) {
  return IsWeights(call) ? forward.a.contains(call.operands.a) : forward.b.contains(call.operands.b);
}

int64_t CountSharing(const BackwardCall& call, const Group& group) {
  return absl::c_count_if(group.forwards, [&](const OpenForward* forward) { return SharesOperand(call, *forward); });
}

// By addresses: the filter of backward-data, the input of backward-weights; among several with the same input, the one
// whose output gradient is already known.
OpenForward* ByOperands(const BackwardCall& call, const Group& group) {
  OpenForward* found = nullptr;
  for (auto it = group.forwards.rbegin(); it != group.forwards.rend(); ++it) {
    OpenForward& forward = **it;
    if (SlotOf(call, forward) || !SharesOperand(call, forward)) continue;
    if (forward.output_gradients.contains(OutputGradientOf(call))) return &forward;
    if (found == nullptr) found = &forward;
  }
  return found;
}

OpenForward* LastWithout(const BackwardCall& call, const std::vector<OpenForward*>& forwards) {
  for (auto it = forwards.rbegin(); it != forwards.rend(); ++it) {
    if (!SlotOf(call, **it)) return *it;
  }
  return nullptr;
}

// Adjacent backward calls in different directions, grouped as one layer's.
std::vector<std::vector<const BackwardCall*>> Adjacent(const std::vector<const BackwardCall*>& calls) {
  std::vector<std::vector<const BackwardCall*>> units;
  for (const BackwardCall* call : calls) {
    const bool joins = !units.empty() && units.back().size() == 1 && IsWeights(*units.back()[0]) != IsWeights(*call);
    if (!joins) units.emplace_back();
    units.back().push_back(call);
  }
  return units;
}

// Whether reverse order and adjacency agree.
bool AgreesWithNeighbours(const std::vector<const BackwardCall*>& calls) {
  int data = 0, weights = 0;
  for (const auto& unit : Adjacent(calls)) {
    const int place = std::max(data, weights);
    for (const BackwardCall* call : unit) {
      int& count = IsWeights(*call) ? weights : data;
      if (count++ != place) return false;
    }
  }
  return true;
}

void PairInReverse(const Group& group, const std::vector<const BackwardCall*>& calls,
                   std::vector<CallIndex>& unpaired) {
  const Evidence evidence = group.forwards.size() > 1 ? Evidence::kOrder : Evidence::kShapes;
  for (const BackwardCall* call : calls) {
    OpenForward* forward = LastWithout(*call, group.forwards);
    // More backward calls than layers: several calls for one layer are accepted only if there is no other.
    if (forward == nullptr && group.forwards.size() == 1) forward = group.forwards[0];
    if (forward == nullptr) {
      unpaired.push_back(call->call);
    } else {
      Assign(*call, evidence, *forward);
    }
  }
}

void PairNeighbours(const Group& group, const std::vector<const BackwardCall*>& calls,
                    std::vector<CallIndex>& unpaired) {
  const auto units = Adjacent(calls);
  for (size_t i = 0; i < units.size(); ++i) {
    const bool is_beyond = i >= group.forwards.size();
    for (const BackwardCall* call : units[i]) {
      if (is_beyond) {
        unpaired.push_back(call->call);
      } else {
        Assign(*call, Evidence::kOrder, *group.forwards[group.forwards.size() - 1 - i]);
      }
    }
  }
}

// Whether every layer has its calls in both directions, or in the only one there is. The network's first layer needs no
// gradient of its input.
bool IsComplete(const Group& group, const std::vector<const BackwardCall*>& calls, bool has_first) {
  const size_t weights = absl::c_count_if(calls, [](const BackwardCall* call) { return IsWeights(*call); });
  const size_t data = calls.size() - weights, layers = group.forwards.size();
  const bool has_data = data == 0 || data == layers || (has_first && data + 1 == layers);
  return has_data && (weights == 0 || weights == layers);
}

void PairGroup(const Group& group, const OpenForward* first, std::vector<CallIndex>& unpaired) {
  // First the calls that only one layer explains: their output gradients help with the others.
  std::vector<const BackwardCall*> open = group.calls;
  for (bool only_clear : {true, false}) {
    std::erase_if(open, [&](const BackwardCall* call) {
      if (only_clear && CountSharing(*call, group) != 1) return false;
      OpenForward* forward = ByOperands(*call, group);
      if (forward != nullptr) Assign(*call, Evidence::kPointers, *forward);
      return forward != nullptr;
    });
  }
  if (open.empty()) return;
  if (group.forwards.size() <= 1) return PairInReverse(group, open, unpaired);
  const bool is_complete = IsComplete(group, open, group.forwards[0] == first);
  const bool is_clear = is_complete && AgreesWithNeighbours(open);
  if (is_complete) {
    PairInReverse(group, open, unpaired);
  } else {
    PairNeighbours(group, open, unpaired);
  }
  for (OpenForward* forward : group.forwards) forward->is_disputed = forward->is_disputed || !is_clear;
}

}  // namespace

void PairBackward(const std::vector<BackwardCall>& backward, std::vector<OpenForward>& forwards,
                  std::vector<CallIndex>& unpaired) {
  if (backward.empty()) return;
  std::map<std::string, Group> groups;
  const OpenForward* first = nullptr;
  for (OpenForward& forward : forwards) {
    if (forward.facts->work != Work::kLayer || forward.facts->is_product) continue;
    if (first == nullptr) first = &forward;
    groups[forward.facts->key].forwards.push_back(&forward);
  }
  for (const BackwardCall& call : backward) groups[call.facts->key].calls.push_back(&call);
  for (const auto& [key, group] : groups) PairGroup(group, first, unpaired);
}

}  // namespace dlhook::analyzer::structure
