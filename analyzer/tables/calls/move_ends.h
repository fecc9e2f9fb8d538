// Between which ops a tensor is converted: which op wrote it, and which reads the result.
#pragma once

#include "analyzer/steps/phases.h"

namespace dlhook::analyzer::inline tables {

// Reorders that undo each other: an op writes a tensor in format A, it is converted to B, and back to A before the next
// op reads it.
struct RoundTrip {
  CallIndex away = 0;      // A -> B
  CallIndex back = 0;      // B -> A
  CallIndex producer = 0;  // the op before the first one
  CallIndex consumer = 0;  // the op after the second one
};

// The log does not identify tensors. A pair is two reorders on one thread in one step, with equal dims and swapped
// formats and types, if
// - the op before the first one has a tensor of these dims in format A, and so has the op after the second one;
// - both ops are in the forward pass, or both in the backward pass: what leaves the former and what enters the latter
//   are different tensors;
// - the op after is not the weight gradient of the op before, which reads its own tensors: no data gradient flows there;
// - of several candidates, the first half is the latest one.
std::vector<RoundTrip> FindRoundTrips(const TraceModel& model, const std::vector<StepTrack>& tracks);

struct MoveEnds {
  CallIndex written_by = kNone;  // kNone: not known
  CallIndex read_by = kNone;
  friend bool operator==(const MoveEnds& a, const MoveEnds& b) = default;
};

// Of the calls of ops in `is_move` (by op index) those of which an end is known.
//
// CPU libraries' logs do not identify tensors, so only neighbours count: the call before on the same thread and in the
// same step, other moves left out, if a result of it has these dims, format and type; and the call after, if it takes
// such a tensor. Both halves of a round trip have the op before the first and the op after the second.
//
// On a GPU: the call that wrote the address that is read, and the one that reads what was written (as far as operands show it). A
// conversion kernel inside a call prepares an operand if another kernel of the call follows it, else it converts the
// result.
absl::flat_hash_map<CallIndex, MoveEnds> FindMoveEnds(const TraceModel& model, const std::vector<StepTrack>& tracks,
                                                      const std::vector<bool>& is_move,
                                                      absl::Span<const RoundTrip> trips);

}  // namespace dlhook::analyzer::tables
